// SPDX-License-Identifier: Apache-2.0
// Physical memory that the program maps itself (cuMemCreate), and device memory that libraries allocate for ends of
// their own, counts against the budget and stays where it is.
#include <mutex>

#include "hooks/allocation.h"
#include "hooks/foreign_memory.h"
#include "hooks/submit.h"

namespace thermocline {
namespace {

struct Ledger {
  std::mutex mutex;
  ForeignMemory memory;
  ForeignMemory allocations;             // by address, not by handle
  const ActiveEngine* engine = nullptr;  // whose budget the memory is counted against
};

Ledger& ledger() {
  static auto* const one = new Ledger;
  return *one;
}

// The engine may have ended since: its successor has not heard of older memory.
void give_back(Ledger& ledger, Bytes bytes) {
  const ActiveEngine* active = Runtime::get().active();
  if (bytes == 0 || active == nullptr || active != ledger.engine || Runtime::get().broken()) return;
  active->engine->remove_foreign(bytes);
}

void take_engine(Ledger& ledger, const ActiveEngine* active) {
  if (ledger.engine == active) return;
  ledger.memory = ForeignMemory();
  ledger.allocations = ForeignMemory();
  ledger.engine = active;
}

bool is_on(const CUmemAllocationProp* properties, CUdevice device) {
  return properties != nullptr && properties->location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
         properties->location.id == device;
}

// Memory that is known as what `out` says when the call has succeeded.
CUresult take(const ActiveEngine* active, unsigned long long* out, Bytes bytes, ForeignMemory Ledger::*kind,
              Call call) {
  return guarded([&] {
    const Inside inside;
    const CaptureTruce truce;
    const std::lock_guard lock(ledger().mutex);
    take_engine(ledger(), active);
    if (Status status = active->engine->add_foreign(bytes); !status.ok()) return static_cast<CUresult>(status.code());
    CUresult result = call();
    // Pages that we hold and do not use may be what is missing.
    if (result == CUDA_ERROR_OUT_OF_MEMORY && active->engine->trim().ok()) result = call();
    if (result == CUDA_SUCCESS) {
      (ledger().*kind).created(*out, bytes);
    } else {
      active->engine->remove_foreign(bytes);
    }
    return result;
  });
}

CUresult create(CUmemGenericAllocationHandle* handle, Bytes bytes, const CUmemAllocationProp* properties, Call call) {
  const ActiveEngine* active = Inside::now() ? nullptr : Runtime::get().in_current_context();
  if (active == nullptr || handle == nullptr || bytes == 0 || !is_on(properties, active->device)) return call();
  return take(active, handle, bytes, &Ledger::memory, call);
}

// Runs `change` on the ledger when the driver has done the call.
template <class Change>
CUresult follow(CUresult result, Change change) {
  if (result != CUDA_SUCCESS || Inside::now() || Runtime::get().active() == nullptr) return result;
  return guarded([&] {
    const Inside inside;
    const CaptureTruce truce;
    const std::lock_guard lock(ledger().mutex);
    if (ledger().engine == Runtime::get().active()) change(ledger());
    return result;
  });
}

}  // namespace

CUresult allocate_foreign(CUdeviceptr* out, Bytes bytes, Call call) {
  const ActiveEngine* active = Inside::now() ? nullptr : Runtime::get().in_current_context();
  if (active == nullptr || out == nullptr || bytes == 0) return call();
  return take(active, out, bytes, &Ledger::allocations, call);
}

CUresult free_foreign(CUdeviceptr address, Call call) {
  return follow(call(), [&](Ledger& all) { give_back(all, all.allocations.released(address)); });
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
  return follow(real<Function::cuMemRelease>(handle),
                [&](Ledger& all) { give_back(all, all.memory.released(handle)); });
}

CUresult CUDAAPI cuMemMap(CUdeviceptr ptr, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
                          unsigned long long flags) {
  using namespace thermocline;
  return follow(real<Function::cuMemMap>(ptr, size, offset, handle, flags),
                [&](Ledger& all) { all.memory.mapped(DeviceAddress{ptr}, size, handle); });
}

CUresult CUDAAPI cuMemUnmap(CUdeviceptr ptr, size_t size) {
  using namespace thermocline;
  return follow(real<Function::cuMemUnmap>(ptr, size),
                [&](Ledger& all) { give_back(all, all.memory.unmapped(DeviceAddress{ptr}, size)); });
}

// Of our memory: then its buffer stays, for the handle may be mapped anywhere. Of the program's: one more reference.
CUresult CUDAAPI cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* handle, void* addr) {
  using namespace thermocline;
  const TouchList at = TouchList().word(reinterpret_cast<CUdeviceptr>(addr));
  const CUresult result = keep(at, "its physical memory was asked for",
                               [&] { return real<Function::cuMemRetainAllocationHandle>(handle, addr); });
  if (handle == nullptr) return result;
  return follow(result, [&](Ledger& all) { all.memory.retained(*handle); });
}

}  // extern "C"
