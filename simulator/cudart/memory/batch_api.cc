// SPDX-License-Identifier: Apache-2.0
// Batches of copies, prefetches and discards, and copies of boxes between devices.
#include <optional>

#include "simulator/cudart/convert.h"
#include "simulator/cudart/same.h"

namespace simulator::cudart {
namespace {

cudaError_t copies(Rule rule, void* const* to, const void* const* from, const size_t* bytes, size_t count,
                   cudaMemcpyAttributes* attributes, size_t* first, size_t attribute_count, cudaStream_t stream) {
  return api(rule, [&](const Driver& table) {
    return CUDART_CALL(table, cuMemcpyBatchAsync, as_driver<CUdeviceptr*>(const_cast<void**>(to)),
                       as_driver<CUdeviceptr*>(const_cast<const void**>(from)), const_cast<size_t*>(bytes), count,
                       as_driver<CUmemcpyAttributes*>(attributes), first, attribute_count, stream);
  });
}

cudaError_t boxes(Rule rule, size_t count, cudaMemcpy3DBatchOp* boxes, unsigned long long flags, cudaStream_t stream) {
  return api(rule, [&](const Driver& table) {
    return CUDART_CALL(table, cuMemcpy3DBatchAsync, count, as_driver<CUDA_MEMCPY3D_BATCH_OP*>(boxes), flags, stream);
  });
}

cudaError_t prefetches(Rule rule, void** pointers, size_t* bytes, size_t count, cudaMemLocation* locations,
                       size_t* first, size_t location_count, unsigned long long flags, cudaStream_t stream) {
  return api(rule, [&](const Driver& table) {
    return CUDART_CALL(table, cuMemPrefetchBatchAsync, address_out(pointers), bytes, count,
                       as_driver<CUmemLocation*>(locations), first, location_count, flags, stream);
  });
}

cudaError_t discards(Rule rule, void** pointers, size_t* bytes, size_t count, unsigned long long flags,
                     cudaStream_t stream) {
  return api(rule, [&](const Driver& table) {
    return CUDART_CALL(table, cuMemDiscardBatchAsync, address_out(pointers), bytes, count, flags, stream);
  });
}

cudaError_t discards_and_prefetches(Rule rule, void** pointers, size_t* bytes, size_t count, cudaMemLocation* locations,
                                    size_t* first, size_t location_count, unsigned long long flags,
                                    cudaStream_t stream) {
  return api(rule, [&](const Driver& table) {
    return CUDART_CALL(table, cuMemDiscardAndPrefetchBatchAsync, address_out(pointers), bytes, count,
                       as_driver<CUmemLocation*>(locations), first, location_count, flags, stream);
  });
}

using Stream = std::optional<cudaStream_t>;
constexpr Stream kWait = std::nullopt;

cudaError_t between_devices(Rule rule, const cudaMemcpy3DPeerParms* given, Stream stream) {
  if (given == nullptr) return record(cudaErrorInvalidValue);
  return api(rule, [&](const Driver& table) {
    const cudaMemcpy3DParms box = {given->srcArray, given->srcPos, given->srcPtr, given->dstArray,
                                   given->dstPos,   given->dstPtr, given->extent, cudaMemcpyDeviceToDevice};
    CUDA_MEMCPY3D plain = {};
    CUDA_MEMCPY3D_PEER copy = {};
    cudaError_t status = to_driver(table, box, &plain);
    if (status == cudaSuccess) status = primary_context(given->srcDevice, &copy.srcContext);
    if (status == cudaSuccess) status = primary_context(given->dstDevice, &copy.dstContext);
    if (status != cudaSuccess) return status;
    copy.srcXInBytes = plain.srcXInBytes;
    copy.srcY = plain.srcY;
    copy.srcZ = plain.srcZ;
    copy.srcMemoryType = plain.srcMemoryType;
    copy.srcDevice = plain.srcDevice;
    copy.srcArray = plain.srcArray;
    copy.srcPitch = plain.srcPitch;
    copy.srcHeight = plain.srcHeight;
    copy.dstXInBytes = plain.dstXInBytes;
    copy.dstY = plain.dstY;
    copy.dstZ = plain.dstZ;
    copy.dstMemoryType = plain.dstMemoryType;
    copy.dstDevice = plain.dstDevice;
    copy.dstArray = plain.dstArray;
    copy.dstPitch = plain.dstPitch;
    copy.dstHeight = plain.dstHeight;
    copy.WidthInBytes = plain.WidthInBytes;
    copy.Height = plain.Height;
    copy.Depth = plain.Depth;
    return stream ? CUDART_CALL(table, cuMemcpy3DPeerAsync, &copy, *stream) : CUDART_CALL(table, cuMemcpy3DPeer, &copy);
  });
}

}  // namespace
}  // namespace simulator::cudart

using namespace simulator::cudart;

CUDART_BOTH(cudaMemcpyBatchAsync, _ptsz, copies,
            (void* const* to, const void* const* from, const size_t* bytes, size_t count,
             cudaMemcpyAttributes* attributes, size_t* first, size_t attribute_count, cudaStream_t stream),
            (to, from, bytes, count, attributes, first, attribute_count, stream))
CUDART_BOTH(cudaMemcpy3DBatchAsync, _ptsz, boxes,
            (size_t count, cudaMemcpy3DBatchOp* list, unsigned long long flags, cudaStream_t stream),
            (count, list, flags, stream))
CUDART_BOTH(cudaMemPrefetchBatchAsync, _ptsz, prefetches,
            (void** pointers, size_t* bytes, size_t count, cudaMemLocation* locations, size_t* first,
             size_t location_count, unsigned long long flags, cudaStream_t stream),
            (pointers, bytes, count, locations, first, location_count, flags, stream))
CUDART_BOTH(cudaMemDiscardBatchAsync, _ptsz, discards,
            (void** pointers, size_t* bytes, size_t count, unsigned long long flags, cudaStream_t stream),
            (pointers, bytes, count, flags, stream))
CUDART_BOTH(cudaMemDiscardAndPrefetchBatchAsync, _ptsz, discards_and_prefetches,
            (void** pointers, size_t* bytes, size_t count, cudaMemLocation* locations, size_t* first,
             size_t location_count, unsigned long long flags, cudaStream_t stream),
            (pointers, bytes, count, locations, first, location_count, flags, stream))
CUDART_BOTH(cudaMemcpy3DPeer, _ptds, between_devices, (const cudaMemcpy3DPeerParms* box), (box, kWait))
CUDART_BOTH(cudaMemcpy3DPeerAsync, _ptsz, between_devices, (const cudaMemcpy3DPeerParms* box, cudaStream_t stream),
            (box, stream))
