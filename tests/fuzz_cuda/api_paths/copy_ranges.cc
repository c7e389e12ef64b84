// SPDX-License-Identifier: Apache-2.0
// One range: cuMemcpyHtoDAsync and similar, and cuMemcpyAsync, which determines the kinds of the addresses.
#include "tests/fuzz_cuda/api_path.h"

namespace {
using namespace model;

bool fits(const CopyEnd&, const CopyEnd&, std::size_t) { return true; }

void by_direction(World& world, unsigned stream, const CopyEnd& to, const CopyEnd& from, std::size_t bytes) {
  const CUstream in = world.stream(stream);
  if (!from.on_device()) return CHECK_CUDA(cuMemcpyHtoDAsync(to.address, from.host(), bytes, in));
  if (!to.on_device()) return CHECK_CUDA(cuMemcpyDtoHAsync(to.host(), from.address, bytes, in));
  CHECK_CUDA(cuMemcpyDtoDAsync(to.address, from.address, bytes, in));
}

void by_address(World& world, unsigned stream, const CopyEnd& to, const CopyEnd& from, std::size_t bytes) {
  CHECK_CUDA(cuMemcpyAsync(to.address, from.address, bytes, world.stream(stream)));
}

const Registered<Copying> one({{"copy_range", 10}, Needs::kAnyStream, fits, by_direction});
const Registered<Copying> two({{"copy_unified", 2}, Needs::kAnyStream, fits, by_address});
}  // namespace
