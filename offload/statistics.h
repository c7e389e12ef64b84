// SPDX-License-Identifier: Apache-2.0
// The statistics of an engine and its buffers.
#pragma once

#include <array>
#include <cstdint>

#include "allocator/size_class.h"
#include "driver/units.h"
#include "offload/movement.h"

namespace thermocline {

// A live buffer as the program requested it.
struct BufferFacts {
  DeviceAddress address;
  Bytes bytes = 0;
  std::uint64_t number = 0;  // in order of allocation
  bool resident = false;
};

// The findings of an audit (audit.h).
struct AuditStatistics {
  std::uint64_t operations = 0;
  std::uint64_t launches = 0;   // of these: kernels and graphs
  std::uint64_t graphs = 0;     // of these: graphs
  std::uint64_t kernels = 0;    // distinct names
  std::uint64_t unknown = 0;    // launches that had access to everything
  std::uint64_t left_open = 0;  // times that access could not be removed
  std::uint64_t fault = 0;      // number of the operation that accessed memory it was not known to access; 0: none
  int error = 0;                // the driver's error code
  const char* faulty = nullptr;
};

// Counters since the engine began; in bytes unless named otherwise.
struct EngineStatistics {
  Bytes budget_bytes = 0;
  Bytes live_bytes = 0, peak_live_bytes = 0;          // the bytes that the program has allocated
  Bytes device_bytes = 0, peak_device_bytes = 0;      // the bytes that the engine has allocated on the device
  Bytes host_bytes = 0, peak_host_bytes = 0;          // pinned host memory taken, and pageable
  Bytes pageable_bytes = 0, peak_pageable_bytes = 0;  // of it: not pinned, because the driver refused to
  Bytes external_bytes = 0;                           // external memory: the program's own mappings
  Bytes evicted_bytes = 0, restored_bytes = 0;        // copied out and in
  std::uint64_t allocations = 0, frees = 0;
  std::uint64_t operations = 0;
  std::uint64_t evictions = 0, restores = 0;  // eviction units evicted, and fetched
  MovementCounts movements;                   // the same, and bytes copied, by reason
  std::uint64_t prefetches = 0, wasted_prefetches = 0;
  // With a host fallback: units evicted with a host mapping, units evicted without one, and units that were found
  // changed when they were fetched.
  std::uint64_t fallback_evictions = 0, unmapped_evictions = 0, unseen_accesses = 0;
  // Digests of units; units found unchanged, or changed, since they were copied out; bytes not copied because of that.
  std::uint64_t digests = 0, unchanged_units = 0, changed_units = 0;
  Bytes digested_bytes = 0, uncopied_bytes = 0;
  // Failed requests for digests; and 1 if the device cannot compute them at all.
  std::uint64_t failed_digests = 0, digests_unavailable = 0;
  // Host copies made by uploads, and their bytes; those for which there was no host memory; and those that were given up
  // before they had saved a copy out.
  std::uint64_t upload_copies = 0, failed_upload_copies = 0, useless_upload_copies = 0;
  Bytes upload_copy_bytes = 0;
  std::uint64_t write_behinds = 0;           // copies out that nobody waited for when they began
  std::uint64_t plans = 0, divergences = 0;  // iterations learned, and divergences from them
  // Buffers dropped without a copy, each with a block of its own, and the bytes of these blocks; the part of these that
  // was recomputed (the others were overwritten or freed first).
  std::uint64_t dropped_buffers = 0, recomputed_buffers = 0;
  Bytes dropped_bytes = 0, recomputed_bytes = 0;
  std::uint64_t recomputed_operations = 0;  // operations that ran again
  std::uint64_t recomputed_ns = 0;          // their duration, as far as known
  // Launches that were run a second time as a rehearsal; recomputed or rehearsed results that were compared, those that
  // differed, and recomputed contents that should have been compared but were not; kernels whose results may be
  // recomputed, and kernels that lost that because a result differed.
  std::uint64_t rehearsed_launches = 0, verified_results = 0, mismatched_results = 0, unverified_results = 0;
  std::uint64_t promoted_kernels = 0, demoted_kernels = 0;
  std::uint64_t predicted_step_ns = 0;              // of an iteration under the current plan; 0: there is none
  std::uint64_t creates = 0, maps = 0, unmaps = 0;  // driver calls
  std::uint64_t host_waits = 0;                     // times the host had to wait for the device
  std::uint64_t out_of_memory = 0;                  // requests refused
  std::uint64_t pinned_buffers = 0;                 // buffers that may not be evicted
  Bytes pinned_bytes = 0;                           // the blocks of these
  std::uint64_t references = 0;                     // places in memory where pointers to buffers are stored
  std::uint64_t followed = 0;                       // accesses of buffers through such stored pointers
  // With a full host fallback: blocks reached by stored pointers that were accessed through their host copies for lack
  // of room.
  std::uint64_t unfetched_targets = 0;
  // Operations that exceeded the budget because they could not run within it (EngineOptions::soft_limit).
  std::uint64_t over_budget_operations = 0;
  std::uint64_t repeated_operations =
      0;                          // operations with the addresses of an earlier one, without look-ups; for tests
  std::uint64_t host_reads = 0;   // copies that read their source from its host copy
  std::uint64_t table_reads = 0;  // pointer tables that were read because everything they may point to does not fit
  std::uint64_t pointer_probes = 0,
                pointer_writing_kernels = 0;  // launches probed for stored pointers, and kernels that store some
  // Counted by the hooks, which fill them in (hooks/diagnostics/fallbacks.h).
  std::uint64_t unknown_launches = 0, captured_operations = 0, other_contexts = 0, unknown_functions = 0;
  std::uint64_t untracked_uploads = 0, unread_tables = 0, unseen_collectives = 0, refused_shares = 0,
                missing_mechanisms = 0;
  std::uint64_t unmappable_devices = 0;
  std::uint64_t cut_graphs = 0, graph_segments = 0, uncut_graphs = 0;
  // With recompute = "auto": launches of kernels that may run again, and of others (hooks/relaunch/kernel_verdicts.h).
  std::uint64_t rerunnable_launches = 0, refused_reruns = 0;

