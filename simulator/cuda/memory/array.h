// SPDX-License-Identifier: Apache-2.0
// CUDA arrays: memory of the device whose layout is the driver's own. Here rows follow each other without a gap, and
// slices, too; what a program can tell of that is nothing.
//
// Carried: one, two and three dimensions, layers and cube maps, of 1, 2 or 4 channels of 8, 16 or 32 bits. Mipmaps,
// sparse arrays and formats of video and of compressed blocks are refused.
#pragma once

#include "simulator/cuda/call.h"

struct CUarray_st {
  CUDA_ARRAY3D_DESCRIPTOR description{};
  CUcontext context = nullptr;
  simulator::Address address = 0;
  simulator::Bytes element = 0;  // bytes of one

  // In bytes and rows; as many as there are, at least one.
  simulator::Bytes row() const { return description.Width * element; }
  simulator::Bytes rows() const { return description.Height == 0 ? 1 : description.Height; }
  simulator::Bytes slices() const { return description.Depth == 0 ? 1 : description.Depth; }
  simulator::Bytes bytes() const { return row() * rows() * slices(); }
};

namespace simulator::cuda {

// 0: no such format, or so many channels.
Bytes element_bytes(CUarray_format format, unsigned channels);

// All that was made in the context, as when it ends. No work is pending.
void destroy_arrays_of(Call& call, CUcontext context);

}  // namespace simulator::cuda
