// SPDX-License-Identifier: Apache-2.0
// External memory: physical memory that the program maps itself (cuMemCreate), and device memory that libraries
// allocate for their own use. It counts against the budget and is never moved.
#include <map>

#include "driver/locks.h"
#include "hooks/capture/capture_state.h"
#include "hooks/entry/external_memory.h"
#include "hooks/interpose/lock_levels.h"
#include "hooks/interpose/process_lifetime.h"
#include "hooks/runtime/backoff.h"
#include "hooks/runtime/guarded.h"
#include "hooks/submit/allocation.h"
#include "hooks/submit/driver_room.h"
#include "hooks/submit/heap_memory.h"
#include "hooks/submit/submit.h"

namespace thermocline {
namespace {

// The external memory that the engine of one device has been told about.
struct Ledger {
  ExternalMemory memory;
  ExternalMemory allocations;  // by address instead of handle
};

struct Ledgers {
  Mutex mutex{"external memory", lock_level::kExternalMemory};
  std::map<const ActiveEngine*, Ledger> all THERMOCLINE_GUARDED_BY(mutex);
};

Ledgers& ledgers() { return process_lifetime<Ledgers>(); }

bool is_on(const CUmemAllocationProp* properties, CUdevice device) {
  return properties != nullptr && properties->location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
         properties->location.id == device;
}

// The engine of the device that has the memory, which need not be the current one; if there is none, the current
// context's engine is created.
const ActiveEngine* engine_of(const CUmemAllocationProp* properties) {
  const ActiveEngine* const current = Runtime::get().in_current_context();
  if (current != nullptr && is_on(properties, current->device)) return current;
  const EngineSet* const engines = engines_now();
  if (engines == nullptr || properties == nullptr || properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
    return nullptr;
  return engines->on(properties->location.id);
}

// Calls the driver; on success the memory is recorded under what `out` returns.
CUresult take_once(const ActiveEngine& active, unsigned long long* out, Bytes bytes, ExternalMemory Ledger::*kind,
                   Call call) {
  return guarded([&] {
    const CurrentContext context(active);
    const Inside inside;
    const CaptureTruce truce;
    const Status counted = with_backoff([&] { return active.engine->add_external(bytes); });
    if (!counted.ok()) return static_cast<CUresult>(counted.code());
    const MutexLock lock(ledgers().mutex);
    Ledger& ledger = ledgers().all[&active];
    const CUresult result = heard(call());
    if (result == CUDA_SUCCESS) {
      (ledger.*kind).created(*out, bytes);
    } else {
      active.engine->remove_external(bytes);
    }
    return result;
  });
}

CUresult take(const ActiveEngine& active, unsigned long long* out, Bytes bytes, ExternalMemory Ledger::*kind,
              Call call) {
  return with_driver_room([&] { return take_once(active, out, bytes, kind, call); });
}

CUresult create(CUmemGenericAllocationHandle* handle, Bytes bytes, const CUmemAllocationProp* properties, Call call) {
  if (Inside::now() || handle == nullptr || bytes == 0) return call();
  const ActiveEngine* active = engine_of(properties);
  return active == nullptr ? call() : take(*active, handle, bytes, &Ledger::memory, call);
}

// Applies `change` to every ledger after the driver's call has succeeded; a handle or an address is known to at most
// one of them. `change` returns how many bytes have returned to the device.
template <class Change>
CUresult follow(CUresult result, Change change) {
  if (result != CUDA_SUCCESS || engines_now() == nullptr) return result;
  return guarded([&] {
    const HeldEngines engines;
    const Inside inside;
    const CaptureTruce truce;
    const MutexLock lock(ledgers().mutex);
    std::map<const ActiveEngine*, Ledger>& all = ledgers().all;
    // Engines that began later do not know of memory that was recorded for engines that have ended.
    std::erase_if(all, [&](const auto& entry) { return engines.none() || !engines->has(entry.first); });
    for (auto& [active, ledger] : all) {
      const Bytes bytes = change(ledger);
      if (bytes != 0 && !Runtime::get().broken()) active->engine->remove_external(bytes);
    }
    return result;
  });
}

}  // namespace

CUresult allocate_external(CUdeviceptr* out, Bytes bytes, Call call) {
  const ActiveEngine* active = Runtime::get().in_current_context();
  if (out == nullptr || bytes == 0) return call();
  if (active == nullptr) {
    DeviceHeap* const heap = Inside::now() ? nullptr : caching_heap_of_current_device();
    return heap == nullptr ? call() : allocate_beside(*heap, out, bytes, call);
  }
  return take(*active, out, bytes, &Ledger::allocations, call);
}

CUresult free_external(CUdeviceptr address, Call call) {
  if (const std::optional<CUresult> freed = free_in_heap(address, true, call); freed.has_value()) return *freed;
  return follow(call(), [&](Ledger& ledger) { return ledger.allocations.released(address); });
}

}  // namespace thermocline

extern "C" {

CUresult CUDAAPI cuMemCreate(CUmemGenericAllocationHandle* handle, size_t size, const CUmemAllocationProp* prop,
                             unsigned long long flags) {
  using namespace thermocline;
  return create(handle, size, prop, [&] { return real<Function::cuMemCreate>(handle, size, prop, flags); });
}

CUresult CUDAAPI cuMemRelease(CUmemGenericAllocationHandle handle) {
  using namespace thermocline;
  return follow(real<Function::cuMemRelease>(handle), [&](Ledger& ledger) { return ledger.memory.released(handle); });
}

CUresult CUDAAPI cuMemMap(CUdeviceptr ptr, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
                          unsigned long long flags) {
  using namespace thermocline;
  return follow(real<Function::cuMemMap>(ptr, size, offset, handle, flags), [&](Ledger& ledger) {
    ledger.memory.mapped(DeviceAddress{ptr}, size, handle);
    return Bytes{0};
  });
}

CUresult CUDAAPI cuMemUnmap(CUdeviceptr ptr, size_t size) {
  using namespace thermocline;
  return follow(real<Function::cuMemUnmap>(ptr, size),
                [&](Ledger& ledger) { return ledger.memory.unmapped(DeviceAddress{ptr}, size); });
}

// For memory of an engine: its buffer stays, because the handle may be mapped anywhere. For the program's own memory:
// one more reference.
CUresult CUDAAPI cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* handle, void* addr) {
  using namespace thermocline;
  const AccessList at = AccessList().word(reinterpret_cast<CUdeviceptr>(addr));
  const CUresult result = keep(at, "its physical memory was asked for",
                               [&] { return real<Function::cuMemRetainAllocationHandle>(handle, addr); });
  if (handle == nullptr) return result;
  return follow(result, [&](Ledger& ledger) {
    ledger.memory.retained(*handle);
    return Bytes{0};
  });
}

}  // extern "C"
