// SPDX-License-Identifier: Apache-2.0
// The memory that copies and sets of rows access: from the first byte of the first row to the last byte of the last.
// The gaps between rows count as accessed too (they are in the same buffer), but the range does not count as completely
// overwritten.
#pragma once

#include "hooks/submit/submit.h"

namespace thermocline {

// Rows of `width` bytes, `pitch` bytes apart, in layers that are `layer_rows` rows apart.
struct Box {
  Bytes width = 0;
  Bytes rows = 1;
  Bytes layers = 1;
  Bytes pitch = 0;
  Bytes layer_rows = 0;
};

// A box of rows and the address where it begins. For an array the width is 0.
struct Placed {
  CUdeviceptr at = 0;
  Box box;
};

// The span of a shape whose size overflows: it ends beyond any buffer.
inline constexpr Bytes kNoMemoryIsAsLarge = ~Bytes{0};
// From the first byte of the first row to the last byte of the last.
Bytes span_of(const Box& box);

void add_read(AccessList* accesses, CUdeviceptr at, const Box& box);
void add_write(AccessList* accesses, CUdeviceptr at, const Box& box);

struct ShapedCopy {
  AccessList accesses;
  Placed to, from;
  // Whether the host waits, in the synchronous variant.
  Host host = Host::kGoesOn;
};

ShapedCopy shape_of(const CUDA_MEMCPY2D* copy);
ShapedCopy shape_of(const CUDA_MEMCPY3D* copy);
ShapedCopy shape_of(const CUDA_MEMCPY3D_PEER* copy);
ShapedCopy shape_of(const CUDA_MEMCPY3D_BATCH_OP* copy);
void add_set(AccessList* accesses, const CUDA_MEMSET_NODE_PARAMS& set);

}  // namespace thermocline
