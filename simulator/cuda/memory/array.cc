// SPDX-License-Identifier: Apache-2.0
#include "simulator/cuda/memory/array.h"

#include <vector>

#include "simulator/cuda/graph/capture.h"
#include "simulator/cuda/memory/pool_cache.h"
#include "simulator/cuda/memory/transfer.h"

namespace simulator::cuda {
namespace {

// Limits of compute capability 5.0 and later (CUDA Programming Guide, "Technical specifications per compute
// capability").
constexpr std::size_t kWidest = 65536, kWidest3d = 4096, kMostLayers = 2048;

constexpr unsigned kFlags =
    CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_SURFACE_LDST | CUDA_ARRAY3D_TEXTURE_GATHER | CUDA_ARRAY3D_CUBEMAP;
constexpr std::size_t kFaces = 6;

CUresult check(const CUDA_ARRAY3D_DESCRIPTOR& wanted) {
  if ((wanted.Flags & ~kFlags) != 0) return CUDA_ERROR_NOT_SUPPORTED;
  if (wanted.Width == 0 || element_bytes(wanted.Format, wanted.NumChannels) == 0) return CUDA_ERROR_INVALID_VALUE;
  const bool layered = (wanted.Flags & CUDA_ARRAY3D_LAYERED) != 0;
  // Faces are square; the depth is the number of faces of all layers.
  if ((wanted.Flags & CUDA_ARRAY3D_CUBEMAP) != 0) {
    const bool has_faces = layered ? wanted.Depth != 0 && wanted.Depth % kFaces == 0 : wanted.Depth == kFaces;
    if (wanted.Width != wanted.Height || !has_faces) return CUDA_ERROR_INVALID_VALUE;
  }
  if (layered && (wanted.Depth == 0 || wanted.Depth > kMostLayers)) return CUDA_ERROR_INVALID_VALUE;
  if (!layered && wanted.Depth != 0 && wanted.Height == 0) return CUDA_ERROR_INVALID_VALUE;
  const std::size_t most = !layered && wanted.Depth != 0 ? kWidest3d : kWidest;
  return wanted.Width > most || wanted.Height > most || (!layered && wanted.Depth > most) ? CUDA_ERROR_INVALID_VALUE
                                                                                          : CUDA_SUCCESS;
}

CUresult create(CUarray* out, const CUDA_ARRAY3D_DESCRIPTOR& wanted, const char* caller = __builtin_FUNCTION()) {
  Call call(Needs::kContext, caller);
  if (!call) return call.result();
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult result = check(wanted); result != CUDA_SUCCESS) return result;
  if (const CUresult result = may_disturb(call); result != CUDA_SUCCESS) return result;
  CUarray_st array;
  array.description = wanted;
  array.context = call.context();
  array.element = element_bytes(wanted.Format, wanted.NumChannels);
  CUresult result =
      with_room(call, [&] { return call.machine().allocate(array.bytes(), false, &array.address, call.device()); });
  if (result != CUDA_SUCCESS) return result;
  result = call.machine().register_buffer(array.address, array.bytes(), Fresh::kYes);
  if (result != CUDA_SUCCESS) {
    call.machine().free(array.address);
    return result;
  }
  *out = call.state().arrays.add(array);
  return CUDA_SUCCESS;
}

CUresult drop(Call& call, CUarray array) {
  const CUarray_st gone = *array;
  call.state().arrays.remove(array);
  call.machine().unregister_buffer(gone.address);
  return call.machine().free(gone.address);
}

// One end of a copy of a range: in a one-dimensional array, at a whole element.
CUresult end_in(Call& call, CUarray array, std::size_t offset, std::size_t bytes, End* out) {
  if (!call.state().arrays.has(array)) return CUDA_ERROR_INVALID_HANDLE;
  if (array->rows() * array->slices() != 1 || offset % array->element != 0 || bytes % array->element != 0 ||
      offset > array->row() || bytes > array->row() - offset)
    return CUDA_ERROR_INVALID_VALUE;
  *out = {Side::kDevice, array->address + offset, {.width = bytes, .row_pitch = bytes, .slice_pitch = bytes}};
  return CUDA_SUCCESS;
}

// The other end, which is memory; null if it is an array as well.
struct Range {
  CUarray array = nullptr;
  std::size_t offset = 0;
  Side side = Side::kDevice;
  Address at = 0;
};

CUresult copy(const Range& to, const Range& from, std::size_t bytes, CUstream stream, Blocking blocking,
              const char* caller = __builtin_FUNCTION()) {
  Call call(Needs::kContext, caller);
  if (!call) return call.result();
  End ends[2];
  const Range* const ranges[2] = {&to, &from};
  for (int i = 0; i < 2; ++i) {
    const Range& range = *ranges[i];
    if (range.array == nullptr && range.at != 0) {
      ends[i] = {range.side, range.at, {.width = bytes, .row_pitch = bytes, .slice_pitch = bytes}};
      continue;
    }
    const CUresult result = end_in(call, range.array, range.offset, bytes, &ends[i]);
    if (result != CUDA_SUCCESS) return result;
  }
  return transfer(call, ends[0], ends[1], stream, blocking);
}

Range in(CUarray array, std::size_t offset) { return {array, offset, Side::kDevice, 0}; }
Range at(CUdeviceptr address) { return {nullptr, 0, Side::kDevice, address}; }
Range at(const void* host) { return {nullptr, 0, Side::kHost, reinterpret_cast<Address>(host)}; }

}  // namespace

