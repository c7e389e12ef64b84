// SPDX-License-Identifier: Apache-2.0
// The options of an engine, given when it is created.
#pragma once

#include <atomic>
#include <cstdint>

#include "allocator/keep_apart.h"
#include "driver/units.h"
#include "offload/policies.h"
#include "offload/spill_problem.h"

namespace thermocline {

class BudgetSource;
class HostAccount;
class HostLedger;
class MovementObserver;
class Relauncher;
class ScheduleSource;

// When the pages of a live buffer may be reused. strict: when all work that may use them has completed, and its
// addresses are unmapped. trusting: as soon as its copy out has been submitted; only for programs all of whose accesses
// are known.
enum class Safety { kStrict, kTrusting };

// The mapping of an evicted buffer's addresses (host_fallback.h, docs/host_fallback.md). off: none. auto: to its host
// copy, if the device can map that. full: the same, and no buffer is evicted or fetched while anything runs; slow.
enum class HostFallback { kOff, kAuto, kFull };

// Contents that are cheaper to recompute than to copy are dropped and recomputed, if the caller supports running
// operations again (relauncher.h) and a learned plan says so. off: never.
enum class Recompute { kOff, kAuto };

// Which plans recompute. kJoint: the fastest of all plans. kRecomputeOnly, for comparison: never copies.
// kRecomputeExchanged: the same, and single drops are exchanged for others, for executors that have no copies.
enum class RecomputePlans { kJoint, kRecomputeOnly, kRecomputeExchanged };

// Whether digests are used to compare an eviction unit with its host copy before it is evicted, if something may have
// written to it (docs/directions.md). auto: if that pays, and the device can do it.
enum class DigestUse { kOff, kAuto };

// Which uploads give the memory that they fill its first host copy, on their way (docs/directions.md). auto: those of
// pageable memory, which are staged in any case, once more is live than the budget. all: those of pinned memory, too,
// from the first one on. Both: within the host limit, and where a copy outlives the next access, because digests are
// taken or directions are known.
enum class UploadCopies { kOff, kAuto, kAll };

struct EngineOptions {
  int device = 0;
  // Upper bound for the bytes that the engine may hold on the device, the program's own mappings included. 0: all of
  // the device's memory.
  Bytes budget_bytes = 0;
  // Supplies a budget that changes (offload/sharing). Then budget_bytes is the initial budget, and there is no soft
  // limit. Must outlive the engine. Null: the budget is constant.
  BudgetSource* budget_source = nullptr;
  // Decides what is evicted, and when: an entry of the table, or the caller's own. Outlives the engine.
  const PolicyEntry* policy = kLearnedPolicy;
  // Any thread sets it, without a lock, once memory may be used unseen: from then on nothing is evicted, and evicted
  // memory is fetched if there is room. Outlives the engine. Null: that never happens.
  const std::atomic<bool>* evict_no_more = nullptr;
  Safety safety = Safety::kStrict;
  // Off by default here, although the setting's default is auto: it reads host memory, which engines on simulated
  // memory (tags instead of bytes) do not have.
  HostFallback host_fallback = HostFallback::kOff;
  // False: host memory has addresses but no bytes (a simulated device). Then writes that the hooks did not see are not
  // detected, recomputed contents are not verified, and digests are of the device's tags.
  bool host_is_readable = true;
  DigestUse digests = DigestUse::kOff;
  // Only operations with a source are concerned (OperationInfo::source).
  UploadCopies upload_copies = UploadCopies::kAuto;
  // Upper bound for pinned host memory. 0: unlimited.
  Bytes host_limit_bytes = 0;
  // The same limit, kept for all devices of the process together; must outlive the engine. Null: for this engine alone.
  HostAccount* host_account = nullptr;
  // A host memory limit that this process shares with others; must outlive the engine. Null: none.
  HostLedger* host_ledger = nullptr;
  // The most bytes of the spill file to use (Engine::create).
  Bytes spill_limit_bytes = 0;
  // Called for failed writes and reads of the spill file. Null: nobody is told.
  SpillProblemHandler spill_problem = nullptr;
  // The caller's thread writes and reads the spill file, so that the same calls give the same decisions.
  bool spills_in_place = false;
  // The size of pages of physical memory: a power of two, at least the driver's granularity. 0: chosen (page_bytes.h).
  Bytes page_bytes = 0;
  // Smaller buffers stay on the device unless a whole slab of them is idle.
  Bytes min_offload_bytes = kMiB;
  // Write-behind begins when more than this percentage of the budget is in use.
  unsigned low_water_percent = 60;
  // Write-behind keeps up to this percentage of the budget clean.
  unsigned clean_reserve_percent = 25;
  // An engine that has been idle for this long releases unused memory (Engine::look_for_idleness). 0: never.
  std::uint64_t idle_after_ns = 1'000'000'000;
  // Unused device memory, and unused pinned memory, that is kept then: this much of each.
  Bytes idle_reserve_bytes = 16 * kMiB;
  // Registers every buffer through NVTX's memory extension, for tools that inspect the pool.
  bool annotate = false;
  // Unused bytes after each buffer, in which writes past its end can be detected. Buffers count as larger by this, and
  // no thread caches any.
  Bytes redzone_bytes = 0;
  // An operation that alone exceeds the budget is admitted while the device has room, and counted (soft_limit.cc).
  bool soft_limit = false;
  // False: no page is mapped at two addresses, because the driver does not show one memory there (driver/probes.h).
  // Then pages get a new owner only when nothing uses them: safety is strict, there is no host fallback, and nothing is
  // recomputed.
  bool may_alias = true;
  // Waits happen without the lock, so that other threads can continue; the request then starts again. For callers with
  // several threads; which thread is first then depends on timing.
  bool waits_without_lock = false;
  // Evicts nothing, and gives an operation access only to what it is known to access (audit.h). The policy is then
  // none.
  bool audit = false;
  Recompute recompute = Recompute::kOff;
  RecomputePlans recompute_plans = RecomputePlans::kJoint;
  // For comparison: only these schedules (recompute/schedule.h), without copies; must outlive the engine. Null: all.
  const ScheduleSource* schedules = nullptr;
  // For tests: everything that can be recomputed is dropped before each operation, whether or not that pays.
  bool drops_all = false;
  // For tests: kernels on trial count as promoted, and results are not compared (recompute/verification.h).
  bool drops_by_proof = false;
  // Runs operations again; must outlive the engine. Null: none may run again.
  Relauncher* relauncher = nullptr;
  // Callers that tell how kernels access buffers identify buffers by their addresses.
  KeepApart buffers_apart = KeepApart::kNone;
  // Notified of every movement (movement.h); must outlive the engine. Null: nobody is.
  MovementObserver* movements = nullptr;
  // Host memory that the driver refuses to pin, although the host limit allows it, may be pageable memory instead: slower,
  // and counted (EngineStatistics::pageable_bytes). `pinning_refused` is called the first time, with the engine's lock
  // held and the bytes that are pinned, by all engines that share a limit. Null: nobody is told.
  bool may_use_pageable = false;
  void (*pinning_refused)(Bytes pinned) = nullptr;
  // Called at most once, with the engine's lock held, when mapped host memory turns out not to work. From then on host
  // copies are in ordinary pinned memory. Null: nobody is told.
  void (*without_host_memory)() = nullptr;
};

}  // namespace thermocline
