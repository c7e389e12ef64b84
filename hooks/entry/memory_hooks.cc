// SPDX-License-Identifier: Apache-2.0
// Device memory. Every allocation in a context with an engine comes from the engine, with these exceptions: graph
// memory (allocated while a stream captures), which belongs to its graph; memory of pools that other processes or
// devices share; and, on request, everything that other processes may open (setting `shareable`).
#include <algorithm>
#include <array>
#include <atomic>
#include <map>
#include <optional>

#include "driver/locks.h"
#include "driver/undisturbed.h"
#include "hooks/capture/capture_state.h"
#include "hooks/capture/captures.h"
#include "hooks/diagnostics/misuse.h"
#include "hooks/diagnostics/recorder.h"
#include "hooks/entry/pool_usage.h"
#include "hooks/graphs/graph_memory.h"
#include "hooks/interpose/lock_levels.h"
#include "hooks/interpose/nccl.h"
#include "hooks/interpose/process_lifetime.h"
#include "hooks/operands/escaped.h"
#include "hooks/runtime/backoff.h"
#include "hooks/runtime/guarded.h"
#include "hooks/runtime/refusals.h"
#include "hooks/runtime/tags.h"
#include "hooks/submit/allocation.h"
#include "hooks/submit/heap_memory.h"
#include "hooks/submit/host_room.h"
#include "hooks/submit/late_frees.h"
#include "hooks/submit/macros.h"
#include "hooks/submit/multi_device.h"
#include "hooks/submit/unwaited.h"

