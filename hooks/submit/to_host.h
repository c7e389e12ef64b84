// SPDX-License-Identifier: Apache-2.0
// Copies of one range to the host. What of it is evicted is not fetched: it is copied on the host, in the order of the
// stream, from where it lies there. So such a copy needs no room on the device.
#pragma once

#include <cstddef>

#include "hooks/runtime/guarded.h"
#include "hooks/submit/in_parts.h"
#include "hooks/submit/submit.h"

namespace thermocline {

// In runs, each of which is evicted or is not, in the order of their addresses. `part` submits one with the driver's
// own call, given what else is known of it, and what to do instead where it is evicted.
using RunOfCopy = CallOf<std::size_t, std::size_t, OperationInfo, CallFrom>;
CUresult copy_to_host(StreamHandle stream, Host host, void* to, CUdeviceptr from, std::size_t bytes, OperationInfo info,
                      RunOfCopy run);

// Whether the copy is one from memory of ours to the host, or to memory of which nothing is known.
bool is_copy_to_host(CUdeviceptr to, CUdeviceptr from);

}  // namespace thermocline
