// SPDX-License-Identifier: Apache-2.0
// Copies and sets that are larger than the room on the device: done in parts, each an operation of its own in stream
// order, that end where an eviction unit does. So a unit that is overwritten whole is never brought back. Rows are not
// cut: one that is larger than the room needs all of it.
#pragma once

#include <cstddef>

#include "hooks/submit/shapes.h"
#include "hooks/submit/submit.h"

namespace thermocline {

// The part of so many bytes that begins so many bytes behind the beginning.
using Part = CallOf<std::size_t, std::size_t>;

// `accesses` are those of all of it, and are not looked at again when parts begin. 0 stands for an end that is no
// device memory, or of no matter. What can be done at once, and what is recorded, is one part. An error: the parts
// before have been submitted.
CUresult in_parts(StreamHandle stream, const AccessList& accesses, CUdeviceptr to, CUdeviceptr from, std::size_t bytes,
                  Part part);

// Rows that are done at once: of one layer, or whole layers.
struct Region {
  Bytes first_layer = 0, layers = 1;
  Bytes first_row = 0, rows = 1;
};
using RegionPart = CallOf<const Region&>;

// The same for rows: `to` and `from` have the same shape, but for what is an array's.
CUresult in_parts(StreamHandle stream, const AccessList& accesses, const Placed& to, const Placed& from,
                  RegionPart part);

// Whether all of it can be on the device at once, or has to be one operation because the stream records.
CUresult ask_whether_at_once(StreamHandle stream, const AccessList& accesses, bool* at_once);

}  // namespace thermocline
