// SPDX-License-Identifier: Apache-2.0
// The state of the preloaded library: dormant until the program first asks for device memory in a context; then one
// engine, for that context's device, until the context ends; and passing everything through where that can not be.
//
// What goes wrong is said once on stderr and makes the library stand aside (promise 4). A broken invariant of ours is
// the exception: then nobody knows where the program's bytes are, so every operation on our memory fails from then on
// with CUDA_ERROR_UNKNOWN, while memory that is not ours goes on as if we were not there.
#pragma once

#include <cstdint>

#include "hooks/cuda_api.h"
#include "hooks/log.h"
#include "offload/engine.h"

namespace thermocline {

// Thrown out of the engine by the check handler.
struct BrokenInvariant {};

struct ActiveEngine {
  Engine* engine = nullptr;
  CUcontext context = nullptr;
  CUdevice device = 0;
};

class Runtime {
 public:
  static Runtime& get();

  // What owns memory of ours, whichever context is current; null while nothing does. Lock-free.
  const ActiveEngine* active() const noexcept;
  // The same where the current context is the engine's; creates it in the first context that asks. Null: pass through.
  const ActiveEngine* in_current_context();

  bool broken() const noexcept;
  // strict is set and the library could not begin: allocations fail.
  bool refuses() const noexcept;
  void declare_broken() noexcept;

  // Before the driver destroys the context: its memory dies with it, and what we hold is given back.
  void end_context(CUcontext context);
  void end_device(CUdevice device);
  // The context is gone already.
  void abandon_device(CUdevice device);

  // Statistics of all engines so far; false when the engine can not be asked (we are inside it).
  bool statistics(EngineStatistics* out) const;
  // Of the engine that is there, too; false as above.
  bool reset_peaks();
  bool wants_statistics() const noexcept;
  // Setting `shareable`; may begin, since settings are read then.
  bool wants_shareable();
  // Setting `audit`, and what has been looked at.
  bool wants_audit() const noexcept;
  AuditStatistics audit() const;
  bool has_run() const noexcept;

 private:
  Runtime() = default;
  class State;
  static State& state();
  const ActiveEngine* activate(CUcontext context);
};

// True where the library came before the program (preloaded, or linked), so that the hooks are called. Opened late and
// privately (dlopen), nothing shows it what is submitted: the engine then evicts nothing.
bool sees_operations();

// Counters of the hooks, beside the engine's. Relaxed: for people.
enum class Counter {
  kUnknownLaunches,     // parameters that could not be read: everything counted as touched
  kCapturedOperations,  // pinned what they touch
  kOtherContexts,       // allocations in contexts without an engine, passed through
  kUnknownFunctions,    // of the driver, newer than our table: the program calls them unseen
  kUnseenCollectives,   // kernels of NCCL whose call was not seen (linked statically), or ends in the background
  kObjectsPastUs,       // libraries that call the driver past us; counted at the end
  kRefusedShares,       // memory of ours that the driver does not share with other processes
  kUnsearchedUploads,   // copies of graphs whose source could not be read, or that are not remembered
  kCount
};
void count(Counter counter) noexcept;
std::uint64_t counted(Counter counter) noexcept;

}  // namespace thermocline
