// SPDX-License-Identifier: Apache-2.0
// The allocator functions of the C interface, for frameworks that accept an external allocator (the signatures are in
// PyTorch's torch/csrc/cuda/CUDAPluggableAllocator.h).
//
// The library is often opened late and privately (dlopen), so that no hook is ever called. The engine then evicts
// nothing (Runtime), and each allocation and free represents all the work between them: the stream that is given memory
// waits for the former users of that memory, and a freed buffer counts as used until now by its stream and by the
// streams that were recorded for it.
//
// Memory that is allocated for a capturing stream belongs to the pool that is open on the device. The graph uses these
// addresses whenever it runs, so a freed buffer is reused only within the pool, until the pool is released.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <map>
#include <unordered_map>
#include <vector>

#include "driver/locks.h"
#include "hooks/capture/capture_state.h"
#include "hooks/capture/captures.h"
#include "hooks/diagnostics/recorder.h"
#include "hooks/interpose/lock_levels.h"
#include "hooks/interpose/process_lifetime.h"
#include "hooks/runtime/backoff.h"
#include "hooks/runtime/guarded.h"
#include "hooks/submit/allocation.h"
#include "include/thermocline/thermocline.h"

#define THERMOCLINE_EXPORT extern "C" __attribute__((visibility("default")))

