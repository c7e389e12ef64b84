// SPDX-License-Identifier: Apache-2.0
// cuMemcpy3DBatchAsync: two adjacent boxes in one call. Not in the legacy stream.
#include "tests/fuzz_cuda/api_path.h"

namespace {
using namespace model;

constexpr std::size_t kRow = 64;

bool fits(const CopyEnd& to, const CopyEnd&, std::size_t bytes) {
  static const bool has_batches = driver_has("cuMemcpy3DBatchAsync");
  return has_batches && bytes >= 2 * kRow && to.kind != CopyEnd::Kind::kPageable;
}

CUmemcpy3DOperand at(CUdeviceptr address) {
  CUmemcpy3DOperand operand{};
  operand.type = CU_MEMCPY_OPERAND_TYPE_POINTER;
  operand.op.ptr.ptr = address;
  return operand;
}

void batch(World& world, unsigned stream, const CopyEnd& to, const CopyEnd& from, std::size_t bytes) {
  const std::size_t rows = bytes / kRow, rest = bytes - rows * kRow;
  CUDA_MEMCPY3D_BATCH_OP ops[2] = {};
  ops[0].dst = at(to.address);
  ops[0].src = at(from.address);
  ops[0].extent = {kRow, rows, 1};
  ops[1].dst = at(to.address + rows * kRow);
  ops[1].src = at(from.address + rows * kRow);
  ops[1].extent = {rest, 1, 1};
  for (CUDA_MEMCPY3D_BATCH_OP& op : ops) {
    op.srcAccessOrder = from.kind == CopyEnd::Kind::kPageable ? CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL
                                                              : CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
  }
  CHECK_CUDA(cuMemcpy3DBatchAsync(rest == 0 ? 1 : 2, ops, 0, world.stream(stream)));
}

const Registered<Copying> own({{"copy_batch_3d", 2}, Needs::kOwnStream, fits, batch});
const Registered<Copying> per_thread({{"copy_batch_3d_per_thread", 1}, Needs::kThreadStream, fits, batch});
}  // namespace
