// SPDX-License-Identifier: Apache-2.0
// Copies without a stream: in the legacy stream; the host waits for most of them.
#include "tests/fuzz_cuda/api_path.h"

namespace {
using namespace model;

bool fits(const CopyEnd&, const CopyEnd&, std::size_t) { return true; }

void blocking(World& world, unsigned, const CopyEnd& to, const CopyEnd& from, std::size_t bytes) {
  if (world.random.one_in(4)) return CHECK_CUDA(cuMemcpy(to.address, from.address, bytes));
  if (!from.on_device()) return CHECK_CUDA(cuMemcpyHtoD(to.address, from.host(), bytes));
  if (!to.on_device()) return CHECK_CUDA(cuMemcpyDtoH(to.host(), from.address, bytes));
  CHECK_CUDA(cuMemcpyDtoD(to.address, from.address, bytes));
}

const Registered<Copying> api_path({{"copy_blocking", 6}, Needs::kLegacyStream, fits, blocking});
}  // namespace
