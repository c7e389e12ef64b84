// SPDX-License-Identifier: Apache-2.0
// What an engine is told when it is created.
#pragma once

#include <cstdint>

#include "driver/units.h"

namespace thermocline {

class HostLedger;
class MovementObserver;
class Relauncher;

// none: a caching allocator that never copies. reactive: evicts under pressure, writes idle buffers out early, brings
// back on access. learned: reactive until the program has repeated itself, then by plan.
enum class Policy { kNone, kReactive, kLearned };

// When a live buffer's pages change hands. strict: when all that may use them has passed, and its addresses lead
// nowhere any more. trusting: as soon as its copy out has been submitted; for programs all of whose accesses are known.
enum class Safety { kStrict, kTrusting };

// What an evicted buffer's addresses lead to (host_fallback.h, docs/host_fallback.md). off: nowhere. auto: to its copy
// on the host, where the device can map that. full: the same, and no buffer changes its place while anything runs;
// slow.
enum class HostFallback { kOff, kAuto, kFull };

// Contents that are cheaper to recompute than to copy are dropped and recomputed, where the caller may be asked to run
// operations again (relauncher.h) and a learned plan says so. off: none are.
enum class Recompute { kOff, kAuto };

// Which plans recompute. kJoint: the fastest that there is. The others are for comparison: kRecomputeOnly: what never
// copies; kSegments: the forward pass in equal segments, of which what crosses from one to the next is kept, and all
// else is recomputed (Chen et al., Training deep nets with sublinear memory cost, 2016), without copies.
enum class RecomputePlans { kJoint, kRecomputeOnly, kSegments };

struct EngineOptions {
  int device = 0;
  // Most bytes the engine may hold on the device, the program's own mappings included. 0: all of the device's memory.
  Bytes budget_bytes = 0;
  Policy policy = Policy::kLearned;
  // False: nothing moves before it must, so that a reactive engine is plain least-recently-used on demand. For
  // measurements.
  bool ahead_of_need = true;
  Safety safety = Safety::kStrict;
  // The setting begins with auto. Here it is asked for: it reads host memory, which tagged devices do not have.
  HostFallback host_fallback = HostFallback::kOff;
  // False: host memory has addresses and no bytes (a simulated device). Then writes that nobody saw are not found.
  bool host_is_readable = true;
  // Most bytes of pinned host memory. 0: no limit of ours.
  Bytes host_limit_bytes = 0;
  // Of a limit that this process shares with others; outlives the engine. Null: there is none.
  HostLedger* host_ledger = nullptr;
  // Smaller buffers stay on the device unless a whole slab of them is idle.
  Bytes min_offload_bytes = kMiB;
  // Write-behind begins when more than this part of the budget is taken, in percent.
  unsigned low_water_percent = 60;
  // Write-behind keeps up to this part of the budget clean, in percent.
  unsigned clean_reserve_percent = 25;
  // An engine that has been idle for so long gives back what nobody uses (Engine::look_for_idleness). 0: never.
  std::uint64_t idle_after_ns = 1'000'000'000;
  // Of that, so much stays: of the device's memory, and of pinned memory.
  Bytes idle_reserve_bytes = 16 * kMiB;
  // Registers every buffer through NVTX's memory extension, for tools that look into the pool.
  bool annotate = false;
  // Behind each buffer, nobody's, for whoever looks for what is written there. Buffers then count as so much larger,
  // and none is kept by a thread for itself.
  Bytes redzone_bytes = 0;
  // An operation that exceeds the budget alone is let in while the device has room, and counted (soft_limit.cc).
  bool soft_limit = false;
  // False: no page is put behind two addresses, since the driver would not show one memory there (driver/probes.h).
  // Then pages change hands only when nothing uses them: safety is strict, nothing leads to host copies, nothing is
  // recomputed.
  bool may_alias = true;
  // What has to be waited for is waited for without the lock, so that other threads go on meanwhile; what was asked for
  // begins again behind that. For callers with several threads: who is first then depends on them.
  bool waits_without_lock = false;
  // Evicts nothing, and lets an operation into nothing but what it is known to access (audit.h). The policy is none.
  bool audit = false;
  Recompute recompute = Recompute::kOff;
  RecomputePlans recompute_plans = RecomputePlans::kJoint;
  // Runs operations again; outlives the engine. Null: none may run again.
  Relauncher* relauncher = nullptr;
  // Is told of every movement (movement.h); outlives the engine. Null: nobody is.
  MovementObserver* movements = nullptr;
};

}  // namespace thermocline
