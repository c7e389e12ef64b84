// SPDX-License-Identifier: Apache-2.0
// cuMemAlloc and cuMemFree, which waits; or cuMemFreeAsync, in any stream that is ordered after all uses.
#include "tests/fuzz_cuda/api_path.h"

namespace {
using namespace model;

bool allocate(World&, Buffer& buffer) {
  CHECK_CUDA(cuMemAlloc(&buffer.address, buffer.bytes()));
  return true;
}

void release(World& world, Buffer& buffer) {
  if (world.random.one_in(2)) return CHECK_CUDA(cuMemFree(buffer.address));
  const unsigned stream = world.any_stream();
  world.before_write(stream, buffer);
  CHECK_CUDA(cuMemFreeAsync(buffer.address, world.stream(stream)));
  world.submitted(stream);
}

const Registered<Memory> api_path({{"plain", 12}, allocate, release});
}  // namespace
