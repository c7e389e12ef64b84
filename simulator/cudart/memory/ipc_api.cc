// SPDX-License-Identifier: Apache-2.0
// Memory and events that several processes share.
#include <cstring>

#include "simulator/cudart/convert.h"
#include "simulator/cudart/same.h"

using namespace simulator::cudart;

extern "C" cudaError_t cudaIpcOpenMemHandle(void** pointer, cudaIpcMemHandle_t handle, unsigned flags) {
  if (pointer == nullptr) return record(cudaErrorInvalidValue);
  return api([&](const Driver& table) {
    CUipcMemHandle given;
    std::memcpy(&given, &handle, sizeof given);
    return CUDART_CALL(table, cuIpcOpenMemHandle, address_out(pointer), given, flags);
  });
}

extern "C" cudaError_t cudaIpcOpenEventHandle(cudaEvent_t* event, cudaIpcEventHandle_t handle) {
  return api([&](const Driver& table) {
    CUipcEventHandle given;
    std::memcpy(&given, &handle, sizeof given);
    return CUDART_CALL(table, cuIpcOpenEventHandle, event, given);
  });
}

CUDART_SAME(cudaIpcGetMemHandle, cuIpcGetMemHandle, (cudaIpcMemHandle_t * handle, void* pointer),
            as_driver<CUipcMemHandle*>(handle), address(pointer))
CUDART_SAME(cudaIpcCloseMemHandle, cuIpcCloseMemHandle, (void* pointer), address(pointer))
CUDART_SAME(cudaIpcGetEventHandle, cuIpcGetEventHandle, (cudaIpcEventHandle_t * handle, cudaEvent_t event),
            as_driver<CUipcEventHandle*>(handle), event)

CUDART_SAME(cudaMemPoolExportToShareableHandle, cuMemPoolExportToShareableHandle,
            (void* handle, cudaMemPool_t pool, cudaMemAllocationHandleType type, unsigned flags), handle, pool,
            static_cast<CUmemAllocationHandleType>(type), flags)
CUDART_SAME(cudaMemPoolImportFromShareableHandle, cuMemPoolImportFromShareableHandle,
            (cudaMemPool_t * pool, void* handle, cudaMemAllocationHandleType type, unsigned flags), pool, handle,
            static_cast<CUmemAllocationHandleType>(type), flags)
CUDART_SAME(cudaMemPoolExportPointer, cuMemPoolExportPointer, (cudaMemPoolPtrExportData * data, void* pointer),
            as_driver<CUmemPoolPtrExportData*>(data), address(pointer))
CUDART_SAME(cudaMemPoolImportPointer, cuMemPoolImportPointer,
            (void** pointer, cudaMemPool_t pool, cudaMemPoolPtrExportData* data), address_out(pointer), pool,
            as_driver<CUmemPoolPtrExportData*>(data))
