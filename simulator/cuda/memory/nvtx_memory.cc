// SPDX-License-Identifier: Apache-2.0
// The simulator as a consumer of NVTX's memory extension: if NVTX_INJECTION64_PATH names this library, a sub-allocator
// reports where its heap is and which buffers are in it, as it would to any tool. The race checker and the mixing of
// kernels use these buffers; mappings inside a heap are not buffers. Source: nvtx3/nvToolsExtMem.h and
// nvtxDetail/nvtxExtTypes.h of CUDA 13.0: the client passes the table of its function slots, numbered by
// NVTX3EXT_CBID_*, and from then on calls the functions that the tool writes there.
#include "simulator/cuda/call.h"

#define NVTX_NO_IMPL
#include <nvtx3/nvToolsExtMem.h>

#include <algorithm>

using namespace simulator;
using namespace simulator::cuda;

namespace {

Registry<nvtxMemHeap_v1>& heaps() { return state().nvtx_heaps; }
std::map<Address, nvtxMemHeapHandle_t>& regions() { return state().nvtx_regions; }

bool is_range(std::uint32_t type, const void* description, std::size_t bytes) {
  return type == NVTX_MEM_TYPE_VIRTUAL_ADDRESS && description != nullptr && bytes >= sizeof(nvtxMemVirtualRangeDesc_t);
}

Address address(const void* at) { return reinterpret_cast<Address>(at); }

// Calls visit for each of `count` elements that are `step` bytes apart.
template <typename T, typename Visit>
void for_elements(const void* first, std::size_t count, std::size_t step, Visit visit) {
  if (first == nullptr || step < sizeof(T)) return;
  for (std::size_t i = 0; i < count; ++i)
    visit(*reinterpret_cast<const T*>(static_cast<const std::byte*>(first) + i * step), i);
}

void remove_region(Call& call, Address at) {
  if (regions().erase(at) != 0) call.machine().unregister_buffer(at);
}

void add_region(Call& call, nvtxMemHeapHandle_t heap, const nvtxMemVirtualRangeDesc_t& range, Fresh fresh) {
  const Address at = address(range.ptr);
  if (range.size == 0 || call.machine().register_buffer(at, range.size, fresh) != CUDA_SUCCESS) return;
  regions()[at] = heap;
}

nvtxMemHeapHandle_t heap_register(nvtxDomainHandle_t, const nvtxMemHeapDesc_t* desc) {
  Call call(Needs::kDriver);
  if (!call || desc == nullptr || !is_range(desc->type, desc->typeSpecificDesc, desc->typeSpecificDescSize))
    return nullptr;
  const auto& range = *static_cast<const nvtxMemVirtualRangeDesc_t*>(desc->typeSpecificDesc);
  call.machine().register_heap(address(range.ptr), range.size);
  return heaps().add({address(range.ptr), range.size});
}

void heap_reset(nvtxDomainHandle_t, nvtxMemHeapHandle_t heap) {
  Call call(Needs::kDriver);
  if (!call) return;
  for (auto region = regions().begin(); region != regions().end();) {
    const auto [at, owner] = *region++;
    if (owner == heap) remove_region(call, at);
  }
}

void heap_unregister(nvtxDomainHandle_t domain, nvtxMemHeapHandle_t heap) {
  heap_reset(domain, heap);
  Call call(Needs::kDriver);
  if (!call || !heaps().has(heap)) return;
  call.machine().unregister_heap(heap->begin);
  heaps().remove(heap);
}

// The address is the region's handle.
void regions_register(nvtxDomainHandle_t, const nvtxMemRegionsRegisterBatch_t* batch) {
  Call call(Needs::kDriver);
  if (!call || batch == nullptr || batch->regionType != NVTX_MEM_TYPE_VIRTUAL_ADDRESS) return;
  for_elements<nvtxMemVirtualRangeDesc_t>(batch->regionDescElements, batch->regionCount, batch->regionDescElementSize,
                                          [&](const auto& range, std::size_t i) {
                                            add_region(call, batch->heap, range, Fresh::kInOrder);
                                            if (batch->regionHandleElementsOut != nullptr) {
                                              batch->regionHandleElementsOut[i] =
                                                  reinterpret_cast<nvtxMemRegionHandle_t>(const_cast<void*>(range.ptr));
                                            }
                                          });
}

void regions_resize(nvtxDomainHandle_t, const nvtxMemRegionsResizeBatch_t* batch) {
  Call call(Needs::kDriver);
  if (!call || batch == nullptr || batch->regionType != NVTX_MEM_TYPE_VIRTUAL_ADDRESS) return;
  for_elements<nvtxMemVirtualRangeDesc_t>(batch->regionDescElements, batch->regionDescCount,
                                          batch->regionDescElementSize, [&](const auto& range, std::size_t) {
                                            const auto region = regions().find(address(range.ptr));
                                            if (region == regions().end()) return;
                                            const nvtxMemHeapHandle_t heap = region->second;
                                            remove_region(call, address(range.ptr));
                                            add_region(call, heap, range, Fresh::kNo);
                                          });
}

void regions_unregister(nvtxDomainHandle_t, const nvtxMemRegionsUnregisterBatch_t* batch) {
  Call call(Needs::kDriver);
  if (!call || batch == nullptr) return;
  if (batch->refType != NVTX_MEM_REGION_REF_TYPE_POINTER && batch->refType != NVTX_MEM_REGION_REF_TYPE_HANDLE) return;
  for_elements<nvtxMemRegionRef_t>(
      batch->refElements, batch->refCount, batch->refElementSize,
      [&](const nvtxMemRegionRef_t& region, std::size_t) { remove_region(call, address(region.pointer)); });
}

struct Slot {
  std::size_t number;
  std::intptr_t function;
};

template <typename F>
std::intptr_t slot(F* function) {
  return reinterpret_cast<std::intptr_t>(function);
}

}  // namespace

// 0 makes the client disable the extension.
extern "C" __attribute__((visibility("default"))) int InitializeInjectionNvtxExtension(nvtxExtModuleInfo_t* module) {
  if (module == nullptr || module->moduleId != NVTX_EXT_MODULEID_MEM || module->segments == nullptr) return 0;
  const Slot slots[] = {{NVTX3EXT_CBID_nvtxMemHeapRegister, slot(&heap_register)},
                        {NVTX3EXT_CBID_nvtxMemHeapUnregister, slot(&heap_unregister)},
                        {NVTX3EXT_CBID_nvtxMemHeapReset, slot(&heap_reset)},
                        {NVTX3EXT_CBID_nvtxMemRegionsRegister, slot(&regions_register)},
                        {NVTX3EXT_CBID_nvtxMemRegionsResize, slot(&regions_resize)},
                        {NVTX3EXT_CBID_nvtxMemRegionsUnregister, slot(&regions_unregister)}};
  for (std::size_t s = 0; s < module->segmentsCount; ++s) {
    const nvtxExtModuleSegment_t& segment = module->segments[s];
    for (const Slot& entry : slots) {
      if (entry.number < segment.slotCount) segment.functionSlots[entry.number] = entry.function;
    }
  }
  return 1;
}