Bytes element_bytes(CUarray_format format, unsigned channels) {
  if (channels != 1 && channels != 2 && channels != 4) return 0;
  switch (format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8:
      return channels;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF:
      return Bytes{2} * channels;
    case CU_AD_FORMAT_UNSIGNED_INT32:
    case CU_AD_FORMAT_SIGNED_INT32:
    case CU_AD_FORMAT_FLOAT:
      return Bytes{4} * channels;
    default:
      return 0;
  }
}

void destroy_arrays_of(Call& call, CUcontext context) {
  std::vector<CUarray> mine;
  call.state().arrays.for_each([&](CUarray_st& array) {
    if (array.context == context) mine.push_back(&array);
  });
  for (const CUarray array : mine) drop(call, array);
}

}  // namespace simulator::cuda

using namespace simulator;
using namespace simulator::cuda;

SIMULATED_API CUresult cuArrayCreate_v2(CUarray* out, const CUDA_ARRAY_DESCRIPTOR* wanted) {
  if (wanted == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return create(out, {wanted->Width, wanted->Height, 0, wanted->Format, wanted->NumChannels, 0});
}

SIMULATED_API CUresult cuArray3DCreate_v2(CUarray* out, const CUDA_ARRAY3D_DESCRIPTOR* wanted) {
  return wanted == nullptr ? CUDA_ERROR_INVALID_VALUE : create(out, *wanted);
}

// Waits for everything that is pending, as cuMemFree does.
SIMULATED_API CUresult cuArrayDestroy(CUarray array) {
  Call call;
  if (!call) return call.result();
  if (!call.state().arrays.has(array)) return CUDA_ERROR_INVALID_HANDLE;
  if (const CUresult result = may_disturb(call); result != CUDA_SUCCESS) return result;
  const CUresult fault = call.machine().wait_to_free("cuArrayDestroy", array->address, array->bytes(), true);
  const CUresult result = drop(call, array);
  return fault != CUDA_SUCCESS ? fault : result;
}

SIMULATED_API CUresult cuArray3DGetDescriptor_v2(CUDA_ARRAY3D_DESCRIPTOR* out, CUarray array) {
  Call call;
  if (!call) return call.result();
  if (!call.state().arrays.has(array)) return CUDA_ERROR_INVALID_HANDLE;
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = array->description;
  return CUDA_SUCCESS;
}

SIMULATED_API CUresult cuArrayGetDescriptor_v2(CUDA_ARRAY_DESCRIPTOR* out, CUarray array) {
  CUDA_ARRAY3D_DESCRIPTOR whole;
  const CUresult result = cuArray3DGetDescriptor_v2(&whole, array);
  if (result != CUDA_SUCCESS) return result;
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = {whole.Width, whole.Height, whole.Format, whole.NumChannels};
  return CUDA_SUCCESS;
}

// Each in both forms: with the legacy stream, and with the calling thread's own.
#define ARRAY_COPY(name, parameters, to, from)                                                               \
  SIMULATED_API CUresult name parameters { return copy(to, from, bytes, CU_STREAM_LEGACY, Blocking::kYes); } \
  SIMULATED_API CUresult name##_ptds parameters { return copy(to, from, bytes, CU_STREAM_PER_THREAD, Blocking::kYes); }

ARRAY_COPY(cuMemcpyDtoA_v2, (CUarray to, std::size_t offset, CUdeviceptr from, std::size_t bytes), in(to, offset),
           at(from))
ARRAY_COPY(cuMemcpyAtoD_v2, (CUdeviceptr to, CUarray from, std::size_t offset, std::size_t bytes), at(to),
           in(from, offset))
ARRAY_COPY(cuMemcpyHtoA_v2, (CUarray to, std::size_t offset, const void* from, std::size_t bytes), in(to, offset),
           at(from))
ARRAY_COPY(cuMemcpyAtoH_v2, (void* to, CUarray from, std::size_t offset, std::size_t bytes), at(to), in(from, offset))
ARRAY_COPY(cuMemcpyAtoA_v2,
           (CUarray to, std::size_t to_offset, CUarray from, std::size_t from_offset, std::size_t bytes),
           in(to, to_offset), in(from, from_offset))
#undef ARRAY_COPY

SIMULATED_API CUresult cuMemcpyHtoAAsync_v2(CUarray to, std::size_t offset, const void* from, std::size_t bytes,
                                            CUstream stream) {
  return copy(in(to, offset), at(from), bytes, stream, Blocking::kNo);
}

SIMULATED_API CUresult cuMemcpyAtoHAsync_v2(void* to, CUarray from, std::size_t offset, std::size_t bytes,
                                            CUstream stream) {
  return copy(at(to), in(from, offset), bytes, stream, Blocking::kNo);
}

SIMULATED_API CUresult cuMemcpyHtoAAsync_v2_ptsz(CUarray to, std::size_t offset, const void* from, std::size_t bytes,
                                                 CUstream stream) {
  return cuMemcpyHtoAAsync_v2(to, offset, from, bytes, stream == nullptr ? CU_STREAM_PER_THREAD : stream);
}

SIMULATED_API CUresult cuMemcpyAtoHAsync_v2_ptsz(void* to, CUarray from, std::size_t offset, std::size_t bytes,
                                                 CUstream stream) {
  return cuMemcpyAtoHAsync_v2(to, from, offset, bytes, stream == nullptr ? CU_STREAM_PER_THREAD : stream);
}