  // The peak may include some buffers that threads had just freed (at most ThreadCache::kSlots per thread).
  std::uint64_t live_buffers = 0, peak_live_buffers = 0;
  Bytes allocated_bytes = 0, freed_bytes = 0;  // in total, own mappings included; the difference is live_bytes
  Bytes largest_allocation_bytes = 0;
  Bytes block_bytes = 0;                         // whole pages of live buffers, resident or not
  Bytes nonresident_bytes = 0;                   // of these: not on the device
  Bytes asleep_bytes = 0;                        // of these: evicted for sleep
  Bytes created_bytes = 0, destroyed_bytes = 0;  // pages; their difference plus external_bytes is device_bytes
  Bytes free_mapped_bytes = 0;                   // pages that belong to no live buffer
  Bytes slab_bytes = 0, slab_live_bytes = 0;     // pages that small buffers share, and live bytes in them
  // The largest allocation that would need no eviction.
  Bytes available_bytes = 0;
  Bytes host_limit_bytes = 0;                        // 0: none
  Bytes host_live_bytes = 0;                         // of host_bytes: in use
  Bytes host_taken_bytes = 0, host_given_bytes = 0;  // in total; their difference is host_bytes
  // The spill file (limit 0: none): bytes in it, and bytes written and read in total.
  Bytes spill_limit_bytes = 0, spilled_bytes = 0, spill_written_bytes = 0, spill_read_bytes = 0;
  // Copies that stayed on the host because the file or its disk was full, or the write failed; and failed reads.
  std::uint64_t spill_full = 0, failed_spill_writes = 0, failed_spill_reads = 0;
  // A host memory limit shared by processes (0: none): the limit, the bytes that all of them hold or have reserved, and
  // this process's share.
  Bytes host_shared_limit_bytes = 0, host_shared_bytes = 0, host_claimed_bytes = 0;
  std::array<SizeClass, SizeClass::kCount> size_classes;  // of live buffers
};

}  // namespace thermocline