namespace thermocline {
namespace {

using PoolId = std::pair<std::uint64_t, std::uint64_t>;

struct Member {
  std::size_t bytes = 0;
  bool freed = false;
};
struct Pool {
  int users = 0;  // number of begins without a release
  std::unordered_map<void*, Member> members;
  // Freed buffers, by stream and size, for later allocations of this pool.
  std::multimap<std::pair<StreamHandle, std::size_t>, void*> idle;
};

// Bookkeeping beside the engine's. The engine is never called with the mutex held.
struct Notes {
  Mutex mutex{"notes of the plug-in", lock_level::kLeaf};
  // By buffer: streams, besides its own, that use it.
  std::unordered_map<void*, std::vector<StreamHandle>> recorded THERMOCLINE_GUARDED_BY(mutex);
  std::map<PoolId, Pool> pools THERMOCLINE_GUARDED_BY(mutex);
  std::map<int, std::vector<PoolId>> open THERMOCLINE_GUARDED_BY(mutex);  // by device, the newest last
  std::unordered_map<void*, PoolId> owner THERMOCLINE_GUARDED_BY(mutex);  // by buffer: its pool
};
Notes& notes() { return process_lifetime<Notes>(); }
// Lets programs that record no streams and capture nothing avoid the lock.
std::atomic<bool> has_notes{false};

std::atomic<thermocline_raise> raise_with{nullptr};

StreamHandle handle_of(void* stream) { return legacy(static_cast<CUstream>(stream)); }

// Retains the device's primary context for the rest of the process, because the program may free memory after it has
// released the context itself.
CUresult primary_context(int device, CUcontext* out) {
  static std::array<std::atomic<CUcontext>, 64> contexts{};
  const auto index = static_cast<std::size_t>(device);
  if (device < 0 || index >= contexts.size()) return CUDA_ERROR_INVALID_DEVICE;
  if (CUcontext known = contexts[index].load(std::memory_order_acquire); known != nullptr) {
    *out = known;
    return CUDA_SUCCESS;
  }
  const auto init = reinterpret_cast<decltype(&::cuInit)>(load_driver() ? real_symbol("cuInit") : nullptr);
  const auto get = reinterpret_cast<decltype(&::cuDeviceGet)>(real_symbol("cuDeviceGet"));
  if (init == nullptr || get == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  CUdevice found = 0;
  if (CUresult result = init(0); result != CUDA_SUCCESS) return result;
  if (CUresult result = get(&found, device); result != CUDA_SUCCESS) return result;
  CUcontext made = nullptr;
  // Calls the hook, which counts how often the context is retained.
  if (CUresult result = ::cuDevicePrimaryCtxRetain(&made, found); result != CUDA_SUCCESS) return result;
  contexts[index].store(made, std::memory_order_release);
  *out = made;
  return CUDA_SUCCESS;
}

// While an object of this class lives, a context of the device is current.
class OnDevice {
 public:
  explicit OnDevice(int device) {
    CUdevice current = 0;
    if (real<Function::cuCtxGetDevice>(&current) == CUDA_SUCCESS && current == device) return;
    CUcontext context = nullptr;
    result_ = primary_context(device, &context);
    if (result_ == CUDA_SUCCESS) result_ = real<Function::cuCtxPushCurrent_v2>(context);
    pushed_ = result_ == CUDA_SUCCESS;
  }
  ~OnDevice() {
    CUcontext popped = nullptr;
    if (pushed_) real<Function::cuCtxPopCurrent_v2>(&popped);
  }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;
  CUresult result() const { return result_; }

 private:
  CUresult result_ = CUDA_SUCCESS;
  bool pushed_ = false;
};

// If no hook sees operations, this represents the stream's work on the buffer: it waits for the former users of the
// buffer's pages, and their next user waits for everything submitted to the stream so far.
CUresult stand_for_work(const ActiveEngine& active, StreamHandle stream, void* address) {
  const std::array accesses{MemoryAccess{.address = DeviceAddress{reinterpret_cast<std::uintptr_t>(address)}}};
  const Status status = with_backoff([&] {
    Operation operation = active.engine->begin(stream, accesses);
    if (operation.status().ok()) operation.commit();
    return operation.status();
  });
  return static_cast<CUresult>(status.code());
}

const ActiveEngine* owner_of(const void* address) {
  return Runtime::get().broken() ? nullptr : owner_now(DeviceAddress{reinterpret_cast<std::uintptr_t>(address)});
}

// A capturing stream cannot be made to wait for other streams, so the host waits, on a stream that is not capturing.
CUresult await_former(const ActiveEngine& active, void* address) {
  CUstream aside = nullptr;
  const auto create = reinterpret_cast<decltype(&::cuStreamCreate)>(real_symbol("cuStreamCreate"));
  if (create == nullptr) return CUDA_ERROR_NOT_SUPPORTED;
  if (CUresult result = create(&aside, CU_STREAM_NON_BLOCKING); result != CUDA_SUCCESS) return result;
  CUresult result = stand_for_work(active, handle_of(aside), address);
  if (result == CUDA_SUCCESS) result = real<Function::cuStreamSynchronize>(aside);
  if (result == CUDA_SUCCESS) active.engine->synchronized(handle_of(aside));
  active.engine->retire(handle_of(aside));
  real<Function::cuStreamDestroy_v2>(aside);
  return result;
}

CUresult await_former_uses(void* address, StreamHandle stream, bool recording) {
  const ActiveEngine* active = owner_of(address);
  if (active == nullptr || sees_operations()) return CUDA_SUCCESS;
  return guarded([&] {
    const CurrentContext context(*active);
    const Inside inside;
    const CaptureTruce truce;
    return recording ? await_former(*active, address) : stand_for_work(*active, stream, address);
  });
}

void* take_from_pool(int device, std::size_t bytes, StreamHandle stream) {
  Notes& all = notes();
  const MutexLock lock(all.mutex);
  const auto open = all.open.find(device);
  if (open == all.open.end() || open->second.empty()) return nullptr;
  Pool& pool = all.pools[open->second.back()];
  const auto found = pool.idle.find({stream, bytes});
  if (found == pool.idle.end()) return nullptr;
  void* const address = found->second;
  pool.members.at(address).freed = false;
  pool.idle.erase(found);
  return address;
}

void give_to_open_pool(int device, void* address, std::size_t bytes) {
  Notes& all = notes();
  const MutexLock lock(all.mutex);
  const auto open = all.open.find(device);
  if (open == all.open.end() || open->second.empty()) return;
  all.pools[open->second.back()].members.emplace(address, Member{bytes});
  all.owner.emplace(address, open->second.back());
}

// True: the pool has taken the buffer.
bool return_to_pool(void* address, StreamHandle stream) {
  Notes& all = notes();
  const MutexLock lock(all.mutex);
  const auto owner = all.owner.find(address);
  if (owner == all.owner.end()) return false;
  Pool& pool = all.pools[owner->second];
  Member& member = pool.members.at(address);
  member.freed = true;
  // A buffer that other streams of the graph use too is not reused before the graph ends.
  if (all.recorded.erase(address) == 0) pool.idle.emplace(std::pair{stream, member.bytes}, address);
  return true;
}

std::vector<StreamHandle> forget_recorded(void* address) {
  Notes& all = notes();
  const MutexLock lock(all.mutex);
  const auto node = all.recorded.extract(address);
  return node.empty() ? std::vector<StreamHandle>() : std::move(node.mapped());
}

CUresult release(void* address, int device, StreamHandle stream) {
  const OnDevice on(device);
  if (on.result() != CUDA_SUCCESS) return on.result();
  std::vector<StreamHandle> users;
  if (has_notes.load(std::memory_order_acquire)) users = forget_recorded(address);
  const ActiveEngine* active = owner_of(address);
  const bool recording = is_recording(stream);
  if (active != nullptr && !sees_operations() && !recording) users.push_back(stream);
  const CUresult used = active == nullptr ? CUDA_SUCCESS : guarded([&] {
    const CurrentContext context(*active);
    const Inside inside;
    const CaptureTruce truce;
    for (const StreamHandle user : users) {
      if (is_recording(user)) continue;
      if (CUresult result = stand_for_work(*active, user, address); result != CUDA_SUCCESS) return result;
    }
    return CUDA_SUCCESS;
  });
  const auto at = static_cast<CUdeviceptr>(reinterpret_cast<std::uintptr_t>(address));
  const CUresult freed = free_memory(at, recording ? std::nullopt : std::optional(stream),
                                     [&] { return real<Function::cuMemFree_v2>(at); });
  return freed == CUDA_SUCCESS ? used : freed;
}

CUresult acquire(std::size_t bytes, int device, StreamHandle stream, void** out) {
  const OnDevice on(device);
  if (on.result() != CUDA_SUCCESS) return on.result();
  const bool recording = is_recording(stream);
  if (recording) {
    *out = take_from_pool(device, bytes, stream);
    if (*out != nullptr) return CUDA_SUCCESS;
  }
  CUdeviceptr address = 0;
  const CUresult result = allocate_memory(&address, bytes, recording ? std::nullopt : std::optional(stream),
                                          [&] { return real<Function::cuMemAlloc_v2>(&address, bytes); });
  if (result != CUDA_SUCCESS) return result;
  void* const made = reinterpret_cast<void*>(static_cast<std::uintptr_t>(address));
  if (CUresult awaited = await_former_uses(made, stream, recording); awaited != CUDA_SUCCESS) {
    free_memory(address, std::nullopt, [&] { return real<Function::cuMemFree_v2>(address); });
    return awaited;
  }
  if (recording) give_to_open_pool(device, made, bytes);
  *out = made;
  return CUDA_SUCCESS;
}

// Afterwards everything submitted so far has completed, and the engine knows it.
void await_all(int device) {
  const OnDevice on(device);
  const EngineSet* const engines = Runtime::get().engines();
  const ActiveEngine* active = engines == nullptr ? nullptr : engines->on(device);
  if (on.result() != CUDA_SUCCESS || active == nullptr) return;
  guarded([&] {
    const Inside inside;
    const UseSet before = active->engine->submitted_all();
    const CUresult result = real<Function::cuCtxSynchronize>();
    if (result == CUDA_SUCCESS) active->engine->synchronized(before);
    return result;
  });
}

// May throw, so the caller must not hold any lock or other resource.
void raise(const char* sentence) {
  const thermocline_raise raise = raise_with.load(std::memory_order_acquire);
  if (raise != nullptr) raise("thermocline", __FILE__, __LINE__, sentence);
}

}  // namespace
}  // namespace thermocline

THERMOCLINE_EXPORT int thermocline_sees_operations() { return thermocline::sees_operations() ? 1 : 0; }

THERMOCLINE_EXPORT void thermocline_raise_with(thermocline_raise raise) {
  thermocline::raise_with.store(raise, std::memory_order_release);
}

THERMOCLINE_EXPORT void* thermocline_allocate(ptrdiff_t bytes, int device, void* stream) {
  using namespace thermocline;
  if (bytes <= 0) return nullptr;
  void* address = nullptr;
  const CUresult result = acquire(static_cast<std::size_t>(bytes), device, handle_of(stream), &address);
  if (result == CUDA_SUCCESS) return address;
  std::array<char, 200> sentence{};
  if (result == CUDA_ERROR_OUT_OF_MEMORY) {
    std::snprintf(sentence.data(), sentence.size(),
                  "CUDA out of memory. Tried to allocate %td bytes on device %d; the library's report is on stderr",
                  bytes, device);
  } else {
    std::snprintf(sentence.data(), sentence.size(), "%td bytes on device %d could not be allocated: CUDA error %d",
                  bytes, device, static_cast<int>(result));
  }
  raise(sentence.data());
  return nullptr;
}

THERMOCLINE_EXPORT void thermocline_free(void* address, size_t /*bytes*/, int device, void* stream) {
  using namespace thermocline;
  if (address == nullptr) return;
  if (has_notes.load(std::memory_order_acquire) && return_to_pool(address, handle_of(stream))) return;
  const CUresult result = release(address, device, handle_of(stream));
  // At the end of a process the driver may have shut down already.
  if (result != CUDA_SUCCESS && result != CUDA_ERROR_DEINITIALIZED) {
    THERMOCLINE_LOG_ONCE(LogLevel::kWarning, "memory could not be freed: CUDA error %d", static_cast<int>(result));
  }
}

THERMOCLINE_EXPORT void thermocline_record_stream(void* address, void* stream) {
  using namespace thermocline;
  if (address == nullptr) return;
  Notes& all = notes();
  const MutexLock lock(all.mutex);
  std::vector<StreamHandle>& users = all.recorded[address];
  const StreamHandle user = handle_of(stream);
  if (std::find(users.begin(), users.end(), user) == users.end()) users.push_back(user);
  has_notes.store(true, std::memory_order_release);
}

THERMOCLINE_EXPORT void* thermocline_base(void* address, size_t* bytes) {
  using namespace thermocline;
  const ActiveEngine* active = owner_of(address);
  if (active == nullptr) return nullptr;
  const std::optional<BufferFacts> found =
      active->engine->find(DeviceAddress{reinterpret_cast<std::uintptr_t>(address)});
  if (!found.has_value()) return nullptr;
  if (bytes != nullptr) *bytes = found->bytes;
  return reinterpret_cast<void*>(static_cast<std::uintptr_t>(found->address.value));
}

THERMOCLINE_EXPORT void thermocline_empty_cache() {
  using namespace thermocline;
  const EngineSet* const engines = Runtime::get().engines();
  if (engines != nullptr && !sees_operations() && !any_capture()) {
    for (const ActiveEngine* active : *engines) await_all(active->device);
  }
  static_cast<void>(thermocline_trim());
}

THERMOCLINE_EXPORT void thermocline_memory_fraction(double /*fraction*/, int /*device*/) {
  thermocline::raise(
      "the budget is the library's, set before the program starts: THERMOCLINE_BUDGET, or `thermocline run --budget`");
}

THERMOCLINE_EXPORT void thermocline_begin_pool(int device, thermocline_pool pool, void* /*filter*/) {
  using namespace thermocline;
  // A stream cannot be queried once it captures.
  if (!sees_operations()) await_all(device);
  Notes& all = notes();
  {
    const MutexLock lock(all.mutex);
    const PoolId id{pool.first, pool.second};
    ++all.pools[id].users;
    all.open[device].push_back(id);
    has_notes.store(true, std::memory_order_release);
  }
  // If the hooks see captures, they count this one too; a count that is too high only costs additional driver queries.
  captures().pool_opened();
}

THERMOCLINE_EXPORT void thermocline_end_pool(int device, thermocline_pool pool) {
  using namespace thermocline;
  Notes& all = notes();
  {
    const MutexLock lock(all.mutex);
    std::vector<PoolId>& open = all.open[device];
    const auto found = std::find(open.rbegin(), open.rend(), PoolId{pool.first, pool.second});
    if (found == open.rend()) return;
    open.erase(std::next(found).base());
  }
  captures().pool_closed();
}

THERMOCLINE_EXPORT void thermocline_release_pool(int device, thermocline_pool pool) {
  using namespace thermocline;
  Notes& all = notes();
  std::unordered_map<void*, Member> members;
  {
    const MutexLock lock(all.mutex);
    const auto found = all.pools.find(PoolId{pool.first, pool.second});
    if (found == all.pools.end() || --found->second.users > 0) return;
    for (const auto& [address, member] : found->second.members) all.owner.erase(address);
    members = std::move(found->second.members);
    all.pools.erase(found);
  }
  if (members.empty()) return;
  // It is not known on which streams the graph has run.
  await_all(device);
  for (const auto& [address, member] : members) {
    if (member.freed) thermocline_free(address, member.bytes, device, nullptr);
  }
}
