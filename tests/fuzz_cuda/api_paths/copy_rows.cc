// SPDX-License-Identifier: Apache-2.0
// Copies of rows and of layers, which are contiguous here.
#include "tests/fuzz_cuda/api_path.h"

namespace {
using namespace model;

bool in_two_rows(const CopyEnd&, const CopyEnd&, std::size_t bytes) { return bytes % 16 == 0; }
bool in_layers(const CopyEnd&, const CopyEnd&, std::size_t bytes) { return bytes % 24 == 0; }

CUmemorytype kind_of(const CopyEnd& place) { return place.on_device() ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST; }

template <typename Shape>
void set_ends(Shape& shape, const CopyEnd& to, const CopyEnd& from, std::size_t pitch) {
  shape.dstMemoryType = kind_of(to);
  shape.srcMemoryType = kind_of(from);
  if (to.on_device()) {
    shape.dstDevice = to.address;
  } else {
    shape.dstHost = to.host();
  }
  if (from.on_device()) {
    shape.srcDevice = from.address;
  } else {
    shape.srcHost = from.host();
  }
  shape.dstPitch = shape.srcPitch = pitch;
}

void rows(World& world, unsigned stream, const CopyEnd& to, const CopyEnd& from, std::size_t bytes) {
  CUDA_MEMCPY2D shape{};
  set_ends(shape, to, from, bytes / 2);
  shape.WidthInBytes = bytes / 2;
  shape.Height = 2;
  CHECK_CUDA(cuMemcpy2DAsync(&shape, world.stream(stream)));
}

void layers(World& world, unsigned stream, const CopyEnd& to, const CopyEnd& from, std::size_t bytes) {
  CUDA_MEMCPY3D shape{};
  set_ends(shape, to, from, bytes / 3);
  shape.dstHeight = shape.srcHeight = 1;
  shape.WidthInBytes = bytes / 3;
  shape.Height = 1;
  shape.Depth = 3;
  CHECK_CUDA(cuMemcpy3DAsync(&shape, world.stream(stream)));
}

void rows_at_once(World& world, unsigned, const CopyEnd& to, const CopyEnd& from, std::size_t bytes) {
  CUDA_MEMCPY2D shape{};
  set_ends(shape, to, from, bytes / 2);
  shape.WidthInBytes = bytes / 2;
  shape.Height = 2;
  CHECK_CUDA(world.random.one_in(2) ? cuMemcpy2D(&shape) : cuMemcpy2DUnaligned(&shape));
}

const Registered<Copying> two({{"copy_rows", 4}, Needs::kAnyStream, in_two_rows, rows});
const Registered<Copying> three({{"copy_layers", 3}, Needs::kAnyStream, in_layers, layers});
const Registered<Copying> blocking({{"copy_rows_blocking", 2}, Needs::kLegacyStream, in_two_rows, rows_at_once});
}  // namespace
