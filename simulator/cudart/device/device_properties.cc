// SPDX-License-Identifier: Apache-2.0
// cudaGetDeviceProperties: one driver attribute for each field (the struct of CUDA 13.0, driver_types.h).
// cudaChooseDevice has no preferences: it returns device 0 if there is one.
#include <cstring>

#include "simulator/cudart/session.h"

namespace simulator::cudart {
namespace {

// If the driver does not know an attribute, the field stays zero, as for an absent capability.
class Reader {
 public:
  Reader(const Driver& table, CUdevice device) : table_(table), device_(device) {}

  template <typename Field>
  void read(Field* field, CUdevice_attribute attribute) const {
    int value = 0;
    if (CUDART_CALL(table_, cuDeviceGetAttribute, &value, attribute, device_) == cudaSuccess)
      *field = static_cast<Field>(value);
  }

 private:
  const Driver& table_;
  CUdevice device_;
};

void read_launch_limits(const Reader& reader, cudaDeviceProp* p) {
  reader.read(&p->sharedMemPerBlock, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK);
  reader.read(&p->regsPerBlock, CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK);
  reader.read(&p->warpSize, CU_DEVICE_ATTRIBUTE_WARP_SIZE);
  reader.read(&p->maxThreadsPerBlock, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
  reader.read(&p->maxThreadsDim[0], CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X);
  reader.read(&p->maxThreadsDim[1], CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y);
  reader.read(&p->maxThreadsDim[2], CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z);
  reader.read(&p->maxGridSize[0], CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X);
  reader.read(&p->maxGridSize[1], CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y);
  reader.read(&p->maxGridSize[2], CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z);
  reader.read(&p->maxThreadsPerMultiProcessor, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR);
  reader.read(&p->sharedMemPerMultiprocessor, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR);
  reader.read(&p->regsPerMultiprocessor, CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR);
  reader.read(&p->sharedMemPerBlockOptin, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
  reader.read(&p->reservedSharedMemPerBlock, CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK);
  reader.read(&p->maxBlocksPerMultiProcessor, CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR);
  reader.read(&p->cooperativeLaunch, CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH);
  reader.read(&p->clusterLaunch, CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH);
}

void read_memory(const Reader& reader, cudaDeviceProp* p) {
  reader.read(&p->memPitch, CU_DEVICE_ATTRIBUTE_MAX_PITCH);
  reader.read(&p->totalConstMem, CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY);
  reader.read(&p->canMapHostMemory, CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY);
  reader.read(&p->ECCEnabled, CU_DEVICE_ATTRIBUTE_ECC_ENABLED);
  reader.read(&p->unifiedAddressing, CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING);
  reader.read(&p->memoryBusWidth, CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH);
  reader.read(&p->l2CacheSize, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
  reader.read(&p->persistingL2CacheMaxSize, CU_DEVICE_ATTRIBUTE_MAX_PERSISTING_L2_CACHE_SIZE);
  reader.read(&p->accessPolicyMaxWindowSize, CU_DEVICE_ATTRIBUTE_MAX_ACCESS_POLICY_WINDOW_SIZE);
  reader.read(&p->globalL1CacheSupported, CU_DEVICE_ATTRIBUTE_GLOBAL_L1_CACHE_SUPPORTED);
  reader.read(&p->localL1CacheSupported, CU_DEVICE_ATTRIBUTE_LOCAL_L1_CACHE_SUPPORTED);
  reader.read(&p->managedMemory, CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY);
  reader.read(&p->concurrentManagedAccess, CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS);
  reader.read(&p->directManagedMemAccessFromHost, CU_DEVICE_ATTRIBUTE_DIRECT_MANAGED_MEM_ACCESS_FROM_HOST);
  reader.read(&p->pageableMemoryAccess, CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS);
  reader.read(&p->pageableMemoryAccessUsesHostPageTables,
              CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES);
  reader.read(&p->canUseHostPointerForRegisteredMem, CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM);
  reader.read(&p->hostRegisterSupported, CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED);
  reader.read(&p->hostRegisterReadOnlySupported, CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED);
  reader.read(&p->hostNativeAtomicSupported, CU_DEVICE_ATTRIBUTE_HOST_NATIVE_ATOMIC_SUPPORTED);
  reader.read(&p->memoryPoolsSupported, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED);
  reader.read(&p->memoryPoolSupportedHandleTypes, CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES);
  reader.read(&p->gpuDirectRDMASupported, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED);
  reader.read(&p->gpuDirectRDMAFlushWritesOptions, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS);
  reader.read(&p->gpuDirectRDMAWritesOrdering, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING);
}

void read_machine(const Reader& reader, cudaDeviceProp* p) {
  reader.read(&p->major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
  reader.read(&p->minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  reader.read(&p->multiProcessorCount, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  reader.read(&p->integrated, CU_DEVICE_ATTRIBUTE_INTEGRATED);
  reader.read(&p->concurrentKernels, CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS);
  reader.read(&p->asyncEngineCount, CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT);
  reader.read(&p->pciBusID, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID);
  reader.read(&p->pciDeviceID, CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID);
  reader.read(&p->pciDomainID, CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID);
  reader.read(&p->gpuPciDeviceID, CU_DEVICE_ATTRIBUTE_GPU_PCI_DEVICE_ID);
  reader.read(&p->gpuPciSubsystemID, CU_DEVICE_ATTRIBUTE_GPU_PCI_SUBSYSTEM_ID);
  reader.read(&p->tccDriver, CU_DEVICE_ATTRIBUTE_TCC_DRIVER);
  reader.read(&p->streamPrioritiesSupported, CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED);
  reader.read(&p->computePreemptionSupported, CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED);
  reader.read(&p->isMultiGpuBoard, CU_DEVICE_ATTRIBUTE_MULTI_GPU_BOARD);
  reader.read(&p->multiGpuBoardGroupID, CU_DEVICE_ATTRIBUTE_MULTI_GPU_BOARD_GROUP_ID);
  reader.read(&p->timelineSemaphoreInteropSupported, CU_DEVICE_ATTRIBUTE_TIMELINE_SEMAPHORE_INTEROP_SUPPORTED);
  reader.read(&p->ipcEventSupported, CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED);
  reader.read(&p->unifiedFunctionPointers, CU_DEVICE_ATTRIBUTE_UNIFIED_FUNCTION_POINTERS);
  reader.read(&p->deviceNumaConfig, CU_DEVICE_ATTRIBUTE_NUMA_CONFIG);
  reader.read(&p->deviceNumaId, CU_DEVICE_ATTRIBUTE_NUMA_ID);
  reader.read(&p->hostNumaId, CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID);
  reader.read(&p->mpsEnabled, CU_DEVICE_ATTRIBUTE_MPS_ENABLED);
}

// Size limits of textures are not filled in: they stay zero.
cudaError_t properties(const Driver& table, cudaDeviceProp* p, int ordinal) {
  CUdevice device = 0;
  if (const cudaError_t status = CUDART_CALL(table, cuDeviceGet, &device, ordinal); status != cudaSuccess)
    return status;
  *p = {};
  cudaError_t status = CUDART_CALL(table, cuDeviceGetName, p->name, static_cast<int>(sizeof p->name), device);
  if (status == cudaSuccess) status = CUDART_CALL(table, cuDeviceTotalMem, &p->totalGlobalMem, device);
  if (status != cudaSuccess) return status;
  CUuuid uuid = {};
  if (CUDART_CALL(table, cuDeviceGetUuid, &uuid, device) == cudaSuccess)
    std::memcpy(p->uuid.bytes, uuid.bytes, sizeof uuid.bytes);
  const Reader reader(table, device);
  read_launch_limits(reader, p);
  read_memory(reader, p);
  read_machine(reader, p);
  reader.read(&p->textureAlignment, CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT);
  reader.read(&p->texturePitchAlignment, CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT);
  return cudaSuccess;
}

}  // namespace
}  // namespace simulator::cudart

using namespace simulator::cudart;

extern "C" {

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* p, int device) {
  if (p == nullptr) return record(cudaErrorInvalidValue);
  const cudaError_t status = load_driver();
  return record(status == cudaSuccess ? properties(driver(), p, device) : status);
}

cudaError_t cudaChooseDevice(int* device, const cudaDeviceProp* wanted) {
  if (device == nullptr || wanted == nullptr) return record(cudaErrorInvalidValue);
  *device = 0;
  int count = 0;
  return cudaGetDeviceCount(&count);
}

}  // extern "C"
