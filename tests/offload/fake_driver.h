// SPDX-License-Identifier: Apache-2.0
// Drivers for tests of the engine: one that calls back before the host waits, one that counts launches and loses or
// refuses some, one that loads no modules. One of each kind at a time in a process.
#pragma once

#include <functional>
#include <map>

#include "driver/table.h"

namespace thermocline {

inline std::function<void()> before_each_wait, before_each_host_free = [] {};

// Nothing can be pinned. Tells of copies that then make the host wait, with the stream that they are in.
inline std::function<void(CUstream)> before_each_pageable_copy;
inline void refuse_pinned_memory(DriverTable* table) {
  static decltype(DriverTable::cuMemcpyDtoHAsync) to_host;
  static decltype(DriverTable::cuMemcpyHtoDAsync) to_device;
  to_host = table->cuMemcpyDtoHAsync;
  to_device = table->cuMemcpyHtoDAsync;
  table->cuMemHostAlloc = [](void**, std::size_t, unsigned) { return CUDA_ERROR_OUT_OF_MEMORY; };
  table->cuMemcpyDtoHAsync = [](void* to, CUdeviceptr from, std::size_t bytes, CUstream stream) {
    before_each_pageable_copy(stream);
    return to_host(to, from, bytes, stream);
  };
  table->cuMemcpyHtoDAsync = [](CUdeviceptr to, const void* from, std::size_t bytes, CUstream stream) {
    before_each_pageable_copy(stream);
    return to_device(to, from, bytes, stream);
  };
}

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

// The first modules find no device memory.
inline int modules_loaded = 0, modules_without_room = 0;
inline void refuse_first_modules(DriverTable* table, int count) {
  static decltype(DriverTable::cuModuleLoadData) load;
  load = table->cuModuleLoadData;
  modules_loaded = 0;
  modules_without_room = count;
  table->cuModuleLoadData = [](CUmodule* module, const void* image) {
    return modules_loaded++ < modules_without_room ? CUDA_ERROR_OUT_OF_MEMORY : load(module, image);
  };
}
inline void refuse_the_first_module(DriverTable* table) { refuse_first_modules(table, 1); }

inline void refuse_modules(DriverTable* table) {
  table->cuModuleLoadData = [](CUmodule*, const void*) { return CUDA_ERROR_UNSUPPORTED_PTX_VERSION; };
}

// A machine that pins no more than `most` bytes at a time, by whatever call. Memory that is given back may be pinned
// again: a registration of many pages that fails gives back the pages that it had.
struct PinnedMemory {
  decltype(DriverTable::cuMemHostAlloc) host_alloc = nullptr;
  decltype(DriverTable::cuMemFreeHost) free_host = nullptr;
  decltype(DriverTable::cuMemCreate) create = nullptr;
  decltype(DriverTable::cuMemRelease) release = nullptr;
  Bytes most = 0, taken = 0;
  std::map<std::uint64_t, Bytes> held{};  // by address or handle

  bool fits(Bytes bytes) const { return taken + bytes <= most; }
  CUresult took(CUresult result, std::uint64_t what, Bytes bytes) {
    if (result == CUDA_SUCCESS) taken += held[what] = bytes;
    return result;
  }
  CUresult gave(CUresult result, std::uint64_t what) {
    if (const auto found = held.find(what); result == CUDA_SUCCESS && found != held.end()) {
      taken -= found->second;
      held.erase(found);
    }
    return result;
  }
};
inline PinnedMemory pinned_memory;

inline void limit_pinned_memory(DriverTable* table) {
  pinned_memory = {.host_alloc = table->cuMemHostAlloc,
                   .free_host = table->cuMemFreeHost,
                   .create = table->cuMemCreate,
                   .release = table->cuMemRelease,
                   .most = pinned_memory.most};
  table->cuMemHostAlloc = [](void** out, std::size_t bytes, unsigned flags) {
    if (!pinned_memory.fits(bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
    const CUresult result = pinned_memory.host_alloc(out, bytes, flags);
    return pinned_memory.took(result, reinterpret_cast<std::uint64_t>(*out), bytes);
  };
  table->cuMemFreeHost = [](void* at) {
    return pinned_memory.gave(pinned_memory.free_host(at), reinterpret_cast<std::uint64_t>(at));
  };
  table->cuMemCreate = [](CUmemGenericAllocationHandle* out, std::size_t bytes, const CUmemAllocationProp* properties,
                          unsigned long long flags) {
    if (properties->location.type == CU_MEM_LOCATION_TYPE_DEVICE)
      return pinned_memory.create(out, bytes, properties, flags);
    if (!pinned_memory.fits(bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
    const CUresult result = pinned_memory.create(out, bytes, properties, flags);
    return pinned_memory.took(result, *out, bytes);
  };
  table->cuMemRelease = [](CUmemGenericAllocationHandle handle) {
    return pinned_memory.gave(pinned_memory.release(handle), handle);
  };
}

}  // namespace thermocline
