// SPDX-License-Identifier: Apache-2.0
// cuMemAllocPitch: rows with padding. The buffer is the beginning of the allocation.
#include "tests/fuzz_cuda/api_path.h"

namespace {
using namespace model;

bool allocate(World&, Buffer& buffer) {
  std::size_t pitch = 0;
  const std::size_t rows = buffer.bytes() % 64 == 0 ? 8 : 1;
  CHECK_CUDA(cuMemAllocPitch(&buffer.address, &pitch, buffer.bytes() / rows, rows, 8));
  return true;
}

void release(World&, Buffer& buffer) { CHECK_CUDA(cuMemFree(buffer.address)); }

const Registered<Memory> api_path({{"pitched", 2}, allocate, release});
}  // namespace
