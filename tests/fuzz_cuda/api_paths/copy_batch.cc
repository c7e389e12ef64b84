// SPDX-License-Identifier: Apache-2.0
// cuMemcpyBatchAsync: two halves in one call. Not in the legacy stream.
#include "tests/fuzz_cuda/api_path.h"

namespace {
using namespace model;

bool fits(const CopyEnd& to, const CopyEnd&, std::size_t bytes) {
  static const bool has_batches = driver_has("cuMemcpyBatchAsync");
  return has_batches && bytes >= 16 && to.kind != CopyEnd::Kind::kPageable;
}

void batch(World& world, unsigned stream, const CopyEnd& to, const CopyEnd& from, std::size_t bytes) {
  const std::size_t half = bytes / 16 * 8;
  CUdeviceptr tos[] = {to.address, to.address + half}, froms[] = {from.address, from.address + half};
  std::size_t sizes[] = {half, bytes - half}, first = 0;
  CUmemcpyAttributes attributes{};
  attributes.srcAccessOrder = from.kind == CopyEnd::Kind::kPageable ? CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL
                                                                    : CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
  CHECK_CUDA(cuMemcpyBatchAsync(tos, froms, sizes, 2, &attributes, &first, 1, world.stream(stream)));
}

const Registered<Copying> own({{"copy_batch", 3}, Needs::kOwnStream, fits, batch});
const Registered<Copying> per_thread({{"copy_batch_per_thread", 2}, Needs::kThreadStream, fits, batch});
}  // namespace
