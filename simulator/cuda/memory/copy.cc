// SPDX-License-Identifier: Apache-2.0
// Copies of one range.
#include "simulator/cuda/memory/transfer.h"

using namespace simulator;
using namespace simulator::cuda;

namespace {

CUresult copy(Side to_side, Address to, Side from_side, Address from, std::size_t bytes, CUstream stream,
              Blocking blocking, const char* caller = __builtin_FUNCTION()) {
  Call call(Needs::kContext, caller);
  if (!call) return call.result();
  const Shape shape{.width = bytes, .row_pitch = bytes, .slice_pitch = bytes};
  return transfer(call, {to_side, to, shape}, {from_side, from, shape}, stream, blocking);
}

CUresult copy_peer(Address to, CUcontext there, Address from, CUcontext here, std::size_t bytes, CUstream stream,
                   Blocking blocking, const char* caller = __builtin_FUNCTION()) {
  Call call(Needs::kContext, caller);
  if (!call) return call.result();
  const Shape shape{.width = bytes, .row_pitch = bytes, .slice_pitch = bytes};
  End target{Side::kDevice, to, shape}, source{Side::kDevice, from, shape};
  if (const CUresult result = device_of(call, there, &target.as); result != CUDA_SUCCESS) return result;
  if (const CUresult result = device_of(call, here, &source.as); result != CUDA_SUCCESS) return result;
  return transfer(call, target, source, stream, blocking);
}

Address host(const void* at) { return reinterpret_cast<Address>(at); }

// The attributes of a batch say when sources may be read and where the ends are. The addresses say where the ends are
// too.
CUresult copy_batch(CUdeviceptr* to, CUdeviceptr* from, std::size_t* sizes, std::size_t count,
                    CUmemcpyAttributes* attributes, std::size_t* first_of_attribute, std::size_t attribute_count,
                    std::size_t* failed, CUstream stream, const char* caller = __builtin_FUNCTION()) {
  if (failed != nullptr) *failed = SIZE_MAX;
  Call call(Needs::kContext, caller);
  if (!call) return call.result();
  if (to == nullptr || from == nullptr || sizes == nullptr || count == 0 || attributes == nullptr ||
      first_of_attribute == nullptr || attribute_count == 0 || attribute_count > count || first_of_attribute[0] != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (stream == nullptr || stream == CU_STREAM_LEGACY)
    return CUDA_ERROR_INVALID_VALUE;  // documented: not the legacy stream
  std::size_t attribute = 0;
  for (std::size_t i = 0; i < count; ++i) {
    while (attribute + 1 < attribute_count && first_of_attribute[attribute + 1] <= i) ++attribute;
    const Shape shape{.width = sizes[i], .row_pitch = sizes[i], .slice_pitch = sizes[i]};
    const CUresult result = transfer(call, {Side::kUnified, to[i], shape}, {Side::kUnified, from[i], shape}, stream,
                                     blocking_of(attributes[attribute].srcAccessOrder));
    if (result != CUDA_SUCCESS) {
      if (failed != nullptr) *failed = i;
      return result;
    }
  }
  return CUDA_SUCCESS;
}

}  // namespace

SIMULATED_API CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void* from, std::size_t bytes) {
  return copy(Side::kDevice, to, Side::kHost, host(from), bytes, CU_STREAM_LEGACY, Blocking::kYes);
}
SIMULATED_API CUresult cuMemcpyHtoD_v2_ptds(CUdeviceptr to, const void* from, std::size_t bytes) {
  return copy(Side::kDevice, to, Side::kHost, host(from), bytes, CU_STREAM_PER_THREAD, Blocking::kYes);
}
SIMULATED_API CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void* from, std::size_t bytes, CUstream stream) {
  return copy(Side::kDevice, to, Side::kHost, host(from), bytes, stream, Blocking::kNo);
}

SIMULATED_API CUresult cuMemcpyDtoH_v2(void* to, CUdeviceptr from, std::size_t bytes) {
  return copy(Side::kHost, host(to), Side::kDevice, from, bytes, CU_STREAM_LEGACY, Blocking::kYes);
}
SIMULATED_API CUresult cuMemcpyDtoH_v2_ptds(void* to, CUdeviceptr from, std::size_t bytes) {
  return copy(Side::kHost, host(to), Side::kDevice, from, bytes, CU_STREAM_PER_THREAD, Blocking::kYes);
}
SIMULATED_API CUresult cuMemcpyDtoHAsync_v2(void* to, CUdeviceptr from, std::size_t bytes, CUstream stream) {
  return copy(Side::kHost, host(to), Side::kDevice, from, bytes, stream, Blocking::kNo);
}

SIMULATED_API CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, std::size_t bytes) {
  return copy(Side::kDevice, to, Side::kDevice, from, bytes, CU_STREAM_LEGACY, Blocking::kYes);
}
SIMULATED_API CUresult cuMemcpyDtoD_v2_ptds(CUdeviceptr to, CUdeviceptr from, std::size_t bytes) {
  return copy(Side::kDevice, to, Side::kDevice, from, bytes, CU_STREAM_PER_THREAD, Blocking::kYes);
}
SIMULATED_API CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, std::size_t bytes, CUstream stream) {
  return copy(Side::kDevice, to, Side::kDevice, from, bytes, stream, Blocking::kNo);
}

SIMULATED_API CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, std::size_t bytes) {
  return copy(Side::kUnified, to, Side::kUnified, from, bytes, CU_STREAM_LEGACY, Blocking::kYes);
}
SIMULATED_API CUresult cuMemcpy_ptds(CUdeviceptr to, CUdeviceptr from, std::size_t bytes) {
  return copy(Side::kUnified, to, Side::kUnified, from, bytes, CU_STREAM_PER_THREAD, Blocking::kYes);
}
SIMULATED_API CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, std::size_t bytes, CUstream stream) {
  return copy(Side::kUnified, to, Side::kUnified, from, bytes, stream, Blocking::kNo);
}

SIMULATED_API CUresult cuMemcpyPeer(CUdeviceptr to, CUcontext there, CUdeviceptr from, CUcontext here,
                                    std::size_t bytes) {
  return copy_peer(to, there, from, here, bytes, CU_STREAM_LEGACY, Blocking::kYes);
}
SIMULATED_API CUresult cuMemcpyPeer_ptds(CUdeviceptr to, CUcontext there, CUdeviceptr from, CUcontext here,
                                         std::size_t bytes) {
  return copy_peer(to, there, from, here, bytes, CU_STREAM_PER_THREAD, Blocking::kYes);
}
SIMULATED_API CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext there, CUdeviceptr from, CUcontext here,
                                         std::size_t bytes, CUstream stream) {
  return copy_peer(to, there, from, here, bytes, stream, Blocking::kNo);
}

SIMULATED_API CUresult cuMemcpyBatchAsync_v2(CUdeviceptr* to, CUdeviceptr* from, std::size_t* sizes, std::size_t count,
                                             CUmemcpyAttributes* attributes, std::size_t* first_of_attribute,
                                             std::size_t attribute_count, CUstream stream) {
  return copy_batch(to, from, sizes, count, attributes, first_of_attribute, attribute_count, nullptr, stream);
}
SIMULATED_API CUresult cuMemcpyBatchAsync(CUdeviceptr* to, CUdeviceptr* from, std::size_t* sizes, std::size_t count,
                                          CUmemcpyAttributes* attributes, std::size_t* first_of_attribute,
                                          std::size_t attribute_count, std::size_t* failed, CUstream stream) {
  return copy_batch(to, from, sizes, count, attributes, first_of_attribute, attribute_count, failed, stream);
}
