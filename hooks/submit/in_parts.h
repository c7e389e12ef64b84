// SPDX-License-Identifier: Apache-2.0
// Copies and sets that are larger than the room on the device are done in parts, each a separate operation in stream
// order. Parts end where an eviction unit of either end ends, so a unit that is overwritten completely is never
// fetched, and a part needs at most one unit of each end. If even these do not fit together, the engine lets the copy
// read its source from the host copy (OperationInfo::reads_host_copy). A row is divided if it lies in several units.
#pragma once

#include <cstddef>

#include "hooks/submit/regions.h"
#include "hooks/submit/submit.h"

namespace thermocline {

// Called with the offset and the size of a part.
using Part = CallOf<std::size_t, std::size_t>;

// The largest element of an array; an element is never divided.
inline constexpr std::size_t kArrayElementBytes = 16;

// `accesses`: those of the whole operation, not examined again for parts. `to` or `from` 0: that end is not device
// memory, or does not matter. An operation that fits at once, or that is captured, is a single part. On an error,
// earlier parts have been submitted, but none if it ends beyond a buffer (ends.h). Parts begin at multiples of
// `grain`.
CUresult in_parts(StreamHandle stream, const AccessList& accesses, CUdeviceptr to, CUdeviceptr from, std::size_t bytes,
                  Part part, std::size_t grain = 1);

using RegionPart = CallOf<const Region&>;

// Copies rows in parts. `to` and `from` have the same shape, except for an end that is an array.
CUresult in_parts(StreamHandle stream, const AccessList& accesses, const Placed& to, const Placed& from,
                  RegionPart part, std::size_t grain = 1);

// Whether all of it can be on the device at once, or must be one operation because the stream is capturing.
CUresult ask_whether_at_once(StreamHandle stream, const AccessList& accesses, bool* at_once);

}  // namespace thermocline
