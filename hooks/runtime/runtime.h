// SPDX-License-Identifier: Apache-2.0
// The state of the preloaded library: dormant until the program first asks for device memory in a context; then an
// engine for each device, in the first context that allocates there, until that context ends; and passing everything
// through where that can not be.
//
// What goes wrong is said once on stderr and makes the library stand aside, on the first device everywhere, on another
// there (promise 4). A broken invariant of ours is the exception: then nobody knows where the program's bytes are, so
// every operation on our memory, of all devices, fails from then on with CUDA_ERROR_UNKNOWN, while memory that is not
// ours goes on as if we were not there.
#pragma once

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

// Behind each buffer under debug = "guard" (diagnostics/misuse.h).
inline constexpr Bytes kRedzoneBytes = 256;

// Thrown out of the engine by the check handler.
struct BrokenInvariant {};

class Runtime {
 public:
  static Runtime& get();

  // Those that are there; null while none is. Lock-free.
  const EngineSet* engines() const noexcept;
  // Whose memory this is, whichever context is current; null where it is nobody's. Lock-free.
  const ActiveEngine* owner(DeviceAddress address) const noexcept;
  bool is_there(const ActiveEngine* engine) const noexcept;
  // Of the current context; creates it in the first context of a device that asks. Null: pass through.
  const ActiveEngine* in_current_context();
  // The same, where it is known already; null: there is none.
  const ActiveEngine* in_current_context(CUcontext current);
  // Each in turn; none begins or ends meanwhile. Not from within one.
  template <class Visit>
  void for_each(Visit visit) {
    const std::lock_guard lock(lifetimes());
    if (const EngineSet* all = engines()) {
      for (const ActiveEngine* one : *all) visit(*one);
    }
  }

  bool broken() const noexcept;
  // strict is set and the library could not begin, here: allocations fail.
  bool refuses() const noexcept;
  void declare_broken() noexcept;

  // Before the driver destroys the context: its memory dies with it, and what we hold is given back when all that was
  // submitted there has passed. Where the driver does not wait, it stays until the context is gone. Waits without a
  // lock.
  void end_context(CUcontext context);
  // The context is gone already.
  void abandon_context(CUcontext context);

  // Statistics of all engines so far, added up; false when they can not be asked (we are inside one).
  bool statistics(EngineStatistics* out) const;
  // Of the engines that are there, too; false as above.
  bool reset_peaks();
  // Settings `stats` and `advertise`.
  StatsForm stats_form() const noexcept;
  Advertise advertise() const noexcept;
  // "60 % of the device's 24.00 GiB"; "" where the budget is no percentage, or none is there.
  std::string budget_origin() const;
  // Setting `shareable`; may begin, since settings are read then.
  bool wants_shareable();
  // Setting `audit`, and what has been looked at: on all devices, and of the first fault that was found.
  bool wants_audit() const noexcept;
  AuditStatistics audit() const;
  bool has_run() const noexcept;

 private:
  Runtime() = default;
  class State;
  static State& state();
  static Mutex& lifetimes();
  const ActiveEngine* activate(CUcontext context);
};

// What a hook asks first: null where it is to pass through.
inline const EngineSet* engines_now() { return Inside::now() ? nullptr : Runtime::get().engines(); }
inline const ActiveEngine* owner_now(DeviceAddress address) {
  return Inside::now() ? nullptr : Runtime::get().owner(address);
}

// The same, and none of them ends while this lives: for who asks engines of devices that the program may be done with.
// Costs nothing where there is one.
class HeldEngines {
 public:
  HeldEngines() : HeldEngines(Even::kSeveral) {}
  // kOne: of one as well, for threads of ours: the program's own does not end the context that it uses.
  enum class Even : std::uint8_t { kOne, kSeveral };
  explicit HeldEngines(Even held);
  ~HeldEngines();
  HeldEngines(const HeldEngines&) = delete;
  HeldEngines& operator=(const HeldEngines&) = delete;

  bool none() const noexcept { return engines_ == nullptr; }
  const EngineSet& operator*() const noexcept { return *engines_; }
  const EngineSet* operator->() const noexcept { return engines_; }

 private:
  const EngineSet* engines_;
  bool holds_ = false;
};

// True where the library came before the program (preloaded, or linked), so that the hooks are called. Opened late and
// privately (dlopen), nothing shows it what is submitted: the engine then evicts nothing.
bool sees_operations();

// Counters of the hooks, beside the engine's. Relaxed: for people.
enum class Counter {
  kUnknownLaunches,     // parameters that could not be read: everything counted as accessed
  kCapturedOperations,  // recorded into graphs
  kOtherContexts,       // allocations in contexts without an engine, passed through
  kUnknownFunctions,    // of the driver, newer than our table: the program calls them unseen
  kUnseenCollectives,   // kernels of NCCL whose call was not seen (linked statically), or ends in the background
  kBypassingLibraries,  // libraries that call the driver past the hooks; counted at the end
  kRefusedShares,       // memory of ours that the driver does not share with other processes
  kUntrackedUploads,    // copies of graphs whose source could not be read, or that are too many
  kMissingMechanisms,   // of the driver, that were tried when an engine began and failed
  kCount
};
void count(Counter counter) noexcept;
std::uint64_t counted(Counter counter) noexcept;

}  // namespace thermocline
