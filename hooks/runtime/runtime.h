// SPDX-License-Identifier: Apache-2.0
// The state of the preloaded library. It is dormant until the program first asks for device memory in a context. After
// that there is one engine per device, in the first context that allocates there, until that context ends. A device
// without virtual memory management has a heap instead (caching_heaps.h). If an engine can not be created for another
// reason, calls are passed through to the driver.
//
// Failures are logged once on stderr and make the library stand aside: for all devices if they concern the first one,
// otherwise for that device. A broken invariant is the exception: then it is unknown where the program's
// bytes are, so every operation on the engines' memory, of all devices, fails from then on with CUDA_ERROR_UNKNOWN,
// while other memory continues to work as without the library.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>

#include "config/settings.h"
#include "hooks/interpose/cuda_api.h"
#include "hooks/interpose/log.h"
#include "hooks/interpose/symbols.h"
#include "hooks/runtime/engines.h"
#include "offload/engine/engine.h"

namespace thermocline {

// Size of the pattern after each buffer with debug = "guard" (diagnostics/misuse.h).
inline constexpr Bytes kRedzoneBytes = 256;

// Thrown out of the engine by the check handler.
struct BrokenInvariant {};

class Runtime {
 public:
  static Runtime& get() { return only_; }

  // The current engines; null while there is none. Lock-free.
  const EngineSet* engines() const noexcept { return engines_.load(std::memory_order_acquire); }
  // The engine that owns the address, whichever context is current; null if none does. Lock-free.
  const ActiveEngine* owner(DeviceAddress address) const noexcept;
  bool is_there(const ActiveEngine* engine) const noexcept;
  // The engine of the current context; created in the first context of a device that asks. Null: pass the call through.
  const ActiveEngine* in_current_context();
  // The engine of `current`, which the caller knows to be the current context.
  const ActiveEngine* in_current_context(CUcontext current);
  // Visits each engine in turn; none begins or ends meanwhile. Must not be called from within an engine.
  template <class Visit>
  void for_each(Visit visit) {
    const MutexLock lock(lifetimes());
    if (const EngineSet* all = engines()) {
      for (const ActiveEngine* one : *all) visit(*one);
    }
  }

  bool broken() const noexcept { return mode_.load(std::memory_order_acquire) == Mode::kBroken; }
  // True if strict is set and the library could not begin for the current device: allocations fail.
  bool refuses() const noexcept;
  void declare_broken() noexcept;

  // Call it before the driver destroys the context, and its memory with it: releases the engine after everything
  // submitted there has completed. If the driver refuses to wait, the engine remains until the context has ended. Waits
  // without holding a lock.
  void end_context(CUcontext context);
  // The context has ended already.
  void abandon_context(CUcontext context);

  // The sum of the statistics of all engines so far; false if they cannot be read (the caller is inside an engine).
  bool statistics(EngineStatistics* out) const;
  // The sum of the statistics without waiting: false also if another thread holds a lock.
  bool try_statistics(EngineStatistics* out) const;
  // Also resets the peaks of current engines; false as above.
  bool reset_peaks();
  // Settings `stats` and `advertise`.
  StatsForm stats_form() const noexcept;
  Advertise advertise() const noexcept;
  // "60 % of the device's 24.00 GiB"; "the last lease"; "" if the budget is of another kind, or there is none.
  std::string budget_origin() const;
  // Setting `shareable`; may start the library, because that reads the settings.
  bool wants_shareable();
  // Setting `audit`, and the audit's findings: the sum over all devices, and the first fault that was found.
  bool wants_audit() const noexcept;
  AuditStatistics audit() const;
  // Setting host_fallback = "full".
  bool wants_full_fallback() const noexcept;
  bool has_run() const noexcept;

 private:
  enum class Mode : std::uint8_t {
    kDormant,  // no engine exists; the next context that asks for memory gets one
    kActive,
    kPassThrough,  // something required was not available: all calls go to the driver unchanged
    kBroken,       // see above
  };

  constexpr Runtime() = default;
  class State;
  static State& state();
  static Mutex& lifetimes();
  friend class HeldEngines;
  static SharedMutex& in_use();
  const ActiveEngine* activate(CUcontext context);

  static constinit Runtime only_;
  // Outside State, which is created later: every hook reads it first.
  static constinit std::atomic<Mode> mode_;
  static constinit std::atomic<const EngineSet*> engines_;
};

// The first check of a hook: null if the call is to be passed through.
inline const EngineSet* engines_now(Inside::Depth depth = {}) {
  return Inside::now(depth) ? nullptr : Runtime::get().engines();
}
inline const ActiveEngine* owner_now(DeviceAddress address) {
  return Inside::now() ? nullptr : Runtime::get().owner(address);
}

// The current engines, none of which ends while an object of this class lives: for code that uses engines of devices
// that the program may not use any more. Costs nothing with a single engine.
class HeldEngines {
 public:
  HeldEngines() : HeldEngines(Even::kSeveral) {}
  // kOne: hold also a single engine, for the library's own threads. The program's threads do not end the context that
  // they use.
  enum class Even : std::uint8_t { kOne, kSeveral };
  explicit HeldEngines(Even held) : engines_(engines_now()) {
    if (engines_ != nullptr && (held == Even::kOne || engines_->size() != 1)) [[unlikely]]
      hold();
  }
  // Within a call of the library that holds none yet.
  struct FromInside {};
  explicit HeldEngines(FromInside) : engines_(Runtime::get().engines()) {
    if (engines_ != nullptr) hold();
  }
  ~HeldEngines() {
    if (holds_) [[unlikely]]
      let_go();
  }
  HeldEngines(const HeldEngines&) = delete;
  HeldEngines& operator=(const HeldEngines&) = delete;

  bool none() const noexcept { return engines_ == nullptr; }
  const EngineSet& operator*() const noexcept { return *engines_; }
  const EngineSet* operator->() const noexcept { return engines_; }

 private:
  void hold();
  void let_go();

  const EngineSet* engines_;
  bool holds_ = false;
};

// True if the library was loaded before the program (preloaded, or linked), so that the hooks are called. If it was
// opened late and privately (dlopen), it does not see operations, and the engine evicts nothing.
bool sees_operations();

}  // namespace thermocline
