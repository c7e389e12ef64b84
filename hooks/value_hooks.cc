// SPDX-License-Identifier: Apache-2.0
// Streams that write to memory or wait for a value in it, and decompression. A wait looks at memory for as long as it
// takes, and what it waits for may come from anywhere: its buffer stays on the device.
#include "hooks/macros.h"
#include "hooks/values.h"

namespace thermocline {

void add_value_operations(const CUstreamBatchMemOpParams* operations, unsigned int count, TouchList* touches) {
  for (unsigned int i = 0; operations != nullptr && i < count; ++i) {
    const CUstreamBatchMemOpParams& one = operations[i];
    switch (one.operation) {
      case CU_STREAM_MEM_OP_WAIT_VALUE_32:
      case CU_STREAM_MEM_OP_WAIT_VALUE_64:
        touches->word(one.waitValue.address);
        break;
      case CU_STREAM_MEM_OP_WRITE_VALUE_32:
      case CU_STREAM_MEM_OP_WRITE_VALUE_64:
        touches->word(one.writeValue.address);
        break;
      default:
        break;
    }
  }
}

namespace {

// Kept, because of waits; and submitted, so that the buffer is not reused before the stream has come so far.
CUresult submit_values(StreamHandle stream, TouchList touches, Call call) {
  return keep(touches, "a stream waits for a value in it",
              [&] { return submit(stream, Host::kGoesOn, std::move(touches), {}, call); });
}

TouchList at(CUdeviceptr address) { return TouchList().word(address); }

TouchList of_batch(const CUstreamBatchMemOpParams* operations, unsigned int count) {
  TouchList touches;
  add_value_operations(operations, count, &touches);
  return touches;
}

TouchList of_decompression(const CUmemDecompressParams* parameters, std::size_t count) {
  TouchList touches;
  for (std::size_t i = 0; parameters != nullptr && i < count; ++i) {
    const CUmemDecompressParams& one = parameters[i];
    touches.read(reinterpret_cast<CUdeviceptr>(one.src), one.srcNumBytes);
    touches.write(reinterpret_cast<CUdeviceptr>(one.dst), one.dstNumBytes);
    if (one.dstActBytes != nullptr) touches.word(reinterpret_cast<CUdeviceptr>(one.dstActBytes));
  }
  return touches;
}

}  // namespace
}  // namespace thermocline

// Both versions of each, and both streams of each version.
#define THERMOCLINE_VALUE_HOOKS(name, value_type)                                                                   \
  THERMOCLINE_HOOK_PAIR(name, _ptsz, (CUstream stream, CUdeviceptr addr, value_type value, unsigned int flags), {   \
    return submit_values(stream_of(stream), at(addr), [&] { return real<kFunction>(stream, addr, value, flags); }); \
  })

THERMOCLINE_VALUE_HOOKS(cuStreamWriteValue32, cuuint32_t)
THERMOCLINE_VALUE_HOOKS(cuStreamWriteValue32_v2, cuuint32_t)
THERMOCLINE_VALUE_HOOKS(cuStreamWriteValue64, cuuint64_t)
THERMOCLINE_VALUE_HOOKS(cuStreamWriteValue64_v2, cuuint64_t)
THERMOCLINE_VALUE_HOOKS(cuStreamWaitValue32, cuuint32_t)
THERMOCLINE_VALUE_HOOKS(cuStreamWaitValue32_v2, cuuint32_t)
THERMOCLINE_VALUE_HOOKS(cuStreamWaitValue64, cuuint64_t)
THERMOCLINE_VALUE_HOOKS(cuStreamWaitValue64_v2, cuuint64_t)

#define THERMOCLINE_VALUE_BATCH_HOOKS(name)                                                                           \
  THERMOCLINE_HOOK_PAIR(                                                                                              \
      name, _ptsz, (CUstream stream, unsigned int count, CUstreamBatchMemOpParams* paramArray, unsigned int flags), { \
        return submit_values(stream_of(stream), of_batch(paramArray, count),                                          \
                             [&] { return real<kFunction>(stream, count, paramArray, flags); });                      \
      })

THERMOCLINE_VALUE_BATCH_HOOKS(cuStreamBatchMemOp)
THERMOCLINE_VALUE_BATCH_HOOKS(cuStreamBatchMemOp_v2)

THERMOCLINE_HOOK_PAIR(
    cuMemBatchDecompressAsync, _ptsz,
    (CUmemDecompressParams * paramsArray, size_t count, unsigned int flags, size_t* errorIndex, CUstream stream), {
      return operate<kFunction>(stream_of(stream), Host::kGoesOn, of_decompression(paramsArray, count), paramsArray,
                                count, flags, errorIndex, stream);
    })
