// SPDX-License-Identifier: Apache-2.0
// Copies between devices, both of which are the same one.
#include "tests/fuzz_cuda/api_path.h"

namespace {
using namespace model;

bool fits(const CopyEnd& to, const CopyEnd& from, std::size_t) { return to.on_device() && from.on_device(); }

void peer(World& world, unsigned stream, const CopyEnd& to, const CopyEnd& from, std::size_t bytes) {
  const CUcontext context = world.device.context;
  CHECK_CUDA(cuMemcpyPeerAsync(to.address, context, from.address, context, bytes, world.stream(stream)));
}

void layers(World& world, unsigned stream, const CopyEnd& to, const CopyEnd& from, std::size_t bytes) {
  CUDA_MEMCPY3D_PEER shape{};
  shape.dstMemoryType = shape.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  shape.dstDevice = to.address;
  shape.srcDevice = from.address;
  shape.dstContext = shape.srcContext = world.device.context;
  shape.dstPitch = shape.srcPitch = shape.WidthInBytes = bytes;
  shape.dstHeight = shape.srcHeight = shape.Height = shape.Depth = 1;
  CHECK_CUDA(cuMemcpy3DPeerAsync(&shape, world.stream(stream)));
}

const Registered<Copying> range({{"copy_peer", 3}, Needs::kAnyStream, fits, peer});
const Registered<Copying> rows({{"copy_peer_layers", 1}, Needs::kAnyStream, fits, layers});
}  // namespace
