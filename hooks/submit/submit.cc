// SPDX-License-Identifier: Apache-2.0
// Compiled alone: its instructions are counted (scripts/count_instructions.sh), so inlining must be as in a package.
#include "hooks/submit/submit.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <new>
#include <optional>
#include <thread>

#include "driver/undisturbed.h"
#include "hooks/capture/capture_state.h"
#include "hooks/capture/captures.h"
#include "hooks/diagnostics/misuse.h"
#include "hooks/diagnostics/recorder.h"
#include "hooks/operands/escaped.h"
#include "hooks/operands/values.h"
#include "hooks/pointers/uploads.h"
#include "hooks/runtime/backoff.h"
#include "hooks/runtime/counters.h"
#include "hooks/runtime/refusals.h"
#include "hooks/submit/holding.h"
#include "hooks/submit/late_frees.h"
#include "hooks/submit/launch.h"
#include "hooks/submit/multi_device.h"
#include "hooks/submit/peers.h"
#include "hooks/submit/proxy_copy.h"
#include "hooks/submit/stream_queues.h"
#include "hooks/submit/stream_turns.h"
#include "hooks/submit/sync_memops.h"
#include "hooks/submit/unwaited.h"
#include "offload/engine/audit.h"

namespace thermocline {
namespace {

CUresult to_cu(Status status) { return static_cast<CUresult>(status.code()); }

// Waits until nothing else uses the buffers' pages and the buffers have been fetched. Waiting for the whole context
// would fail while any thread captures, and invalidate its capture.
CUresult wait_for(const ActiveEngine& active, const AccessList& accesses) {
  CUstream behind = nullptr;
  if (CUresult result = real<Function::cuStreamCreate>(&behind, CU_STREAM_NON_BLOCKING); result != CUDA_SUCCESS) {
    return result;
  }
  const StreamHandle stream{reinterpret_cast<std::uintptr_t>(behind)};
  CUresult result = CUDA_SUCCESS;
  {
    Operation operation = active.engine->begin(stream, accesses.all());
    result = to_cu(operation.status());
    if (result == CUDA_SUCCESS) operation.commit();
  }
  const CUresult waited = real<Function::cuStreamSynchronize>(behind);
  active.engine->retire(stream);
  real<Function::cuStreamDestroy_v2>(behind);
  return result != CUDA_SUCCESS ? result : waited;
}

// Submits in a context without an engine, or an unknown one, whose streams are not tracked. So the buffers are pinned
// and the host waits: before the call for other uses of their pages and for fetches in progress, and after it for the
// call itself. Correct but slow. Rare, and so not inlined: threads may have little stack.
[[gnu::noinline]] CUresult submit_elsewhere(const EngineSet& engines, const StreamPlace& place, StreamHandle stream,
                                            const AccessList& accesses, Call call) {
  if (accesses.empty()) return call();
  THERMOCLINE_LOG_ONCE(LogLevel::kWarning,
                       "memory is used in another context than its own; the host waits for each such operation");
  PinnedBuffers pinned;
  if (CUresult result = pinned.pin(engines, accesses, "used in another context"); result != CUDA_SUCCESS) return result;
  const Inside inside;
  for (const ActiveEngine* active : engines) {
    const AccessList part = part_of(accesses, *active);
    if (part.empty()) continue;
    const CurrentContext context(*active);
    const CaptureTruce truce;
    if (CUresult result = wait_for(*active, part); result != CUDA_SUCCESS) return result;
  }
  const CUresult result = call();
  if (result != CUDA_SUCCESS) return result;
  pinned.stay();
  if (real<Function::cuStreamSynchronize>(to_cu(stream)) == CUDA_SUCCESS) return result;
  for (const ActiveEngine* active : engines) {
    if (const AccessList part = part_of(accesses, *active); !part.empty())
      remember_unwaited(*active, part, place.context);
  }
  return result;
}

// CUDA driver API, "API synchronization behavior", on asynchronous copies: between a device and pageable memory they
// may be synchronous, and may first wait for the stream. So none of them is known to have run when it returns. Copies
// to pageable memory wait in all drivers that use staging buffers. The others are waited for only if streams may be
// blocked, because waiting first would cost the host its lead over a driver that does not wait.
Host host_of_copy(const AccessList& accesses) {
  const bool may_block = any_waits_for_values();
  const bool waits = std::any_of(accesses.moves().begin(), accesses.moves().end(), [&](const Move& move) {
    return is_pageable(move.to) || (may_block && is_pageable(move.from));
  });
  return waits ? Host::kWaitsFirst : Host::kGoesOn;
}

std::atomic<bool> audit_fault_said{false};

// Logged at once: a program that has lost its context may never reach its end.
void say_what_was_found(const Engine& engine) {
  if (const AuditStatistics audit = engine.audit(); audit.fault != 0) {
    if (is_logged(LogLevel::kError) && !audit_fault_said.exchange(true)) print_whole_line(audit_text(audit));
  }
}

// Whether the call returns only after earlier work of the stream has completed.
bool waits_for_the_stream(Host host) {
  return host == Host::kWaits || host == Host::kWaitsFirst || host == Host::kReadsAtOnce;
}

// Called with the operation's lock held, so that the memory it needs stays there. The stream is not blocked
// (open_when_it_goes_on).
CUresult wait_for_what_was_prepared(StreamHandle stream, Host host) {
  if (host != Host::kReadsAtOnce) return CUDA_SUCCESS;
  const WaitsInPlace goes_on;
  return real<Function::cuStreamSynchronize>(to_cu(stream));
}

constexpr std::chrono::microseconds kBetweenTries{100};

// Begins an operation. If the driver call would synchronize, synchronizes before taking the engine lock: another thread
// may have to write the value that the stream waits for. If the stream has more to wait for once the operation has
// begun (because another thread made it wait, or it is ordered after the legacy stream, which synchronizing this stream
// does not cover), repeats both steps. If it is another thread's turn in the stream, lets it go first. Not inlined: gcc 12
// would then take a truce that was reset for one that never began.
template <class Scope, class Open>
[[gnu::noinline]] CUresult open_when_it_goes_on(StreamHandle stream, Host host, bool again,
                                                std::optional<CaptureTruce>* truce, std::optional<Scope>* scope,
                                                Open open) {
  for (bool lets_others = true;; again = true) {
    scope->reset();
    truce->reset();
    const bool has_waited =
        waits_for_the_stream(host) && real<Function::cuStreamSynchronize>(to_cu(stream)) == CUDA_SUCCESS;
    truce->emplace();
    if (const Status status = open(again); !status.ok()) return to_cu(status);
    const bool is_in_turn = !lets_others || !is_anothers_turn(stream);
    if (is_in_turn && (!has_waited || !(*scope)->is_behind_blocked())) return CUDA_SUCCESS;
    scope->reset();
    if (!is_in_turn) {
      lets_others = wait_for_turn(stream);
      continue;
    }
    std::this_thread::sleep_for(kBetweenTries);
  }
}

// Replacements for an operation's own call; null: there is none.
struct Instead {
  const CallIn* in_another = nullptr;
  const CallFrom* from_host = nullptr;
  const UploadByWay* by_way = nullptr;
};

// `is_instead`: whether it was submitted with another call than its own.
CUresult call_or_instead(Operation& operation, Call call, const Instead& instead, bool* is_instead) {
  *is_instead = true;
  if (const void* const copy = operation.host_copy(); copy != nullptr) return (*instead.from_host)(copy);
  if (const auto parts = operation.upload_copies(); !parts.empty()) {
    const CUresult result = instead.by_way->copy(parts);
    if (result == CUDA_SUCCESS) return result;
    operation.forget_upload_copies();
  }
  *is_instead = false;
  return call();
}

template <class Begin>
CUresult submit_here(const ActiveEngine& active, StreamHandle stream, Host host, const AccessList& accesses,
                     const OperationInfo& info, Begin begin, Call call, const Instead& instead = {}) {
  const Inside inside;
  std::optional<CaptureTruce> truce;
  std::optional<Operation> operation;
  const auto open = [&](bool again) {
    return with_late_frees(active, [&] {
      const Status status = begin_with_backoff(again, begin, &operation);
      again = true;
      return status;
    });
  };
  if (CUresult result = open_when_it_goes_on(stream, host, info.again, &truce, &operation, open);
      result != CUDA_SUCCESS)
    return result;
  if (const CUresult waited = wait_for_what_was_prepared(stream, host); waited != CUDA_SUCCESS) return waited;
  Recorder* const recorder = Recorder::of(active.engine);
  const std::span<const MemoryAccess> seen = info.seen.empty() ? accesses.all() : info.seen;
  if (recorder != nullptr) recorder->submitting(stream, info, seen);
  bool is_instead = false;
  const CUresult result = call_or_instead(*operation, call, instead, &is_instead);
  if (result != CUDA_SUCCESS) {
    if (info.may_fail_halfway) operation->commit(false);
    return result;
  }
  if (recorder != nullptr) recorder->submitted(stream, info, seen);
  operation->commit(host == Host::kWaits && !is_instead);
  if (active.engine->audits()) say_what_was_found(*active.engine);
  // The driver's own calls wait; what replaces them does not. Within the device nothing waits.
  const bool goes_on = host == Host::kGoesOn || (host == Host::kMayGoOn && accesses.all().size() > 1);
  if (is_instead && !goes_on) return real<Function::cuStreamSynchronize>(to_cu(stream));
  return result;
}

CUresult submit_in_place(const ActiveEngine& active, StreamHandle stream, Host host, const AccessList& accesses,
                         const OperationInfo& info, Call call, const Instead& instead = {}) {
  Engine& engine = *active.engine;
  return submit_here(
      active, stream, host, accesses, info,
      [&](bool again) { return engine.begin(stream, accesses.all(), info, again); }, call, instead);
}

// A copy that may read its source from the host copy, or leave its contents there.
CUresult submit_by_host(const ActiveEngine& active, StreamHandle stream, Host host, const AccessList& accesses,
                        OperationInfo info, Call call, const Instead& instead) {
  info.reads_host_copy = instead.from_host != nullptr;
  if (instead.by_way != nullptr) info.source = instead.by_way->source;
  return submit_in_place(active, stream, host, accesses, info, call, instead);
}

// Submits a copy whose memory the stream's device can not access. Rare.
[[gnu::noinline]] CUresult submit_by_proxy_stream(const ActiveEngine& owner, const StreamPlace& place,
                                                  StreamHandle stream, Host host, const AccessList& accesses,
                                                  const OperationInfo& info, CallIn copy) {
  const Inside inside;
  const bool waits = host == Host::kWaits || host == Host::kWaitsFirst;
  if (waits_for_the_stream(host)) real<Function::cuStreamSynchronize>(to_cu(stream));
  const CaptureTruce truce;
  const CurrentContext context(owner);
  // The copy may have been submitted where the wait for it fails.
  OperationInfo proxied = info;
  proxied.may_fail_halfway = true;
  ProxyCopy proxy_stream(owner, place, stream);
  if (!proxy_stream.is_there()) return CUDA_ERROR_OUT_OF_MEMORY;
  return submit_here(
      owner, proxy_stream.handle(), host, accesses, proxied,
      [&](bool again) { return owner.engine->begin(proxy_stream.handle(), accesses.all(), proxied, again); },
      [&] { return proxy_stream.run(copy, waits); });
}

// The part of an operation of several engines that belongs to the engine being recorded.
class SharedRecording {
 public:
  SharedRecording(const EngineSet& engines, EngineBits bits, const MultiDeviceOperation& span,
                  const AccessList& accesses, const OperationInfo& info)
      : info_(info) {
    engines.for_each(bits, [&](const ActiveEngine& active) {
      if (Recorder::of(active.engine) == nullptr) return;
      recorder_ = Recorder::get();
      part_ = part_of(accesses, active);
      stream_ = span.stream_in(active.engine);
    });
    if (recorder_ != nullptr) recorder_->submitting(stream_, info_, part_.all());
  }
  void submitted() {
    if (recorder_ != nullptr) recorder_->submitted(stream_, info_, part_.all());
  }

