// SPDX-License-Identifier: Apache-2.0
// Values that streams write to memory or wait for. Both versions of each function do the same. Flushing remote writes
// is not supported, as the attribute says, since there are none. A batch becomes one operation for each entry or, in a
// capturing stream, one node for each.
#include "simulator/cuda/stream/stream_values.h"

#include "simulator/cuda/graph/capture.h"
#include "simulator/cuda/memory/memory_kinds.h"

using namespace simulator;
using namespace simulator::cuda;

namespace {

constexpr unsigned kMostOfBatch = 256;

// Whether the device may access it, it is aligned to its size, and it is not managed (documented for the whole module).
bool is_word(Call& call, CUdeviceptr at, std::uint32_t bytes) {
  return at != 0 && at % bytes == 0 && memory_kind_at(call.machine(), at) != MemoryKind::kPageable &&
         !is_managed(call, at);
}

CUresult make_write(Call& call, CUdeviceptr to, std::uint64_t value, std::uint32_t bytes, unsigned flags, Work* out) {
  if (!is_word(call, to, bytes) || (flags & ~unsigned{CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER}) != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *out = WriteValue{to, value, bytes};
  return CUDA_SUCCESS;
}

CUresult make_wait(Call& call, CUdeviceptr at, std::uint64_t value, std::uint32_t bytes, unsigned flags, Work* out) {
  constexpr unsigned kFlush = CU_STREAM_WAIT_VALUE_FLUSH;
  if (!is_word(call, at, bytes) || (flags & ~kFlush) > CU_STREAM_WAIT_VALUE_NOR) return CUDA_ERROR_INVALID_VALUE;
  if ((flags & kFlush) != 0) return CUDA_ERROR_NOT_SUPPORTED;
  *out = WaitValue{at, value, bytes, static_cast<Until>(flags)};
  return CUDA_SUCCESS;
}

CUresult make(Call& call, const CUstreamBatchMemOpParams& one, Work* out) {
  const auto& write = one.writeValue;
  const auto& wait = one.waitValue;
  switch (one.operation) {
    case CU_STREAM_MEM_OP_WRITE_VALUE_32:
      return make_write(call, write.address, write.value, 4, write.flags, out);
    case CU_STREAM_MEM_OP_WRITE_VALUE_64:
      return make_write(call, write.address, write.value64, 8, write.flags, out);
    case CU_STREAM_MEM_OP_WAIT_VALUE_32:
      return make_wait(call, wait.address, wait.value, 4, wait.flags, out);
    case CU_STREAM_MEM_OP_WAIT_VALUE_64:
      return make_wait(call, wait.address, wait.value64, 8, wait.flags, out);
    case CU_STREAM_MEM_OP_BARRIER:
      *out = Marker{};
      return one.memoryBarrier.flags > CU_STREAM_MEMORY_BARRIER_TYPE_GPU ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
    case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES:
      return CUDA_ERROR_NOT_SUPPORTED;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

}  // namespace

CUresult simulator::cuda::make_value_operations(Call& call, std::span<const CUstreamBatchMemOpParams> batch,
                                                std::vector<Work>* out) {
  out->resize(batch.size());
  for (std::size_t i = 0; i < batch.size(); ++i) {
    if (const CUresult result = make(call, batch[i], &(*out)[i]); result != CUDA_SUCCESS) return result;
  }
  return CUDA_SUCCESS;
}

CUresult simulator::cuda::make_value_operations(Call& call, unsigned count, const CUstreamBatchMemOpParams* operations,
                                                unsigned flags, std::vector<Work>* out) {
  if (operations == nullptr || count == 0 || count >= kMostOfBatch || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  return make_value_operations(call, {operations, count}, out);
}

CUstreamBatchMemOpParams simulator::cuda::describe_value_operation(const Work& work) {
  CUstreamBatchMemOpParams out{};
  if (const auto* write = std::get_if<WriteValue>(&work)) {
    out.writeValue.operation = write->bytes == 4 ? CU_STREAM_MEM_OP_WRITE_VALUE_32 : CU_STREAM_MEM_OP_WRITE_VALUE_64;
    out.writeValue.address = write->to;
    out.writeValue.value64 = write->value;
  } else if (const auto* wait = std::get_if<WaitValue>(&work)) {
    out.waitValue.operation = wait->bytes == 4 ? CU_STREAM_MEM_OP_WAIT_VALUE_32 : CU_STREAM_MEM_OP_WAIT_VALUE_64;
    out.waitValue.address = wait->at;
    out.waitValue.value64 = wait->value;
    out.waitValue.flags = static_cast<unsigned>(wait->until);
  }
  return out;
}

namespace {

// All or nothing: errors are found before anything is submitted.
CUresult submit_all(CUstream stream, std::span<const CUstreamBatchMemOpParams> batch,
                    const char* caller = __builtin_FUNCTION()) {
  Call call(Needs::kContext, caller);
  if (!call) return call.result();
  StreamId id = 0;
  if (const CUresult result = call.find(stream, &id); result != CUDA_SUCCESS) return result;
  std::vector<Work> all;
  if (const CUresult result = make_value_operations(call, batch, &all); result != CUDA_SUCCESS) return result;
  for (Work& work : all) {
    if (const CUresult result = submit(call, id, std::move(work)); result != CUDA_SUCCESS) return result;
  }
  return CUDA_SUCCESS;
}

CUresult write(CUstream stream, CUstreamBatchMemOpType operation, CUdeviceptr at, std::uint64_t value, unsigned flags,
               const char* caller = __builtin_FUNCTION()) {
  CUstreamBatchMemOpParams one{};
  one.writeValue.operation = operation;
  one.writeValue.address = at;
  one.writeValue.value64 = value;
  one.writeValue.flags = flags;
  return submit_all(stream, {&one, 1}, caller);
}

CUresult wait(CUstream stream, CUstreamBatchMemOpType operation, CUdeviceptr at, std::uint64_t value, unsigned flags,
              const char* caller = __builtin_FUNCTION()) {
  CUstreamBatchMemOpParams one{};
  one.waitValue.operation = operation;
  one.waitValue.address = at;
  one.waitValue.value64 = value;
  one.waitValue.flags = flags;
  return submit_all(stream, {&one, 1}, caller);
}

CUresult batch(CUstream stream, unsigned count, const CUstreamBatchMemOpParams* operations, unsigned flags,
               const char* caller = __builtin_FUNCTION()) {
  if (operations == nullptr || count == 0 || count >= kMostOfBatch || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  return submit_all(stream, {operations, count}, caller);
}

CUstream own(CUstream stream) { return stream == nullptr ? CU_STREAM_PER_THREAD : stream; }

}  // namespace

// In the legacy stream and, if no stream is given, in the calling thread's.
#define SIMULATED_VALUE(symbol, function, operation, type)                                        \
  SIMULATED_API CUresult symbol(CUstream stream, CUdeviceptr at, type value, unsigned flags) {    \
    return function(stream, operation, at, value, flags);                                         \
  }                                                                                               \
  SIMULATED_API CUresult symbol##_ptsz(CUstream stream, CUdeviceptr at, type value, unsigned f) { \
    return function(own(stream), operation, at, value, f);                                        \
  }
#define SIMULATED_VALUES(version)                                                                                   \
  SIMULATED_VALUE(cuStreamWriteValue32##version, write, CU_STREAM_MEM_OP_WRITE_VALUE_32, cuuint32_t)                \
  SIMULATED_VALUE(cuStreamWriteValue64##version, write, CU_STREAM_MEM_OP_WRITE_VALUE_64, cuuint64_t)                \
  SIMULATED_VALUE(cuStreamWaitValue32##version, wait, CU_STREAM_MEM_OP_WAIT_VALUE_32, cuuint32_t)                   \
  SIMULATED_VALUE(cuStreamWaitValue64##version, wait, CU_STREAM_MEM_OP_WAIT_VALUE_64, cuuint64_t)                   \
  SIMULATED_API CUresult cuStreamBatchMemOp##version(CUstream stream, unsigned count,                               \
                                                     CUstreamBatchMemOpParams* operations, unsigned flags) {        \
    return batch(stream, count, operations, flags);                                                                 \
  }                                                                                                                 \
  SIMULATED_API CUresult cuStreamBatchMemOp##version##_ptsz(CUstream stream, unsigned count,                        \
                                                            CUstreamBatchMemOpParams* operations, unsigned flags) { \
    return batch(own(stream), count, operations, flags);                                                            \
  }

SIMULATED_VALUES()
SIMULATED_VALUES(_v2)
