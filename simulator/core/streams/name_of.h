// SPDX-License-Identifier: Apache-2.0
// Names of work for messages, and iteration over the rows of a shape.
#pragma once

#include <string_view>

#include "simulator/core/streams/operation.h"

namespace simulator {

std::string_view name_of(const Work& work);

// Calls `row(offset in this shape, bytes)` for each contiguous range.
template <typename Row>
void for_rows(const Shape& shape, Row row) {
  const Bytes slice = shape.width * shape.height;
  const bool rows_access = shape.height == 1 || shape.row_pitch == shape.width;
  const bool slices_access = shape.depth == 1 || shape.slice_pitch == slice;
  if (rows_access && slices_access) {
    row(Bytes{0}, slice * shape.depth);
    return;
  }
  for (Bytes z = 0; z < shape.depth; ++z) {
    for (Bytes y = 0; y < shape.height; ++y) row(z * shape.slice_pitch + y * shape.row_pitch, shape.width);
  }
}

}  // namespace simulator
