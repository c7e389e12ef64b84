// SPDX-License-Identifier: Apache-2.0
// Streams that write a value to memory or wait for one, and decompression. Both are operations like others; the memory
// they access stays on the device until the stream has passed them. A stream that waits may be blocked for any length
// of time, and the engine then does not wait for it (allocator/stream_clock.h). A value of eight bytes that is written
// may be an address.
#include <algorithm>
#include <atomic>
#include <set>

#include "driver/locks.h"
#include "hooks/capture/capture_state.h"
#include "hooks/interpose/lock_levels.h"
#include "hooks/interpose/process_lifetime.h"
#include "hooks/operands/values.h"
#include "hooks/runtime/guarded.h"
#include "hooks/submit/macros.h"
#include "hooks/submit/stream_queues.h"

namespace thermocline {
namespace {

std::atomic<bool> any_waits{false};

struct KeptValues {
  Mutex mutex{"values that streams write", lock_level::kLeaf};
  std::set<std::uint64_t> all THERMOCLINE_GUARDED_BY(mutex);
};

// Stores the value permanently for later look-ups; each value once.
const std::uint64_t* kept_value(std::uint64_t value) {
  KeptValues& kept = process_lifetime<KeptValues>();
  const MutexLock lock(kept.mutex);
  return &*kept.all.insert(value).first;
}

// `value` points to host memory that is valid during the call.
void add_write(AccessList* accesses, CUdeviceptr to, const std::uint64_t* value, bool kept) {
  if (kept) value = kept_value(*value);
  accesses->write(to, sizeof *value);
  accesses->move({.to = to, .from = reinterpret_cast<CUdeviceptr>(value), .bytes = sizeof *value});
}

}  // namespace

bool any_waits_for_values() { return any_waits.load(std::memory_order_relaxed); }

void add_value_operations(const CUstreamBatchMemOpParams* operations, unsigned int count, AccessList* accesses,
                          bool kept) {
  for (unsigned int i = 0; operations != nullptr && i < count; ++i) {
    const CUstreamBatchMemOpParams& one = operations[i];
    switch (one.operation) {
      case CU_STREAM_MEM_OP_WAIT_VALUE_32:
      case CU_STREAM_MEM_OP_WAIT_VALUE_64:
        any_waits.store(true, std::memory_order_relaxed);
        note_streams_may_block();
        accesses->read(one.waitValue.address, one.operation == CU_STREAM_MEM_OP_WAIT_VALUE_32 ? 4 : 8);
        break;
      case CU_STREAM_MEM_OP_WRITE_VALUE_32:
        accesses->write(one.writeValue.address, 4);
        break;
      case CU_STREAM_MEM_OP_WRITE_VALUE_64:
        add_write(accesses, one.writeValue.address, reinterpret_cast<const std::uint64_t*>(&one.writeValue.value64),
                  kept);
        break;
      default:
        break;
    }
  }
}

namespace {

bool waits(const CUstreamBatchMemOpParams* operations, unsigned int count) {
  const auto is_wait = [](const CUstreamBatchMemOpParams& one) {
    return one.operation == CU_STREAM_MEM_OP_WAIT_VALUE_32 || one.operation == CU_STREAM_MEM_OP_WAIT_VALUE_64;
  };
  return operations != nullptr && std::any_of(operations, operations + count, is_wait);
}

CUresult submit_batch(StreamHandle stream, const CUstreamBatchMemOpParams* operations, unsigned int count, Call call) {
  if (engines_now() == nullptr && !waits(operations, count)) return call();
  AccessList accesses;
  add_value_operations(operations, count, &accesses, any_capture() && is_recording(stream));
  return submit(stream, Host::kGoesOn, std::move(accesses), {.may_block = waits(operations, count)}, call);
}

CUresult submit_wait(StreamHandle stream, CUstreamBatchMemOpType operation, CUdeviceptr at, cuuint64_t /*value*/,
                     Call call) {
  CUstreamBatchMemOpParams one{};
  one.waitValue.operation = operation;
  one.waitValue.address = at;
  return submit_batch(stream, &one, 1, call);
}

CUresult submit_write(StreamHandle stream, CUstreamBatchMemOpType operation, CUdeviceptr at, cuuint64_t value,
                      Call call) {
  CUstreamBatchMemOpParams one{};
  one.writeValue.operation = operation;
  one.writeValue.address = at;
  one.writeValue.value64 = value;
  return submit_batch(stream, &one, 1, call);
}

AccessList of_decompression(const CUmemDecompressParams* parameters, std::size_t count) {
  AccessList accesses;
  for (std::size_t i = 0; parameters != nullptr && i < count; ++i) {
    const CUmemDecompressParams& one = parameters[i];
    accesses.read(reinterpret_cast<CUdeviceptr>(one.src), one.srcNumBytes);
    accesses.write(reinterpret_cast<CUdeviceptr>(one.dst), one.dstNumBytes);
    if (one.dstActBytes != nullptr) accesses.word(reinterpret_cast<CUdeviceptr>(one.dstActBytes));
  }
  return accesses;
}

}  // namespace
}  // namespace thermocline

