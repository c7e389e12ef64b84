// SPDX-License-Identifier: Apache-2.0
// A tool that NVTX loads (NVTX_INJECTION64_PATH): it logs what the memory extension is told. The test finds the log by
// dlsym.
#include <cstdint>
#include <string>

#define NVTX_NO_IMPL
#include <nvtx3/nvToolsExt.h>
#include <nvtx3/nvToolsExtMem.h>

namespace {

std::string& text() {
  static std::string log;
  return log;
}

void write(const char* what, const void* at, std::size_t bytes) {
  text() += std::string(what) + " " + std::to_string(reinterpret_cast<std::uintptr_t>(at)) + " " +
            std::to_string(bytes) + "\n";
}

nvtxMemHeapHandle_t heap_register(nvtxDomainHandle_t, const nvtxMemHeapDesc_t* heap) {
  const auto* range = static_cast<const nvtxMemVirtualRangeDesc_t*>(heap->typeSpecificDesc);
  if (heap->extCompatID != NVTX_EXT_COMPATID_MEM || heap->structSize != sizeof *heap ||
      heap->usage != NVTX_MEM_HEAP_USAGE_TYPE_SUB_ALLOCATOR || heap->type != NVTX_MEM_TYPE_VIRTUAL_ADDRESS) {
    text() += "malformed heap\n";
  }
  write((std::string("heap ") + heap->message.ascii).c_str(), range->ptr, range->size);
  return reinterpret_cast<nvtxMemHeapHandle_t>(std::uintptr_t{77});
}

void heap_unregister(nvtxDomainHandle_t, nvtxMemHeapHandle_t heap) { write("end", heap, 0); }

void regions_register(nvtxDomainHandle_t, const nvtxMemRegionsRegisterBatch_t* batch) {
  for (std::size_t i = 0; i < batch->regionCount; ++i) {
    const auto* range = reinterpret_cast<const nvtxMemVirtualRangeDesc_t*>(
        static_cast<const char*>(batch->regionDescElements) + i * batch->regionDescElementSize);
    if (reinterpret_cast<std::uintptr_t>(batch->heap) != 77) text() += "another heap\n";
    write("add", range->ptr, range->size);
  }
}

void regions_unregister(nvtxDomainHandle_t, const nvtxMemRegionsUnregisterBatch_t* batch) {
  for (std::size_t i = 0; i < batch->refCount; ++i) {
    const auto* region = reinterpret_cast<const nvtxMemRegionRef_t*>(reinterpret_cast<const char*>(batch->refElements) +
                                                                     i * batch->refElementSize);
    write(batch->refType == NVTX_MEM_REGION_REF_TYPE_POINTER ? "remove" : "malformed", region->pointer, 0);
  }
}

}  // namespace

extern "C" {
__attribute__((visibility("default"))) const char* nvtx_tool_log() { return text().c_str(); }

__attribute__((visibility("default"))) int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t) { return 1; }

__attribute__((visibility("default"))) int InitializeInjectionNvtxExtension(nvtxExtModuleInfo_t* module) {
  if (module->moduleId != NVTX_EXT_MODULEID_MEM || module->segmentsCount < 1) return 0;
  std::intptr_t* slots = module->segments[0].functionSlots;
  slots[NVTX3EXT_CBID_nvtxMemHeapRegister] = reinterpret_cast<std::intptr_t>(&heap_register);
  slots[NVTX3EXT_CBID_nvtxMemHeapUnregister] = reinterpret_cast<std::intptr_t>(&heap_unregister);
  slots[NVTX3EXT_CBID_nvtxMemRegionsRegister] = reinterpret_cast<std::intptr_t>(&regions_register);
  slots[NVTX3EXT_CBID_nvtxMemRegionsUnregister] = reinterpret_cast<std::intptr_t>(&regions_unregister);
  return 1;
}
}