namespace thermocline {
namespace {

// The pitch is a multiple of this, as on all devices since compute capability 3 (cuMemAllocPitch, observed).
constexpr Bytes kPitch = 512;

// Pools that the program created: the device of each, or kExternal if its memory must be the driver's own. Every device
// also has a default pool from the beginning.
struct Pools {
  Mutex mutex{"pools of the program", lock_level::kPools};
  std::map<CUmemoryPool, CUdevice> made THERMOCLINE_GUARDED_BY(mutex);
  std::atomic<bool> any_external{false};
};
constexpr CUdevice kExternal = -1;
Pools& pools() { return process_lifetime<Pools>(); }

std::atomic<bool> any_made_current{false};

// The pool from which cuMemAllocAsync allocates on the device; null if the driver does not say.
CUmemoryPool current_pool(CUdevice device) {
  static std::array<std::atomic<CUmemoryPool>, EngineSet::kMost> defaults{};
  CUmemoryPool pool = nullptr;
  if (any_made_current.load(std::memory_order_relaxed)) {
    return real<Function::cuDeviceGetMemPool>(&pool, device) == CUDA_SUCCESS ? pool : nullptr;
  }
  std::atomic<CUmemoryPool>& known = defaults[static_cast<std::size_t>(device)];
  pool = known.load(std::memory_order_relaxed);
  if (pool == nullptr && real<Function::cuDeviceGetDefaultMemPool>(&pool, device) == CUDA_SUCCESS) {
    known.store(pool, std::memory_order_relaxed);
  }
  return pool;
}

// Whether allocations from the pool, in a context of the device, may come from the engine.
bool is_plain_pool_of(CUmemoryPool pool, CUdevice device) {
  {
    Pools& all = pools();
    const MutexLock lock(all.mutex);
    if (const auto found = all.made.find(pool); found != all.made.end()) return found->second == device;
  }
  CUmemoryPool of_device = nullptr;
  return real<Function::cuDeviceGetDefaultMemPool>(&of_device, device) != CUDA_SUCCESS || of_device == pool;
}

// cuMemAllocAsync allocates from the current pool of the stream's device, and that pool's memory is of that device.
bool current_pool_is_plain(CUdevice device) {
  CUmemoryPool pool = nullptr;
  return real<Function::cuDeviceGetMemPool>(&pool, device) != CUDA_SUCCESS || is_plain_pool_of(pool, device);
}

CUresult allocate_in(CUcontext current, CUdeviceptr* out, std::size_t bytes, std::optional<StreamHandle> stream,
                     Call otherwise) {
  const ActiveEngine* active = Runtime::get().in_current_context(current);
  if (active == nullptr) {
    if (Runtime::get().refuses()) return CUDA_ERROR_UNKNOWN;
    DeviceHeap* const heap = caching_heap_of_current_device();
    if (heap == nullptr) return otherwise();
    return stream.has_value() ? allocate_beside(*heap, out, bytes, otherwise) : allocate_buffer(*heap, out, bytes);
  }
  return guarded_lightly([&] {
    const Inside inside;
    const CaptureTruce truce;
    DeviceAddress address;
    const auto allocate = [&] {
      return watches_misuse() ? allocate_watched(*active, bytes, stream, &address)
                              : active->engine->allocate(bytes, stream, &address);
    };
    Status status = with_backoff(allocate);
    for (const auto give_back :
         {make_way, others_give_host_memory_back, others_share_host_memory, others_leave_host_memory}) {
      if (!status.is_out_of_memory() || !give_back(*active)) continue;
      forget_report();
      status = with_backoff(allocate);
    }
    if (status.ok()) *out = address.value;
    // Also where the thread has none: a buffer from its cache may have the tag of its former use.
    if (any_tag() && status.ok()) [[unlikely]]
      static_cast<void>(active->engine->tag(address, tag_of_thread()));
    if (Recorder* const recorder = Recorder::of(active->engine); recorder != nullptr && status.ok()) {
      recorder->allocated(address, bytes, stream);
    }
    return static_cast<CUresult>(status.code());
  });
}

// The driver, or this library, did not wait because a stream is capturing; that capture may have ended since.
bool is_of_recordings(CUresult result) {
  return (result >= CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED && result <= CUDA_ERROR_CAPTURED_EVENT) ||
         result == CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
}

// Makes sure that users whom the engine has not seen are done with the buffer. No value: it may be freed.
std::optional<CUresult> keep_from_unseen_users(const ActiveEngine& active, DeviceAddress at, bool in_order) {
  if (is_freed_late(active, at)) return CUDA_ERROR_INVALID_VALUE;
  if (in_order) {
    static_cast<void>(forget_kept(*active.engine, at));
    return std::nullopt;
  }
  if (!is_kept(*active.engine, at)) return std::nullopt;
  LateFrees earlier(active);
  const CUresult waited = captures().synchronize(active);
  if (waited == CUDA_SUCCESS) {
    earlier.waited();
    static_cast<void>(forget_kept(*active.engine, at));
    return std::nullopt;
  }
  // The driver's own error, as from its own free; the buffer stays.
  if (!any_capture() && !is_of_recordings(waited)) return waited;
  static_cast<void>(forget_kept(*active.engine, at));
  free_later(active, at);
  return CUDA_SUCCESS;
}

// Memory is freed in the order of a stream of another device: the memory's engine knows that stream by its proxy
// stream.
CUresult free_behind(const EngineSet& engines, const ActiveEngine& owner, const StreamPlace& place, DeviceAddress at,
                     StreamHandle stream) {
  MultiDeviceOperation span(place, stream);
  const AccessList accesses = AccessList().word(at.value);
  const CUresult result = span.open(engines, engines.bit_of(&owner), accesses, {});
  if (result != CUDA_SUCCESS) return result;
  const StreamHandle proxy = span.stream_in(owner.engine);
  if (const CUresult waited = span.commit(false); waited != CUDA_SUCCESS) return waited;
  const CurrentContext context(owner);
  return static_cast<CUresult>(owner.engine->free(at, proxy).code());
}

CUresult free_ours(const EngineSet& engines, const ActiveEngine& active, DeviceAddress at,
                   std::optional<StreamHandle> stream, Call otherwise) {
  return guarded_lightly([&] {
    const StreamPlace place = place_of(engines, stream.value_or(StreamHandle{}));
    if (place.refused) return otherwise();
    const CurrentContext context(active, place);
    const Inside inside;
    const CaptureTruce truce;
    if (const CUresult waited = wait_for_unwaited(active, at); waited != CUDA_SUCCESS) return waited;
    const bool is_elsewhere = stream.has_value() && place.here != nullptr && place.here != &active;
    // The stream is not tracked, so the host waits for the work in it. If the wait fails, the buffer stays.
    if (is_elsewhere && watches_misuse()) {
      const CUresult waited = real<Function::cuStreamSynchronize>(to_cu(*stream));
      if (waited != CUDA_SUCCESS) return waited;
    }
    const std::optional<CUresult> kept = keep_from_unseen_users(active, at, stream.has_value());
    if (kept.has_value() && *kept != CUDA_SUCCESS) return *kept;
    if (Recorder* const recorder = Recorder::of(active.engine); recorder != nullptr) recorder->freed(at, stream);
    if (kept.has_value()) return CUDA_SUCCESS;
    if (is_elsewhere && !watches_misuse()) {
      const Undisturbed undisturbed;
      return free_behind(engines, active, place, at, *stream);
    }
    const std::optional<StreamHandle> behind = is_elsewhere ? std::nullopt : stream;
    const Status status = watches_misuse() ? free_watched(active, at, behind) : active.engine->free(at, behind);
    return static_cast<CUresult>(status.code());
  });
}

}  // namespace

CUresult allocate_memory(CUdeviceptr* out, std::size_t bytes, std::optional<StreamHandle> stream, Call otherwise) {
  if (out == nullptr || bytes == 0 || Inside::now()) return otherwise();
  if (const CUresult lost = lost_context_error(); lost != CUDA_SUCCESS) return lost;
  CUcontext current = nullptr;
  if (real<Function::cuCtxGetCurrent>(&current) != CUDA_SUCCESS) current = nullptr;
  // Stream-ordered memory belongs to the stream's device, whichever context is current.
  CUcontext context = stream.has_value() ? context_of(*stream, current) : current;
  if (context == current) return allocate_in(current, out, bytes, stream, otherwise);
  const CurrentContext pushed(context);
  return allocate_in(context, out, bytes, stream, otherwise);
}

void a_pool_was_made_current() noexcept { any_made_current.store(true, std::memory_order_relaxed); }

std::optional<CUdevice> device_of_plain_pool(CUmemoryPool pool) {
  {
    Pools& all = pools();
    const MutexLock lock(all.mutex);
    if (const auto found = all.made.find(pool); found != all.made.end()) {
      return found->second == kExternal ? std::nullopt : std::optional(found->second);
    }
  }
  for (CUdevice device = 0; static_cast<std::size_t>(device) < EngineSet::kMost; ++device) {
    CUmemoryPool of_device = nullptr;
    if (real<Function::cuDeviceGetDefaultMemPool>(&of_device, device) != CUDA_SUCCESS) break;
    if (of_device == pool) return device;
  }
  return std::nullopt;
}

CUresult free_memory(CUdeviceptr address, std::optional<StreamHandle> stream, Call otherwise) {
  if (any_caching_heap() && !(stream.has_value() && is_recording(*stream))) {
    const std::optional<CUresult> freed = free_in_heap(address, stream.has_value(), otherwise);
    if (freed.has_value()) return *freed;
  }
  const EngineSet* const engines = engines_now();
  if (engines == nullptr) return otherwise();
  const DeviceAddress at{address};
  const ActiveEngine* active = engines->owner(at);
  if (active == nullptr) return free_external(address, otherwise);
  // The buffer cannot be found any more, but the program may forget it.
  if (Runtime::get().broken()) return CUDA_SUCCESS;
  if (stream.has_value() && is_recording(*stream)) return otherwise();
  if (const CUresult lost = lost_context_error(); lost != CUDA_SUCCESS) return lost;
  // Must come before the free, because another thread may be given the address at once.
  const std::optional<PoolMemory> of_pool = freeing(at);
  const CUresult result = free_ours(*engines, *active, at, stream, otherwise);
  if (result != CUDA_SUCCESS && of_pool.has_value()) freeing_failed(at, *of_pool);
  return result;
}

namespace {

// Memory that does not belong to a graph must not be allocated while a stream captures: the graph would continue to use
// it after it was freed and reused. Asking the driver for one byte invalidates the capture exactly as it would be
// without the library.
CUresult capture_allows_allocation() {
  if (Inside::now() || !any_capture() || !captures().forbid_allocation()) return CUDA_SUCCESS;
  const Inside inside;
  CUdeviceptr byte = 0;
  const CUresult result = real<Function::cuMemAlloc_v2>(&byte, 1);
  if (result == CUDA_SUCCESS) real<Function::cuMemFree_v2>(byte);
  // How much memory the device has left does not matter here.
  return result == CUDA_ERROR_OUT_OF_MEMORY ? CUDA_SUCCESS : result;
}

CUresult allocate_at_once(CUdeviceptr* out, std::size_t bytes, Call otherwise) {
  if (const CUresult allowed = capture_allows_allocation(); allowed != CUDA_SUCCESS) return allowed;
  if (Runtime::get().wants_shareable()) return allocate_external(out, bytes, otherwise);
  return allocate_memory(out, bytes, std::nullopt, otherwise);
}

// 0: a format whose size is not known here.
Bytes element_bytes(CUarray_format format, unsigned int channels) {
  switch (format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8:
      return channels;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF:
      return Bytes{2} * channels;
    case CU_AD_FORMAT_UNSIGNED_INT32:
    case CU_AD_FORMAT_SIGNED_INT32:
    case CU_AD_FORMAT_FLOAT:
      return Bytes{4} * channels;
    default:
      return 0;
  }
}

// The driver's memory. It is counted as the size of its elements; the driver may round that up.
CUresult create_array(CUarray* out, std::size_t width, std::size_t height, std::size_t depth, Bytes element,
                      Call call) {
  Bytes bytes = 0;
  if (out == nullptr || __builtin_mul_overflow(element, width, &bytes) ||
      __builtin_mul_overflow(bytes, std::max<Bytes>(height, 1), &bytes) ||
      __builtin_mul_overflow(bytes, std::max<Bytes>(depth, 1), &bytes)) {
    return call();
  }
  if (const CUresult allowed = capture_allows_allocation(); allowed != CUDA_SUCCESS) return allowed;
  CUdeviceptr handle = 0;
  return allocate_external(&handle, bytes, [&] {
    const CUresult result = call();
    if (result == CUDA_SUCCESS) handle = reinterpret_cast<CUdeviceptr>(*out);
    return result;
  });
}

bool may_be_ours(StreamHandle stream, std::optional<CUmemoryPool> pool) {
  if (!pool.has_value() && !pools().any_external.load(std::memory_order_relaxed)) return true;
  CUcontext current = nullptr;
  if (real<Function::cuCtxGetCurrent>(&current) != CUDA_SUCCESS) return false;
  const CurrentContext context(context_of(stream, current));
  CUdevice device = 0;
  if (real<Function::cuCtxGetDevice>(&device) != CUDA_SUCCESS) return false;
  return pool.has_value() ? is_plain_pool_of(*pool, device) : current_pool_is_plain(device);
}

CUresult allocate_in_order(CUdeviceptr* out, std::size_t bytes, StreamHandle stream, std::optional<CUmemoryPool> pool,
                           const void* caller, Call otherwise) {
  if (!Inside::now() && is_recording(stream)) {
    note_graph_allocates();
    return otherwise();
  }
  if (is_of_nccl(caller)) return allocate_external(out, bytes, otherwise);
  if (Inside::now() || !may_be_ours(stream, pool)) return otherwise();
  if (pool.has_value() && !pool_has_room(*pool, bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
  const CUresult result = allocate_memory(out, bytes, stream, otherwise);
  if (result != CUDA_SUCCESS || out == nullptr) return result;
  const ActiveEngine* const owner = owner_now(DeviceAddress{*out});
  if (owner == nullptr) return result;
  return guarded_lightly([&] {
    const CUmemoryPool from = pool.has_value() ? *pool : current_pool(owner->device);
    if (from != nullptr) allocated_from_pool(from, DeviceAddress{*out}, bytes);
    return result;
  });
}

}  // namespace
}  // namespace thermocline

extern "C" {

CUresult CUDAAPI cuMemAlloc_v2(CUdeviceptr* dptr, size_t bytesize) {
  using namespace thermocline;
  const auto call = [&] { return real<Function::cuMemAlloc_v2>(dptr, bytesize); };
  if (is_of_nccl(__builtin_return_address(0))) return allocate_external(dptr, bytesize, call);
  return allocate_at_once(dptr, bytesize, call);
}

CUresult CUDAAPI cuMemAllocPitch_v2(CUdeviceptr* dptr, size_t* pPitch, size_t WidthInBytes, size_t Height,
                                    unsigned int ElementSizeBytes) {
  using namespace thermocline;
  const auto otherwise = [&] {
    return real<Function::cuMemAllocPitch_v2>(dptr, pPitch, WidthInBytes, Height, ElementSizeBytes);
  };
  const bool valid = pPitch != nullptr && (ElementSizeBytes == 4 || ElementSizeBytes == 8 || ElementSizeBytes == 16);
  Bytes bytes = 0;
  const Bytes pitch = round_up(WidthInBytes, kPitch);
  if (!valid || __builtin_mul_overflow(pitch, Bytes{Height}, &bytes)) return otherwise();
  bool ours = true;  // the engine's memory, whose pitch the driver does not know
  const CUresult result = allocate_at_once(dptr, bytes, [&] {
    ours = false;
    return otherwise();
  });
  if (ours && result == CUDA_SUCCESS) *pPitch = pitch;
  return result;
}

CUresult CUDAAPI cuMemFree_v2(CUdeviceptr dptr) {
  using namespace thermocline;
  return free_memory(dptr, std::nullopt, [&] { return real<Function::cuMemFree_v2>(dptr); });
}

CUresult CUDAAPI cuArrayCreate_v2(CUarray* pHandle, const CUDA_ARRAY_DESCRIPTOR* pAllocateArray) {
  using namespace thermocline;
  const auto call = [&] { return real<Function::cuArrayCreate_v2>(pHandle, pAllocateArray); };
  if (pAllocateArray == nullptr) return call();
  const CUDA_ARRAY_DESCRIPTOR& wanted = *pAllocateArray;
  return create_array(pHandle, wanted.Width, wanted.Height, 0, element_bytes(wanted.Format, wanted.NumChannels), call);
}

CUresult CUDAAPI cuArray3DCreate_v2(CUarray* pHandle, const CUDA_ARRAY3D_DESCRIPTOR* pAllocateArray) {
  using namespace thermocline;
  const auto call = [&] { return real<Function::cuArray3DCreate_v2>(pHandle, pAllocateArray); };
  // Sparse arrays, and arrays mapped later, have no memory yet.
  if (pAllocateArray == nullptr ||
      (pAllocateArray->Flags & (CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING)) != 0) {
    return call();
  }
  const CUDA_ARRAY3D_DESCRIPTOR& wanted = *pAllocateArray;
  return create_array(pHandle, wanted.Width, wanted.Height, wanted.Depth,
                      element_bytes(wanted.Format, wanted.NumChannels), call);
}

CUresult CUDAAPI cuArrayDestroy(CUarray hArray) {
  using namespace thermocline;
  return free_external(reinterpret_cast<CUdeviceptr>(hArray), [&] { return real<Function::cuArrayDestroy>(hArray); });
}

CUresult CUDAAPI cuMemPoolCreate(CUmemoryPool* pool, const CUmemPoolProps* poolProps) {
  using namespace thermocline;
  const CUresult result = real<Function::cuMemPoolCreate>(pool, poolProps);
  if (result != CUDA_SUCCESS || pool == nullptr || poolProps == nullptr) return result;
  const bool plain =
      poolProps->handleTypes == CU_MEM_HANDLE_TYPE_NONE && poolProps->location.type == CU_MEM_LOCATION_TYPE_DEVICE;
  return guarded([&] {
    Pools& all = pools();
    const MutexLock lock(all.mutex);
    // The handle may have belonged to another pool before.
    all.made.insert_or_assign(*pool, plain ? poolProps->location.id : kExternal);
    if (!plain) all.any_external.store(true, std::memory_order_relaxed);
    pool_made(*pool, poolProps->maxSize);
    return result;
  });
}

}  // extern "C"

THERMOCLINE_HOOK_PAIR(cuMemAllocAsync, _ptsz, (CUdeviceptr * dptr, size_t bytesize, CUstream hStream), {
  return allocate_in_order(dptr, bytesize, stream_of(hStream), std::nullopt, __builtin_return_address(0),
                           [&] { return real<kFunction>(dptr, bytesize, hStream); });
})

THERMOCLINE_HOOK_PAIR(cuMemAllocFromPoolAsync, _ptsz,
                      (CUdeviceptr * dptr, size_t bytesize, CUmemoryPool pool, CUstream hStream), {
                        return allocate_in_order(dptr, bytesize, stream_of(hStream), pool, __builtin_return_address(0),
                                                 [&] { return real<kFunction>(dptr, bytesize, pool, hStream); });
                      })

THERMOCLINE_HOOK_PAIR(cuMemFreeAsync, _ptsz, (CUdeviceptr dptr, CUstream hStream),
                      { return free_memory(dptr, stream_of(hStream), [&] { return real<kFunction>(dptr, hStream); }); })
