// SPDX-License-Identifier: Apache-2.0
// Copies of one range to the host. Evicted parts of the source are not fetched: they are copied from their host copy,
// in stream order. So such a copy needs no room on the device.
#pragma once

#include <cstddef>

#include "hooks/runtime/guarded.h"
#include "hooks/submit/in_parts.h"
#include "hooks/submit/submit.h"

namespace thermocline {

// Divides the copy into runs that are entirely evicted or entirely resident, in order of address. `run` submits one of
// them: it is given the operation's info, and what to do instead if the run is evicted.
using RunOfCopy = CallOf<std::size_t, std::size_t, OperationInfo, CallFrom>;
CUresult copy_to_host(StreamHandle stream, Host host, void* to, CUdeviceptr from, std::size_t bytes, OperationInfo info,
                      RunOfCopy run);

// Whether the copy is from an engine's memory to the host, or to memory about which nothing is known.
bool is_copy_to_host(CUdeviceptr to, CUdeviceptr from);

}  // namespace thermocline
