// SPDX-License-Identifier: Apache-2.0
// Copies to the host, of one range or of rows. Evicted parts of the source are not fetched: they are copied from their
// host copy, in stream order. So such a copy needs no room on the device. Also: copies within the device whose source
// may be read from its host copy.
#pragma once

#include <cstddef>

#include "hooks/runtime/guarded.h"
#include "hooks/submit/in_parts.h"
#include "hooks/submit/submit.h"

namespace thermocline {

// Divides the copy into runs that are entirely evicted or entirely resident, in order of address. `run` submits one
// run: it gets the operation's info, and the call to make instead if the run is evicted.
using RunOfCopy = CallOf<std::size_t, std::size_t, OperationInfo, CallFrom>;
CUresult copy_to_host(StreamHandle stream, Host host, CUdeviceptr to, CUdeviceptr from, std::size_t bytes,
                      OperationInfo info, RunOfCopy run);
// Copies rows to the host; a row that is partly evicted is divided, too. Null call: there is no alternative call.
using RunOfRows = CallOf<const Region&, const OperationInfo&, const CallFrom*>;
CUresult copy_to_host(StreamHandle stream, Host host, const Placed& to, const Placed& from, OperationInfo info,
                      RunOfRows run);

// False for rows that overlap: these are left to the driver, which may refuse them.
bool is_ordinary(const Box& box);

// Submits a copy to the device from the host copy of its source, which has the source's shape. The host does not wait.
CUresult copy_from_host_copy(StreamHandle stream, const Placed& to, const void* host_copy, const Box& shape);
CUresult copy_from_host_copy(StreamHandle stream, CUdeviceptr to, const void* host_copy, std::size_t bytes);

// Whether the copy goes from an engine's memory to the host, or to memory about which nothing is known.
bool is_copy_to_host(CUdeviceptr to, CUdeviceptr from);
bool is_copy_to_host(const ShapedCopy& shape);

// Whether any of the range is evicted.
bool is_on_host(CUdeviceptr from, std::size_t bytes);

}  // namespace thermocline