 private:
  const OperationInfo& info_;
  Recorder* recorder_ = nullptr;
  AccessList part_;
  StreamHandle stream_{};
};

// Submits an operation that concerns several engines, or whose stream is not in the current context.
[[gnu::noinline]] CUresult submit_across(const EngineSet& engines, EngineBits bits, const StreamPlace& place,
                                         StreamHandle stream, Host host, const AccessList& accesses,
                                         const OperationInfo& info, bool unknown, Call call) {
  const Inside inside;
  std::optional<CaptureTruce> truce;
  std::optional<MultiDeviceOperation> span;
  OperationInfo asked = info;
  const auto open = [&](bool again) {
    asked.again = again;
    return with_backoff([&] {
      span.emplace(place, stream);
      const Status status(span->open(engines, bits, accesses, asked, unknown));
      if (!status.ok()) span.reset();
      asked.again = true;
      return status;
    });
  };
  if (CUresult result = open_when_it_goes_on(stream, host, info.again, &truce, &span, open); result != CUDA_SUCCESS)
    return result;
  if (const CUresult waited = wait_for_what_was_prepared(stream, host); waited != CUDA_SUCCESS) return waited;
  SharedRecording recording(engines, bits, *span, accesses, info);
  const CUresult result = call();
  if (result != CUDA_SUCCESS) {
    if (info.may_fail_halfway) span->commit(false);
    return result;
  }
  recording.submitted();
  span->commit(host == Host::kWaits);
  engines.for_each(bits, [](const ActiveEngine& active) {
    if (active.engine->audits()) say_what_was_found(*active.engine);
  });
  return result;
}

// `bits`: the engines that are told of the operation, because they own memory it accesses or stored pointers it may
// follow.
CUresult submit_seen(const EngineSet& engines, EngineBits bits, const StreamPlace& place, StreamHandle stream,
                     Host host, const AccessList& accesses, const OperationInfo& info, Call call, Instead instead) {
  if (watches_misuse()) look_at(accesses, stream);
  if (place.refused) return call();
  const ActiveEngine* const owner = instead.in_another == nullptr ? nullptr : out_of_reach(engines, bits, place);
  if (owner == nullptr && place.here == nullptr) return submit_elsewhere(engines, place, stream, accesses, call);
  CUresult result = CUDA_SUCCESS;
  if (owner != nullptr) {
    result = submit_by_proxy_stream(*owner, place, stream, host, accesses, info, *instead.in_another);
  } else if (bits == engines.bit_of(place.here) && place.current == place.context) {
    result = instead.from_host == nullptr && instead.by_way == nullptr
                 ? submit_in_place(*place.here, stream, host, accesses, info, call)
                 : submit_by_host(*place.here, stream, host, accesses, info, call, instead);
  } else {
    result = submit_across(engines, bits, place, stream, host, accesses, info, false, call);
  }
  if (result != CUDA_SUCCESS || host != Host::kMayGoOn || !any_is_synchronous(engines, accesses)) return result;
  const Inside inside;
  return real<Function::cuStreamSynchronize>(to_cu(stream));
}

// Engines whose memory work there may use, whatever addresses it is given.
EngineBits reached_from(const EngineSet& engines, const StreamPlace& place) {
  if (engines.size() == 1) return 1;
  EngineBits bits = 0;
  for (const ActiveEngine* active : engines) {
    if (place.here != nullptr && may_use(place.here->device, active->device)) bits |= engines.bit_of(active);
  }
  return bits;
}

// The subset of these engines that may have to make memory resident whose address the operation was not given but may
// read from memory.
EngineBits followers_of(const EngineSet& engines, const StreamPlace& place) {
  EngineBits bits = 0;
  engines.for_each(reached_from(engines, place), [&](const ActiveEngine& active) {
    const bool is_own = engines.size() == 1 || &active == place.here;
    if (active.engine->has_global_references() || (is_own && active.engine->wants_all_launches())) {
      bits |= engines.bit_of(&active);
    }
  });
  return bits;
}

}  // namespace

bool audit_fault_was_said() { return audit_fault_said.load(); }

namespace {

// For every operation that a stream captures, and the only place where the library refuses one: the capture then ends
// without a graph. Kernels need no memory before the graph is launched; but the driver may check the memory of copies
// and sets at once.
CUresult submit_recorded(const EngineSet& engines, StreamHandle stream, const AccessList& accesses, bool is_kernel,
                         Call call) {
  count(Counter::kCapturedOperations);
  bool reached = false;
  const CUresult result = guarded([&]() -> CUresult {
    if (Runtime::get().broken() && !accesses.empty()) return CUDA_ERROR_UNKNOWN;
    if (watches_misuse()) look_at(accesses, stream);
    HeldForCall held;
    if (!is_kernel) {
      if (CUresult kept = held.hold(engines, accesses, "being recorded"); kept != CUDA_SUCCESS) return kept;
    }
    reached = true;
    const Inside inside;
    return call();
  });
  if (!reached) captures().refuse(stream);
  return result;
}

// Nobody can read later what kernels have stored in memory outside the engines. So if the operation copies pointers
// there and not everything fits, they are read at the copy's source.
[[gnu::noinline]] void read_what_goes_outside(const EngineSet& engines, const StreamPlace& place, StreamHandle stream,
                                              const AccessList& accesses) {
  if (place.here == nullptr || place.current != place.context || !place.here->engine->has_references()) return;
  const Inside inside;
  const CaptureTruce truce;
  for (const Move& move : accesses.moves()) {
    const bool is_one_range = move.rows == 1 && move.layers == 1;
    if (!is_one_range || engines.owner(DeviceAddress{move.to}) != nullptr) continue;
    if (engines.owner(DeviceAddress{move.from}) != place.here || is_host_memory(move.to)) continue;
    place.here->engine->read_stored({DeviceAddress{move.from}, move.bytes}, stream);
  }
}

// Whether later operations of other streams may run before one that this stream gets now although the program has
// ordered them after it: only if this one waits for something that the host has yet to do.
bool may_run_late(const StreamPlace& place, StreamHandle stream) {
  if (!any_stream_may_block()) return false;
  if (place.refused || place.here == nullptr || place.current != place.context || any_capture()) return true;
  const Inside inside;
  return place.here->engine->is_behind_blocked(stream);
}

// Sets memory outside the engines, in which addresses may be stored. If the set may run late, they stay recorded.
CUresult set_outside(const EngineSet& engines, StreamHandle stream, const MemoryAccess& written, Call call) {
  const auto stores_any = [](const ActiveEngine* active) { return active->engine->has_global_references(); };
  if (std::ranges::none_of(engines, stores_any)) return call();
  const bool stays = is_recording(stream) || may_run_late(place_of(engines, stream), stream);
  const CUresult result = call();
  if (result != CUDA_SUCCESS || stays) return result;
  for (const ActiveEngine* active : engines) {
    if (stores_any(active)) active->engine->overwritten({written.address, written.bytes});
  }
  return result;
}

// A separate function because lists of changes take much stack.
[[gnu::noinline]] CUresult submit_changing(const EngineSet& engines, EngineBits bits, EngineBits changing,
                                           const StreamPlace& place, StreamHandle stream, Host host,
                                           const AccessList& accesses, const OperationInfo& info, Call call,
                                           Instead instead) {
  AllChanges made(engines, changing, accesses);
  bool replaces = false;
  engines.for_each(changing, [&](const ActiveEngine& active) { replaces |= active.engine->has_references(); });
  const bool may_be_late = replaces && may_run_late(place, stream);
  const CUresult result =
      bits == 0 ? call() : submit_seen(engines, bits, place, stream, host, accesses, info, call, instead);
  if (result != CUDA_SUCCESS) return result;
  read_what_goes_outside(engines, place, stream, accesses);
  made.happened(may_be_late);
  return result;
}

CUresult submit_what(StreamHandle stream, Host host, AccessList& accesses, const OperationInfo& info, Call call,
                     Instead instead) {
  const RoomInQueue room(stream);
  const HeldEngines there;
  if (there.none()) return call();
  const EngineSet& engines = *there;
  EngineBits bits = 0;
  const MemoryAccess first = accesses.empty() ? MemoryAccess{} : accesses.all()[0];
  accesses.filter([&](DeviceAddress address) {
    const EngineBits owner = engines.bit_of_owner(address);
    bits |= owner;
    return owner != 0;
  });
  if (bits == 0 && accesses.moves().empty() && !info.follows && !info.may_block) {
    return first.access == Access::kWrite ? set_outside(engines, stream, first, call) : call();
  }
  if (is_recording(stream)) return submit_recorded(engines, stream, accesses, info.follows, call);
  const StreamPlace place = place_of(engines, stream);
  const EngineBits changing = changing_references(engines, bits | reached_from(engines, place), accesses);
  if (info.follows) bits |= followers_of(engines, place);
  if (info.may_block && place.here != nullptr) bits |= engines.bit_of(place.here);
  if (bits == 0 && changing == 0) return call();
  if (host == Host::kGoesOn && info.operator_class == OperatorClass::kCopy) host = host_of_copy(accesses);
  if (Runtime::get().broken()) return accesses.empty() ? call() : CUDA_ERROR_UNKNOWN;
  return guarded([&] {
    if (info.operator_class == OperatorClass::kTables) {
      const CUresult result = submit_seen(engines, bits, place, stream, host, accesses, info, call, instead);
      if (result != CUDA_SUCCESS) return result;
      engines.for_each(
          bits, [&](const ActiveEngine& active) { active.engine->written_by_kernel(part_of(accesses, active).all()); });
      return result;
    }
    if (changing == 0) return submit_seen(engines, bits, place, stream, host, accesses, info, call, instead);
    return submit_changing(engines, bits, changing, place, stream, host, accesses, info, call, instead);
  });
}

}  // namespace

CUresult submit(StreamHandle stream, Host host, AccessList&& accesses, const OperationInfo& info, Call call) {
  return submit_what(stream, host, accesses, info, call, {});
}

CUresult detail::launch_again(const ActiveEngine& active, StreamHandle stream, const AccessList& accesses,
                              const OperationInfo& info, Call call, Operation first) {
  std::optional<Operation> asked(std::move(first));
  const auto begin = [&](bool again) {
    if (!asked.has_value()) return active.engine->begin(stream, accesses.all(), info, again);
    Operation operation = std::move(*asked);
    asked.reset();
    return operation;
  };
  return submit_here(active, stream, Host::kGoesOn, accesses, info, begin, call);
}

CUresult submit_copy(StreamHandle stream, Host host, AccessList&& accesses, const OperationInfo& info, Call call,
                     CallIn in_another, const CallFrom* from_host, const UploadByWay* by_way) {
  return submit_what(stream, host, accesses, info, call,
                     {.in_another = &in_another, .from_host = from_host, .by_way = by_way});
}

CUresult submit_copy(StreamHandle stream, Host host, AccessList&& accesses, const OperationInfo& info, Call call,
                     const CallFrom* from_host) {
  return submit_what(stream, host, accesses, info, call, {.from_host = from_host});
}

CUresult submit_unknown(StreamHandle stream, Call call) {
  const RoomInQueue room(stream);
  const HeldEngines engines;
  if (engines.none()) return call();
  // The graph's unknown contents are noticed when it is instantiated.
  if (is_recording(stream)) return submit_recorded(*engines, stream, {}, true, call);
  if (Runtime::get().broken()) return CUDA_ERROR_UNKNOWN;
  count(Counter::kUnknownLaunches);
  THERMOCLINE_LOG_ONCE(LogLevel::kWarning, "the parameters of a kernel can not be read; everything counts as accessed");
  return guarded([&] {
    const StreamPlace place = place_of(*engines, stream);
    if (place.refused) return call();
    if (place.here == nullptr) {
      THERMOCLINE_LOG_ONCE(LogLevel::kError,
                           "a launch in another context is refused: the parameters of its kernel can not be read");
      return CUDA_ERROR_NOT_SUPPORTED;
    }
    return submit_across(*engines, reached_from(*engines, place), place, stream, Host::kGoesOn, {}, {}, true, call);
  });
}

CUresult keep(const AccessList& accesses, const char* reason, Call call) {
  const EngineSet* const engines = engines_now();
  if (engines == nullptr) return call();
  AccessList ours = accesses;
  ours.filter([&](DeviceAddress address) { return engines->owner(address) != nullptr; });
  if (ours.empty()) return call();
  if (Runtime::get().broken()) return CUDA_ERROR_UNKNOWN;
  return guarded([&] {
    PinnedBuffers pinned;
    if (CUresult result = pinned.pin(*engines, ours, reason); result != CUDA_SUCCESS) return result;
    const CUresult result = call();
    if (result != CUDA_SUCCESS) return result;
    pinned.stay();
    for (const ActiveEngine* active : *engines) {
      if (const AccessList part = part_of(ours, *active); !part.empty()) remember_kept(*active->engine, part);
    }
    return result;
  });
}

}  // namespace thermocline
