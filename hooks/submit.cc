// SPDX-License-Identifier: Apache-2.0
#include "hooks/submit.h"

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <new>

#include "driver/undisturbed.h"
#include "hooks/kept.h"
#include "hooks/misuse.h"
#include "hooks/recorder.h"
#include "hooks/refusals.h"
#include "hooks/sync_memops.h"
#include "hooks/uploads.h"
#include "offload/audit.h"

namespace thermocline {
namespace {

CUstream to_cu(StreamHandle stream) { return reinterpret_cast<CUstream>(static_cast<std::uintptr_t>(stream)); }
CUresult to_cu(Status status) { return static_cast<CUresult>(status.code()); }

std::atomic<int> captures{0};
std::atomic<bool> device_updatable{false};

// Addresses that recorded work was given.
struct Recorded {
  std::mutex mutex;
  std::map<std::uint64_t, std::uint64_t> addresses;  // and the number of the buffer there
};
Recorded& all_recorded() {
  static auto* const all = new Recorded;
  return *all;
}

enum class Standing { kHere, kElsewhere, kRefused };

Standing standing_of(const ActiveEngine& active) {
  CUcontext current = nullptr;
  const CUresult result = real<Function::cuCtxGetCurrent>(&current);
  if (result == CUDA_ERROR_NOT_PERMITTED) return Standing::kRefused;
  return result == CUDA_SUCCESS && current == active.context ? Standing::kHere : Standing::kElsewhere;
}

CUresult pin_all(Engine& engine, const TouchList& touches, const char* reason) {
  for (const Touch& touch : touches.all()) {
    if (Status status = engine.pin(touch.address, reason); !status.ok()) return to_cu(status);
  }
  return CUDA_SUCCESS;
}

// A word may be one past the end, where no buffer needs to be: only what stands at a live buffer is kept.
CUresult keep_ours(const ActiveEngine& active, const TouchList& touches, const char* reason) {
  const CurrentContext context(active);
  if (context.is_refused()) return CUDA_SUCCESS;
  const Inside inside;
  const CaptureTruce truce;
  TouchList live = touches;
  live.filter([&](DeviceAddress address) { return active.engine->find(address).has_value(); });
  return pin_all(*active.engine, live, reason);
}

CUresult submit_recorded(const ActiveEngine& active, const TouchList& touches, Call call) {
  count(Counter::kCapturedOperations);
  if (CUresult result = keep_ours(active, touches, "stream capture"); result != CUDA_SUCCESS) return result;
  remember_recorded(*active.engine, touches);
  remember_moves(active.engine, touches);
  const Inside inside;
  return call();
}

// Until nothing else uses their pages, and they are back. Waiting for the whole context would fail while any thread
// records, and end its recording.
CUresult wait_for(const ActiveEngine& active, const TouchList& touches) {
  CUstream behind = nullptr;
  if (CUresult result = real<Function::cuStreamCreate>(&behind, CU_STREAM_NON_BLOCKING); result != CUDA_SUCCESS) {
    return result;
  }
  const StreamHandle stream{reinterpret_cast<std::uintptr_t>(behind)};
  CUresult result = CUDA_SUCCESS;
  {
    Operation operation = active.engine->begin(stream, touches.all());
    result = to_cu(operation.status());
    if (result == CUDA_SUCCESS) operation.commit();
  }
  const CUresult waited = real<Function::cuStreamSynchronize>(behind);
  active.engine->retire(stream);
  real<Function::cuStreamDestroy_v2>(behind);
  return result != CUDA_SUCCESS ? result : waited;
}

// The engine orders work by events of its own context, which can not be recorded in streams of another. So the buffers
// stay, and the host waits: before the call for what still uses their pages, or is bringing them back, and behind it
// for the call. Right, and slow.
CUresult submit_elsewhere(const ActiveEngine& active, StreamHandle stream, const TouchList& touches, Call call) {
  if (touches.empty()) return call();
  THERMOCLINE_LOG_ONCE("memory is used in another context than its own; the host waits for each such operation");
  if (CUresult result = keep_ours(active, touches, "used in another context"); result != CUDA_SUCCESS) return result;
  const Inside inside;
  {
    const CurrentContext context(active);
    const CaptureTruce truce;
    if (CUresult result = wait_for(active, touches); result != CUDA_SUCCESS) return result;
  }
  const CUresult result = call();
  if (result == CUDA_SUCCESS) real<Function::cuStreamSynchronize>(to_cu(stream));
  return result;
}

// At once: a program that has lost its context may not come to its end.
void say_what_was_found(const Engine& engine) {
  if (const AuditStatistics audit = engine.audit(); audit.fault != 0) {
    THERMOCLINE_LOG_ONCE("%s", audit_text(audit).c_str());
  }
}

template <class Begin>
CUresult submit_here(const ActiveEngine& active, StreamHandle stream, Host host, const TouchList& touches,
                     const OperationInfo& info, Begin begin, Call call) {
  const Inside inside;
  // What the call would wait for anyway is waited for without the engine's lock, so that other threads go on.
  if (host == Host::kWaits || host == Host::kWaitsFirst) real<Function::cuStreamSynchronize>(to_cu(stream));
  const CaptureTruce truce;
  Operation operation = begin();
  if (!operation.status().ok()) return to_cu(operation.status());
  if (host == Host::kReadsAtOnce) real<Function::cuStreamSynchronize>(to_cu(stream));
  Recorder* const recorder = Recorder::get();
  if (recorder != nullptr) recorder->submitting(stream, info, touches.all());
  const CUresult result = call();
  if (result != CUDA_SUCCESS) return result;
  if (recorder != nullptr) recorder->submitted(stream, info, touches.all());
  operation.commit(host == Host::kWaits);
  if (active.engine->audits()) say_what_was_found(*active.engine);
  return result;
}

CUresult submit_seen(const ActiveEngine& active, StreamHandle stream, Host host, const TouchList& touches,
                     const OperationInfo& info, Call call) {
  if (watches_misuse()) look_at(touches, stream);
  if (is_recording(stream)) return submit_recorded(active, touches, call);
  const Standing standing = standing_of(active);
  if (standing == Standing::kRefused) return call();
  if (standing == Standing::kElsewhere) return submit_elsewhere(active, stream, touches, call);
  const CUresult result = submit_here(
      active, stream, host, touches, info, [&] { return active.engine->begin(stream, touches.all(), info); }, call);
  if (result != CUDA_SUCCESS || host != Host::kMayGoOn || !any_is_synchronous(*active.engine, touches)) return result;
  const Inside inside;
  return real<Function::cuStreamSynchronize>(to_cu(stream));
}

// Guards the count of captures while it changes and the engine is told.
std::mutex& captures_change() {
  static auto* const mutex = new std::mutex;
  return *mutex;
}

void tell_engine(bool any_records) {
  const ActiveEngine* active = Inside::now() ? nullptr : Runtime::get().active();
  if (active == nullptr || Runtime::get().broken()) return;
  static_cast<void>(guarded([&] {
    const CurrentContext context(*active);
    const Inside inside;
    active->engine->recording(any_records);
    return CUDA_SUCCESS;
  }));
}

}  // namespace

StreamHandle legacy(CUstream stream) {
  return stream == CU_STREAM_LEGACY ? StreamHandle{} : StreamHandle{reinterpret_cast<std::uintptr_t>(stream)};
}

StreamHandle per_thread(CUstream stream) { return legacy(stream == nullptr ? CU_STREAM_PER_THREAD : stream); }

CurrentContext::CurrentContext(const ActiveEngine& active) {
  const Standing standing = standing_of(active);
  refused_ = standing == Standing::kRefused;
  pushed_ = standing == Standing::kElsewhere && real<Function::cuCtxPushCurrent_v2>(active.context) == CUDA_SUCCESS;
}

CurrentContext::~CurrentContext() {
  CUcontext popped = nullptr;
  if (pushed_) real<Function::cuCtxPopCurrent_v2>(&popped);
}

CUresult guarded(Call body) {
  const Undisturbed undisturbed;
  return guarded_lightly(body);
}

CUresult guarded_lightly(Call body) {
  // Behind everything that the body holds.
  struct GiveOut {
    ~GiveOut() { give_out_report(); }
  } const at_the_end;
  try {
    return body();
  } catch (const BrokenInvariant&) {
    return CUDA_ERROR_UNKNOWN;
  } catch (const std::bad_alloc&) {
    THERMOCLINE_LOG_ONCE("host memory is exhausted");
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
}

CUresult submit(StreamHandle stream, Host host, TouchList touches, OperationInfo info, Call call) {
  const ActiveEngine* active = Inside::now() ? nullptr : Runtime::get().active();
  if (active == nullptr) return call();
  touches.filter([active](DeviceAddress address) { return active->engine->owns(address); });
  const bool changes = changes_references(*active->engine, touches);
  const bool follows =
      info.follows && (active->engine->has_global_references() || active->engine->wants_all_launches());
  if (touches.empty() && !changes && !follows) return call();
  if (Runtime::get().broken()) return touches.empty() ? call() : CUDA_ERROR_UNKNOWN;
  return guarded([&] {
    if (info.operator_class == OperatorClass::kTables) {
      const CUresult result = submit_seen(*active, stream, host, touches, info, call);
      if (result == CUDA_SUCCESS) active->engine->written_by_kernel(touches.all());
      return result;
    }
    if (!changes) return submit_seen(*active, stream, host, touches, info, call);
    Changes made(*active, touches);
    const bool records = is_recording(stream);
    const CUresult result = touches.empty() ? call() : submit_seen(*active, stream, host, touches, info, call);
    if (result == CUDA_SUCCESS) made.happened(records);
    return result;
  });
}

CUresult submit_unknown(StreamHandle stream, Call call) {
  const ActiveEngine* active = Inside::now() ? nullptr : Runtime::get().active();
  if (active == nullptr) return call();
  if (Runtime::get().broken()) return CUDA_ERROR_UNKNOWN;
  count(Counter::kUnknownLaunches);
  THERMOCLINE_LOG_ONCE("the parameters of a kernel can not be read; everything counts as touched");
  return guarded([&] {
    const Standing standing = standing_of(*active);
    if (standing == Standing::kRefused) return call();
    if (is_recording(stream) || standing == Standing::kElsewhere) return CUDA_ERROR_NOT_SUPPORTED;
    return submit_here(
        *active, stream, Host::kGoesOn, {}, {}, [&] { return active->engine->begin_unknown(stream); }, call);
  });
}

CUresult keep(const TouchList& touches, const char* reason, Call call) {
  const ActiveEngine* active = Inside::now() ? nullptr : Runtime::get().active();
  if (active == nullptr) return call();
  TouchList ours = touches;
  ours.filter([active](DeviceAddress address) { return active->engine->owns(address); });
  if (ours.empty()) return call();
  if (Runtime::get().broken()) return CUDA_ERROR_UNKNOWN;
  return guarded([&] {
    if (CUresult result = keep_ours(*active, ours, reason); result != CUDA_SUCCESS) return result;
    const CUresult result = call();
    if (result == CUDA_SUCCESS) remember_kept(*active->engine, ours);
    return result;
  });
}

void capture_began() {
  const std::lock_guard lock(captures_change());
  if (captures.fetch_add(1) == 0) tell_engine(true);
}

void capture_ended() {
  const std::lock_guard lock(captures_change());
  if (captures.fetch_sub(1) == 1) tell_engine(false);
}

void nodes_change_on_the_device() { device_updatable.store(true, std::memory_order_relaxed); }
bool any_node_changes_on_the_device() { return device_updatable.load(std::memory_order_relaxed); }

bool any_capture() { return captures.load(std::memory_order_acquire) > 0; }

bool is_recording(StreamHandle stream) {
  if (!any_capture()) return false;
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  return real<Function::cuStreamIsCapturing>(to_cu(stream), &status) == CUDA_SUCCESS &&
         status != CU_STREAM_CAPTURE_STATUS_NONE;
}

CaptureTruce::CaptureTruce() {
  if (captures.load(std::memory_order_acquire) <= 0) return;
  active_ = real<Function::cuThreadExchangeStreamCaptureMode>(&mode_) == CUDA_SUCCESS;
}

CaptureTruce::~CaptureTruce() {
  if (active_) real<Function::cuThreadExchangeStreamCaptureMode>(&mode_);
}

std::uint64_t number_of(const Engine& engine, DeviceAddress at) {
  const std::optional<BufferFacts> facts = engine.find(at);
  return facts.has_value() ? facts->number : 0;
}

void remember_recorded(const Engine& engine, const TouchList& touches) {
  Recorded& all = all_recorded();
  const std::lock_guard lock(all.mutex);
  for (const Touch& touch : touches.all()) all.addresses[touch.address.value] = number_of(engine, touch.address);
}

TouchList recorded(const Engine& engine) {
  Recorded& all = all_recorded();
  const std::lock_guard lock(all.mutex);
  TouchList touches;
  for (auto it = all.addresses.begin(); it != all.addresses.end();) {
    // What has been freed since can only be touched by mistake, whoever has its addresses now.
    if (const std::uint64_t now = number_of(engine, DeviceAddress{it->first}); now == 0 || now != it->second) {
      it = all.addresses.erase(it);
    } else {
      touches.word((it++)->first);
    }
  }
  return touches;
}

}  // namespace thermocline