// Both versions of each function, each with both meanings of the default stream.
#define THERMOCLINE_VALUE_HOOKS(name, submit_value, operation, value_type)                                        \
  THERMOCLINE_HOOK_PAIR(name, _ptsz, (CUstream stream, CUdeviceptr addr, value_type value, unsigned int flags), { \
    return submit_value(stream_of(stream), operation, addr, value,                                                \
                        [&] { return real<kFunction>(stream, addr, value, flags); });                             \
  })

THERMOCLINE_VALUE_HOOKS(cuStreamWriteValue32, submit_write, CU_STREAM_MEM_OP_WRITE_VALUE_32, cuuint32_t)
THERMOCLINE_VALUE_HOOKS(cuStreamWriteValue32_v2, submit_write, CU_STREAM_MEM_OP_WRITE_VALUE_32, cuuint32_t)
THERMOCLINE_VALUE_HOOKS(cuStreamWriteValue64, submit_write, CU_STREAM_MEM_OP_WRITE_VALUE_64, cuuint64_t)
THERMOCLINE_VALUE_HOOKS(cuStreamWriteValue64_v2, submit_write, CU_STREAM_MEM_OP_WRITE_VALUE_64, cuuint64_t)
THERMOCLINE_VALUE_HOOKS(cuStreamWaitValue32, submit_wait, CU_STREAM_MEM_OP_WAIT_VALUE_32, cuuint32_t)
THERMOCLINE_VALUE_HOOKS(cuStreamWaitValue32_v2, submit_wait, CU_STREAM_MEM_OP_WAIT_VALUE_32, cuuint32_t)
THERMOCLINE_VALUE_HOOKS(cuStreamWaitValue64, submit_wait, CU_STREAM_MEM_OP_WAIT_VALUE_64, cuuint64_t)
THERMOCLINE_VALUE_HOOKS(cuStreamWaitValue64_v2, submit_wait, CU_STREAM_MEM_OP_WAIT_VALUE_64, cuuint64_t)

#define THERMOCLINE_VALUE_BATCH_HOOKS(name)                                                                           \
  THERMOCLINE_HOOK_PAIR(                                                                                              \
      name, _ptsz, (CUstream stream, unsigned int count, CUstreamBatchMemOpParams* paramArray, unsigned int flags), { \
        return submit_batch(stream_of(stream), paramArray, count,                                                     \
                            [&] { return real<kFunction>(stream, count, paramArray, flags); });                       \
      })

THERMOCLINE_VALUE_BATCH_HOOKS(cuStreamBatchMemOp)
THERMOCLINE_VALUE_BATCH_HOOKS(cuStreamBatchMemOp_v2)

THERMOCLINE_HOOK_PAIR(
    cuMemBatchDecompressAsync, _ptsz,
    (CUmemDecompressParams * paramsArray, size_t count, unsigned int flags, size_t* errorIndex, CUstream stream), {
      return operate<kFunction>(stream_of(stream), Host::kGoesOn, of_decompression(paramsArray, count), paramsArray,
                                count, flags, errorIndex, stream);
    })
