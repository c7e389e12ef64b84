// SPDX-License-Identifier: Apache-2.0
// Drivers for tests of the engine: one that calls back before the host waits, one that counts launches and loses or
// refuses some, one that loads no modules. One of each kind at a time in a process.
#pragma once

#include <functional>

#include "driver/table.h"

namespace thermocline {

inline std::function<void()> before_each_wait, before_each_host_free = [] {};

inline DriverTable telling_of_waits(const DriverTable& below) {
  static decltype(DriverTable::cuEventSynchronize) synchronize;
  static decltype(DriverTable::cuMemFreeHost) free_host;
  synchronize = below.cuEventSynchronize;
  free_host = below.cuMemFreeHost;
  DriverTable table = below;
  table.cuEventSynchronize = [](CUevent event) {
    before_each_wait();
    return synchronize(event);
  };
  table.cuMemFreeHost = [](void* at) {
    before_each_host_free();
    before_each_wait();
    return free_host(at);
  };
  return table;
}

// Launches are counted, and may fail from some launch on: all of them, or be lost, those of the kernel that was launched
// first.
struct Launches {
  decltype(DriverTable::cuLaunchKernel) real = nullptr;
  CUfunction first = nullptr;
  unsigned made = 0, refused_from = ~0u, lost_from = ~0u;
};
inline Launches launches;

inline void watch_launches(DriverTable* table) {
  launches = {.real = table->cuLaunchKernel};
  table->cuLaunchKernel = [](CUfunction function, unsigned x, unsigned y, unsigned z, unsigned bx, unsigned by,
                             unsigned bz, unsigned shared, CUstream stream, void** parameters, void** extra) {
    const unsigned number = launches.made++;
    if (number == 0) launches.first = function;
    if (number >= launches.refused_from) return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
    // The launch returns success, and nothing runs.
    if (number >= launches.lost_from && function == launches.first) return CUDA_SUCCESS;
    return launches.real(function, x, y, z, bx, by, bz, shared, stream, parameters, extra);
  };
}

// The first module finds no device memory.
inline int modules_loaded = 0;
inline void refuse_the_first_module(DriverTable* table) {
  static decltype(DriverTable::cuModuleLoadData) load;
  load = table->cuModuleLoadData;
  modules_loaded = 0;
  table->cuModuleLoadData = [](CUmodule* module, const void* image) {
    return modules_loaded++ == 0 ? CUDA_ERROR_OUT_OF_MEMORY : load(module, image);
  };
}

inline void refuse_modules(DriverTable* table) {
  table->cuModuleLoadData = [](CUmodule*, const void*) { return CUDA_ERROR_UNSUPPORTED_PTX_VERSION; };
}

// A machine that pins no more than `most` bytes in all, in whichever way.
struct PinnedMemory {
  decltype(DriverTable::cuMemHostAlloc) host_alloc = nullptr;
  decltype(DriverTable::cuMemCreate) create = nullptr;
  Bytes most = 0, taken = 0;

  bool take(Bytes bytes) {
    if (taken + bytes > most) return false;
    taken += bytes;
    return true;
  }
};
inline PinnedMemory pinned_memory;

inline void limit_pinned_memory(DriverTable* table) {
  pinned_memory = {.host_alloc = table->cuMemHostAlloc, .create = table->cuMemCreate, .most = pinned_memory.most};
  table->cuMemHostAlloc = [](void** out, std::size_t bytes, unsigned flags) {
    return pinned_memory.take(bytes) ? pinned_memory.host_alloc(out, bytes, flags) : CUDA_ERROR_OUT_OF_MEMORY;
  };
  table->cuMemCreate = [](CUmemGenericAllocationHandle* out, std::size_t bytes, const CUmemAllocationProp* properties,
                          unsigned long long flags) {
    if (properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE && !pinned_memory.take(bytes))
      return CUDA_ERROR_OUT_OF_MEMORY;
    return pinned_memory.create(out, bytes, properties, flags);
  };
}

}  // namespace thermocline
