// SPDX-License-Identifier: Apache-2.0
#include "simulator/cuda/context/device_attributes.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace simulator::cuda {
namespace {

struct Row {
  int capability;  // the row for the newest capability that is not newer than the device's applies
  Limits limits;
};

constexpr int kKi = 1 << 10;

constexpr Row kRows[] = {
    {50, {2048, 32, 64 * kKi, 48 * kKi, 128}},   {52, {2048, 32, 96 * kKi, 48 * kKi, 128}},
    {60, {2048, 32, 64 * kKi, 48 * kKi, 64}},    {61, {2048, 32, 96 * kKi, 48 * kKi, 128}},
    {70, {2048, 32, 96 * kKi, 96 * kKi, 64}},    {75, {1024, 16, 64 * kKi, 64 * kKi, 64}},
    {80, {2048, 32, 164 * kKi, 163 * kKi, 64}},  {86, {1536, 16, 100 * kKi, 99 * kKi, 128}},
    {87, {1536, 16, 164 * kKi, 163 * kKi, 128}}, {89, {1536, 24, 100 * kKi, 99 * kKi, 128}},
    {90, {2048, 32, 228 * kKi, 227 * kKi, 128}}, {100, {2048, 32, 228 * kKi, 227 * kKi, 128}},
    {120, {1536, 24, 100 * kKi, 99 * kKi, 128}},
};

constexpr int kBusWidthBits = 4096;  // assumed; the memory clock is chosen so that the bandwidth is right

// The clock in kHz at which that many cores reach the profile's rate.
int clock_khz(const Profile& profile) {
  const double cores = static_cast<double>(limits_of(profile).cores_per_multiprocessor) * profile.multiprocessors.value;
  return static_cast<int>(std::min(profile.fp32_flops.value / (2 * cores) / 1000, 1e9));
}

int memory_clock_khz(const Profile& profile) {
  return static_cast<int>(profile.memory_bandwidth.value / (2.0 * kBusWidthBits / 8) / 1000);
}

// Attributes that all devices since compute capability 5.0 have in common, in no particular order. All others are 0.
constexpr std::pair<CUdevice_attribute, int> kCommon[] = {
    {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, kThreadsPerBlock},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, kThreadsPerBlock},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, kThreadsPerBlock},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, 64},
    {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, 0x7fffffff},
    {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, 65535},
    {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, 65535},
    {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, kSharedPerBlock},
    {CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY, 64 * kKi},
    {CU_DEVICE_ATTRIBUTE_WARP_SIZE, 32},
    {CU_DEVICE_ATTRIBUTE_MAX_PITCH, 0x7fffffff},
    {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK, kRegistersPerMultiprocessor},
    {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR, kRegistersPerMultiprocessor},
    {CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT, 512},
    {CU_DEVICE_ATTRIBUTE_SURFACE_ALIGNMENT, 512},
    {CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT, 32},
    {CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, 1},
    {CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, kBusWidthBits},
    {CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, 32 << 20},  // assumed: nothing is computed from it
    {CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, 2},    // one for each direction
    {CU_DEVICE_ATTRIBUTE_SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO, 2},
    {CU_DEVICE_ATTRIBUTE_GPU_OVERLAP, 1},
    {CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, 1},
    {CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS, 1},
    {CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 1},
    {CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_GLOBAL_L1_CACHE_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_LOCAL_L1_CACHE_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, 1},
    {CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, 1},  // from Pascal on, under Linux
    {CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, 1},
    {CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH, 1},
    {CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_MEM_OPS_V1, 1},
    {CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS_V1, 1},
    {CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR_V1, 1},
    {CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS, 1},
    {CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR, 1},
    {CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_MEM_SYNC_DOMAIN_COUNT, 1},
    {CU_DEVICE_ATTRIBUTE_NUMA_ID, -1},
    {CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, -1},
    {CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_HOST_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 1},
};

int common_attribute(CUdevice_attribute attribute) {
  const auto* const found =
      std::find_if(std::begin(kCommon), std::end(kCommon), [&](const auto& entry) { return entry.first == attribute; });
  return found == std::end(kCommon) ? 0 : found->second;
}

}  // namespace

const Limits& limits_of(const Profile& profile) {
  const Limits* found = &kRows[0].limits;
  for (const Row& row : kRows) {
    if (row.capability <= profile.compute_capability.value) found = &row.limits;
  }
  return *found;
}

int device_attribute(const Profile& profile, CUdevice_attribute attribute) {
  const int capability = profile.compute_capability.value;
  switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
      return capability / 10;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
      return capability % 10;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
      return profile.multiprocessors.value;
    case CU_DEVICE_ATTRIBUTE_CLOCK_RATE:
      return clock_khz(profile);
    case CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE:
      return memory_clock_khz(profile);
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR:
      return limits_of(profile).threads_per_multiprocessor;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR:
      return limits_of(profile).blocks_per_multiprocessor;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR:
      return limits_of(profile).shared_per_multiprocessor;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
      return limits_of(profile).shared_per_block_on_request;
    case CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK:
      return capability >= 80 ? kReservedShared : 0;
    case CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH:
    case CU_DEVICE_ATTRIBUTE_TENSOR_MAP_ACCESS_SUPPORTED:
      return capability >= 90 ? 1 : 0;
    default:
      return common_attribute(attribute);
  }
}

}  // namespace simulator::cuda
