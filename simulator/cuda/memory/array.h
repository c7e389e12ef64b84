// SPDX-License-Identifier: Apache-2.0
// CUDA arrays: device memory with a layout that only the driver knows. Here rows and slices are contiguous; a program
// can not see that.
//
// Supported: one, two and three dimensions, layers and cube maps, with 1, 2 or 4 channels of 8, 16 or 32 bits. Mipmaps,
// sparse arrays, and formats for video and compressed blocks are refused.
#pragma once

#include "simulator/cuda/call.h"

struct CUarray_st {
  CUDA_ARRAY3D_DESCRIPTOR description{};
  CUcontext context = nullptr;
  simulator::Address address = 0;
  simulator::Bytes element = 0;  // size of one element

  // Row size in bytes, and number of rows, which is at least one.
  simulator::Bytes row() const { return description.Width * element; }
  simulator::Bytes rows() const { return description.Height == 0 ? 1 : description.Height; }
  simulator::Bytes slices() const { return description.Depth == 0 ? 1 : description.Depth; }
  simulator::Bytes bytes() const { return row() * rows() * slices(); }
};

namespace simulator::cuda {

// 0: unsupported format or number of channels.
Bytes element_bytes(CUarray_format format, unsigned channels);

// Destroys everything that was created in the context, because it ends. No work is pending.
void destroy_arrays_of(Call& call, CUcontext context);

}  // namespace simulator::cuda
