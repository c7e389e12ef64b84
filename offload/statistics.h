// SPDX-License-Identifier: Apache-2.0
// What an engine tells of itself and of its buffers.
#pragma once

#include <array>
#include <cstdint>

#include "allocator/size_class.h"
#include "driver/units.h"
#include "offload/movement.h"

namespace thermocline {

// A live buffer as the program asked for it.
struct BufferFacts {
  DeviceAddress address;
  Bytes bytes = 0;
  std::uint64_t number = 0;  // in order of allocation
  bool resident = false;
};

// What an audit (audit.h) has looked at.
struct AuditStatistics {
  std::uint64_t operations = 0;
  std::uint64_t launches = 0;   // of these, kernels and graphs
  std::uint64_t kernels = 0;    // by name
  std::uint64_t unknown = 0;    // launches to which everything was open
  std::uint64_t left_open = 0;  // times that access could not be taken away
  std::uint64_t fault = 0;      // the operation, by number, that accessed what it was not let into; 0: none
  int error = 0;                // the driver's
  const char* faulty = nullptr;
};

// Counters since the engine began; bytes unless named otherwise.
struct EngineStatistics {
  Bytes budget_bytes = 0;
  Bytes live_bytes = 0, peak_live_bytes = 0;      // what the program holds
  Bytes device_bytes = 0, peak_device_bytes = 0;  // what the engine holds on the device
  Bytes host_bytes = 0, peak_host_bytes = 0;      // pinned host memory taken
  Bytes external_bytes = 0;                       // the program's own mappings
  Bytes evicted_bytes = 0, restored_bytes = 0;    // copied out and in
  std::uint64_t allocations = 0, frees = 0;
  std::uint64_t operations = 0;
  std::uint64_t evictions = 0, restores = 0;  // eviction units that left, and whose contents came back
  MovementCounts movements;                   // the same, and what was copied, by reason
  std::uint64_t prefetches = 0, wasted_prefetches = 0;
  // Under a host fallback: units evicted with a host mapping, evicted without one, and that came back
  // changed.
  std::uint64_t fallback_evictions = 0, unmapped_evictions = 0, unseen_accesses = 0;
  std::uint64_t write_behinds = 0;                  // copies out that nobody waited for when they began
  std::uint64_t plans = 0, divergences = 0;         // iterations learned, and departures from them
  std::uint64_t recomputed_operations = 0;          // that ran again
  std::uint64_t recomputed_ns = 0;                  // what they took, as far as known
  Bytes dropped_bytes = 0;                          // whole blocks that were dropped, to be recomputed
  std::uint64_t predicted_step_ns = 0;              // of an iteration under the plan in force; 0: there is none
  std::uint64_t creates = 0, maps = 0, unmaps = 0;  // driver calls
  std::uint64_t host_waits = 0;                     // times the host had to wait for the device
  std::uint64_t out_of_memory = 0;                  // answers to the program
  std::uint64_t pinned_buffers = 0;                 // buffers that may not leave the device
  Bytes pinned_bytes = 0;                           // blocks of these
  std::uint64_t references = 0;                     // places in memory where addresses of buffers stand
  std::uint64_t followed = 0;                       // accesses of buffers that such addresses led to
  // Under a full host fallback: blocks that stored addresses lead to, and that were used at their copies on the host
  // for lack of room.
  std::uint64_t unfetched_targets = 0;
  // That exceeded the budget, because they could not have run within it (EngineOptions::soft_limit).
  std::uint64_t over_budget_operations = 0;
  std::uint64_t host_reads = 0;   // copies to the host that were served from the host copy of what is evicted
  std::uint64_t table_reads = 0;  // tables of kernels that were read because what they may lead to does not fit
  std::uint64_t pointer_probes = 0,
                pointer_writing_kernels = 0;  // launches looked at for tables, and kernels that write such
  // Of the hooks, which fill them in (hooks/diagnostics/fallbacks.h).
  std::uint64_t unknown_launches = 0, captured_operations = 0, other_contexts = 0, unknown_functions = 0;
  std::uint64_t untracked_uploads = 0, unseen_collectives = 0, refused_shares = 0, missing_mechanisms = 0;

  // The peak may count some that their threads had just freed (ThreadCache::kSlots a thread at most).
  std::uint64_t live_buffers = 0, peak_live_buffers = 0;
  Bytes allocated_bytes = 0, freed_bytes = 0;  // what made live_bytes, and its own mappings; their difference is live
  Bytes largest_allocation_bytes = 0;
  Bytes block_bytes = 0;                         // whole pages of live buffers, wherever they are
  Bytes nonresident_bytes = 0;                   // of these, not on the device
  Bytes created_bytes = 0, destroyed_bytes = 0;  // pages; their difference, and external_bytes, is device_bytes
  Bytes free_mapped_bytes = 0;                   // pages held behind no live buffer
  Bytes slab_bytes = 0, slab_live_bytes = 0;     // pages that small buffers share, and what of them is live
  // The largest allocation for which nothing would have to leave the device.
  Bytes available_bytes = 0;
  Bytes host_limit_bytes = 0;                        // 0: none
  Bytes host_live_bytes = 0;                         // of the host memory taken, what holds something
  Bytes host_taken_bytes = 0, host_given_bytes = 0;  // their difference is host_bytes
  // Of a limit that processes share (0: none), what all of them hold or may yet need of it, and this process's part.
  Bytes host_shared_limit_bytes = 0, host_shared_bytes = 0, host_claimed_bytes = 0;
  std::array<SizeClass, SizeClass::kCount> size_classes;  // of live buffers
};

}  // namespace thermocline
