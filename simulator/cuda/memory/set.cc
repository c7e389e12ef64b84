// SPDX-License-Identifier: Apache-2.0
// Sets of 8, 16 and 32 bits, of ranges and of rectangles. Each function has three forms: in the legacy stream, in the
// calling thread's stream, and in a given one.
#include "simulator/cuda/memory/transfer.h"

using namespace simulator;
using namespace simulator::cuda;

namespace {

template <typename T>
CUresult set(CUdeviceptr to, T value, std::size_t count, CUstream stream, Blocking blocking,
             const char* caller = __builtin_FUNCTION()) {
  Call call(Needs::kContext, caller);
  if (!call) return call.result();
  std::size_t bytes = 0;
  if (__builtin_mul_overflow(count, sizeof(T), &bytes)) return CUDA_ERROR_INVALID_VALUE;
  const Shape shape{.width = bytes, .row_pitch = bytes, .slice_pitch = bytes};
  return fill(call, to, shape, value, sizeof(T), stream, blocking);
}

template <typename T>
CUresult set_2d(CUdeviceptr to, std::size_t pitch, T value, std::size_t width, std::size_t height, CUstream stream,
                Blocking blocking, const char* caller = __builtin_FUNCTION()) {
  Call call(Needs::kContext, caller);
  if (!call) return call.result();
  std::size_t bytes = 0;
  if (__builtin_mul_overflow(width, sizeof(T), &bytes) || (height > 1 && pitch < bytes))
    return CUDA_ERROR_INVALID_VALUE;
  const Bytes row = height > 1 ? pitch : bytes;
  return fill(call, to, {bytes, height, 1, row, row * height}, value, sizeof(T), stream, blocking);
}

}  // namespace

#define SIMULATED_SET(name, type)                                                                      \
  SIMULATED_API CUresult name##_v2(CUdeviceptr to, type value, std::size_t count) {                    \
    return set<type>(to, value, count, CU_STREAM_LEGACY, Blocking::kYes);                              \
  }                                                                                                    \
  SIMULATED_API CUresult name##_v2_ptds(CUdeviceptr to, type value, std::size_t count) {               \
    return set<type>(to, value, count, CU_STREAM_PER_THREAD, Blocking::kYes);                          \
  }                                                                                                    \
  SIMULATED_API CUresult name##Async(CUdeviceptr to, type value, std::size_t count, CUstream stream) { \
    return set<type>(to, value, count, stream, Blocking::kNo);                                         \
  }

#define SIMULATED_SET_2D(name, type)                                                                      \
  SIMULATED_API CUresult name##_v2(CUdeviceptr to, std::size_t pitch, type value, std::size_t width,      \
                                   std::size_t height) {                                                  \
    return set_2d<type>(to, pitch, value, width, height, CU_STREAM_LEGACY, Blocking::kYes);               \
  }                                                                                                       \
  SIMULATED_API CUresult name##_v2_ptds(CUdeviceptr to, std::size_t pitch, type value, std::size_t width, \
                                        std::size_t height) {                                             \
    return set_2d<type>(to, pitch, value, width, height, CU_STREAM_PER_THREAD, Blocking::kYes);           \
  }                                                                                                       \
  SIMULATED_API CUresult name##Async(CUdeviceptr to, std::size_t pitch, type value, std::size_t width,    \
                                     std::size_t height, CUstream stream) {                               \
    return set_2d<type>(to, pitch, value, width, height, stream, Blocking::kNo);                          \
  }

SIMULATED_SET(cuMemsetD8, unsigned char)
SIMULATED_SET(cuMemsetD16, unsigned short)
SIMULATED_SET(cuMemsetD32, unsigned int)
SIMULATED_SET_2D(cuMemsetD2D8, unsigned char)
SIMULATED_SET_2D(cuMemsetD2D16, unsigned short)
SIMULATED_SET_2D(cuMemsetD2D32, unsigned int)
