// SPDX-License-Identifier: Apache-2.0
// Structures and calls as in the toolkit's nvtx3/nvToolsExtMem.h; that header implements the client side of NVTX
// itself.
#include "driver/nvtx_memory.h"

#include <nvtx3/nvToolsExt.h>
#include <nvtx3/nvToolsExtMem.h>

namespace thermocline {
namespace {

const void* to_pointer(DeviceAddress address) { return reinterpret_cast<const void*>(address.value); }
nvtxDomainHandle_t domain_of(void* domain) { return static_cast<nvtxDomainHandle_t>(domain); }
nvtxMemHeapHandle_t heap_of(void* heap) { return static_cast<nvtxMemHeapHandle_t>(heap); }

}  // namespace

NvtxMemory::NvtxMemory(const char* name, DeviceAddress begin, Bytes bytes) : domain_(nvtxDomainCreateA(name)) {
  nvtxMemVirtualRangeDesc_t range{};
  range.size = bytes;
  range.ptr = to_pointer(begin);
  nvtxMemHeapDesc_t heap{};
  heap.extCompatID = NVTX_EXT_COMPATID_MEM;
  heap.structSize = sizeof(heap);
  heap.usage = NVTX_MEM_HEAP_USAGE_TYPE_SUB_ALLOCATOR;
  heap.type = NVTX_MEM_TYPE_VIRTUAL_ADDRESS;
  heap.typeSpecificDescSize = sizeof(range);
  heap.typeSpecificDesc = &range;
  heap.messageType = NVTX_MESSAGE_TYPE_ASCII;
  heap.message.ascii = name;
  heap_ = nvtxMemHeapRegister(domain_of(domain_), &heap);
}

NvtxMemory::~NvtxMemory() {
  nvtxMemHeapUnregister(domain_of(domain_), heap_of(heap_));
  nvtxDomainDestroy(domain_of(domain_));
}

void NvtxMemory::add(DeviceAddress at, Bytes bytes) {
  nvtxMemVirtualRangeDesc_t range{};
  range.size = bytes;
  range.ptr = to_pointer(at);
  nvtxMemRegionsRegisterBatch_t batch{};
  batch.extCompatID = NVTX_EXT_COMPATID_MEM;
  batch.structSize = sizeof(batch);
  batch.regionType = NVTX_MEM_TYPE_VIRTUAL_ADDRESS;
  batch.heap = heap_of(heap_);
  batch.regionCount = 1;
  batch.regionDescElementSize = sizeof(range);
  batch.regionDescElements = &range;
  nvtxMemRegionsRegister(domain_of(domain_), &batch);
}

void NvtxMemory::remove(DeviceAddress at) {
  nvtxMemRegionRef_t region{};
  region.pointer = to_pointer(at);
  nvtxMemRegionsUnregisterBatch_t batch{};
  batch.extCompatID = NVTX_EXT_COMPATID_MEM;
  batch.structSize = sizeof(batch);
  batch.refType = NVTX_MEM_REGION_REF_TYPE_POINTER;
  batch.refCount = 1;
  batch.refElementSize = sizeof(region);
  batch.refElements = &region;
  nvtxMemRegionsUnregister(domain_of(domain_), &batch);
}

}  // namespace thermocline
