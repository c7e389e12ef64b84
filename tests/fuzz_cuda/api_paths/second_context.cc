// SPDX-License-Identifier: Apache-2.0
// A second context with memory of its own, through which a buffer's bytes are sent: copied there, changed by a kernel
// of that context, copied back.
#include "tests/fuzz_cuda/api_path.h"

namespace {
using namespace model;

void visit(World& world) {
  if (world.buffers().empty()) return;
  const Slice slice = world.any_slice();
  if (slice.bytes() > kMiB) return;
  const unsigned stream = world.own_stream();
  CUcontext other = nullptr;
  CUmodule module = nullptr;
  CUfunction kernel = nullptr;
  CUdeviceptr theirs = 0, at = slice.address();
  CHECK_CUDA(cuCtxCreate(&other, nullptr, 0, world.device.device));
  CHECK_CUDA(cuModuleLoadData(&module, kImage));
  CHECK_CUDA(cuModuleGetFunction(&kernel, module, "model_change_every_word"));
  CHECK_CUDA(cuMemAlloc(&theirs, slice.bytes()));
  CHECK_CUDA(cuCtxPopCurrent(&other));
  world.before_write(stream, *slice.buffer);
  CHECK_CUDA(cuMemcpyPeerAsync(theirs, other, at, world.device.context, slice.bytes(), world.stream(stream)));
  CHECK_CUDA(cuStreamSynchronize(world.stream(stream)));
  CHECK_CUDA(cuCtxPushCurrent(other));
  std::uint64_t count = slice.count, salt = world.random.next();
  void* parameters[] = {&theirs, &count, &salt};
  CHECK_CUDA(cuLaunchKernel(kernel, 1, 1, 1, 64, 1, 1, 0, nullptr, parameters, nullptr));
  CHECK_CUDA(cuStreamSynchronize(nullptr));
  CHECK_CUDA(cuCtxPopCurrent(&other));
  CHECK_CUDA(cuMemcpyPeerAsync(at, world.device.context, theirs, other, slice.bytes(), world.stream(stream)));
  world.submitted(stream);
  world.after_write(stream, *slice.buffer);
  change_every_word(slice.words(), salt);
  CHECK_CUDA(cuStreamSynchronize(world.stream(stream)));
  CHECK_CUDA(cuCtxPushCurrent(other));
  CHECK_CUDA(cuMemFree(theirs));
  CHECK_CUDA(cuModuleUnload(module));
  CHECK_CUDA(cuCtxPopCurrent(&other));
  CHECK_CUDA(cuCtxDestroy(other));
}

const Registered<Step> step({{"second_context", 1}, visit});
}  // namespace
