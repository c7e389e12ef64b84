// SPDX-License-Identifier: Apache-2.0
// The driver's functions for per-thread default streams: other symbols, _ptsz and _ptds.
#define CUDA_API_PER_THREAD_DEFAULT_STREAM
#include "tests/fuzz_cuda/api_path.h"

namespace {
using namespace model;

bool fits(const CopyEnd&, const CopyEnd&, std::size_t) { return true; }

void in_order(World&, unsigned, const CopyEnd& to, const CopyEnd& from, std::size_t bytes) {
  if (!from.on_device()) return CHECK_CUDA(cuMemcpyHtoDAsync(to.address, from.host(), bytes, nullptr));
  if (!to.on_device()) return CHECK_CUDA(cuMemcpyDtoHAsync(to.host(), from.address, bytes, nullptr));
  CHECK_CUDA(cuMemcpyDtoDAsync(to.address, from.address, bytes, nullptr));
}

void blocking(World&, unsigned, const CopyEnd& to, const CopyEnd& from, std::size_t bytes) {
  if (!from.on_device()) return CHECK_CUDA(cuMemcpyHtoD(to.address, from.host(), bytes));
  if (!to.on_device()) return CHECK_CUDA(cuMemcpyDtoH(to.host(), from.address, bytes));
  CHECK_CUDA(cuMemcpyDtoD(to.address, from.address, bytes));
}

void plain(World& world, unsigned, Task& task) {
  std::vector<void*> parameters = task.parameters();
  CHECK_CUDA(cuLaunchKernel(function_of(world, task), 1, 1, 1, 64, 1, 1, 0, nullptr, parameters.data(), nullptr));
}

const Registered<Copying> one({{"copy_ptsz", 4}, Needs::kThreadStream, fits, in_order});
const Registered<Copying> two({{"copy_ptds", 4}, Needs::kThreadStream, fits, blocking});
const Registered<Launching> three({{"launch_ptsz", 2}, Needs::kThreadStream, plain});
}  // namespace
