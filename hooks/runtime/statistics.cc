// SPDX-License-Identifier: Apache-2.0
#include "hooks/runtime/statistics.h"

#include <algorithm>

namespace thermocline {

namespace {

using S = EngineStatistics;
using Number = std::uint64_t S::*;

constexpr Number kPeaks[] = {&S::peak_live_bytes, &S::peak_device_bytes, &S::peak_host_bytes, &S::peak_pageable_bytes,
                             &S::peak_live_buffers};
constexpr Number kCounts[] = {&S::allocated_bytes,
                              &S::freed_bytes,
                              &S::created_bytes,
                              &S::destroyed_bytes,
                              &S::host_taken_bytes,
                              &S::host_given_bytes,
                              &S::evicted_bytes,
                              &S::restored_bytes,
                              &S::allocations,
                              &S::frees,
                              &S::operations,
                              &S::evictions,
                              &S::restores,
                              &S::digests,
                              &S::digested_bytes,
                              &S::failed_digests,
                              &S::unchanged_units,
                              &S::changed_units,
                              &S::uncopied_bytes,
                              &S::upload_copies,
                              &S::upload_copy_bytes,
                              &S::failed_upload_copies,
                              &S::useless_upload_copies,
                              &S::fallback_evictions,
                              &S::unmapped_evictions,
                              &S::unseen_accesses,
                              &S::prefetches,
                              &S::wasted_prefetches,
                              &S::write_behinds,
                              &S::plans,
                              &S::dropped_buffers,
                              &S::dropped_bytes,
                              &S::recomputed_buffers,
                              &S::recomputed_bytes,
                              &S::recomputed_operations,
                              &S::recomputed_ns,
                              &S::rehearsed_launches,
                              &S::verified_results,
                              &S::mismatched_results,
                              &S::unverified_results,
                              &S::promoted_kernels,
                              &S::demoted_kernels,
                              &S::divergences,
                              &S::creates,
                              &S::maps,
                              &S::unmaps,
                              &S::host_waits,
                              &S::out_of_memory,
                              &S::spill_written_bytes,
                              &S::spill_read_bytes,
                              &S::spill_full,
                              &S::failed_spill_writes,
                              &S::failed_spill_reads,
                              &S::followed,
                              &S::unfetched_targets,
                              &S::over_budget_operations,
                              &S::repeated_operations,
                              &S::host_reads,
                              &S::table_reads,
                              &S::pointer_probes,
                              &S::pointer_writing_kernels};
// Current values, which are 0 once the engine has ended.
constexpr Number kHeld[] = {&S::live_bytes,        &S::live_buffers,      &S::device_bytes,      &S::external_bytes,
                            &S::block_bytes,       &S::nonresident_bytes, &S::free_mapped_bytes, &S::slab_bytes,
                            &S::slab_live_bytes,   &S::pinned_bytes,      &S::pinned_buffers,    &S::host_bytes,
                            &S::host_live_bytes,   &S::references,        &S::asleep_bytes,      &S::spilled_bytes,
                            &S::spill_limit_bytes, &S::pageable_bytes};
// Current values that are not added up over engines.
constexpr Number kHeldByOne[] = {&S::available_bytes, &S::host_shared_bytes, &S::host_claimed_bytes,
                                 &S::predicted_step_ns};
// Values of the process, or of all processes.
constexpr Number kLargest[] = {&S::largest_allocation_bytes, &S::host_limit_bytes, &S::host_shared_limit_bytes};

}  // namespace

EngineStatistics merge(const EngineStatistics& earlier, const EngineStatistics& later) {
  EngineStatistics all = later;
  for (const Number peak : kPeaks) all.*peak = std::max(earlier.*peak, later.*peak);
  for (const Number count : kCounts) all.*count += earlier.*count;
  all.movements += earlier.movements;
  all.largest_allocation_bytes = std::max(earlier.largest_allocation_bytes, later.largest_allocation_bytes);
  return all;
}

EngineStatistics add(const EngineStatistics& one, const EngineStatistics& other) {
  EngineStatistics sum = one;
  sum.budget_bytes += other.budget_bytes;
  for (const Number peak : kPeaks) sum.*peak += other.*peak;
  for (const Number count : kCounts) sum.*count += other.*count;
  sum.movements += other.movements;
  for (const Number held : kHeld) sum.*held += other.*held;
  for (const Number held : kHeldByOne) sum.*held = std::max(one.*held, other.*held);
  for (const Number largest : kLargest) sum.*largest = std::max(one.*largest, other.*largest);
  for (std::size_t i = 0; i < sum.size_classes.size(); ++i) {
    sum.size_classes[i].live_bytes += other.size_classes[i].live_bytes;
    sum.size_classes[i].buffers += other.size_classes[i].buffers;
  }
  return sum;
}

AuditStatistics add(const AuditStatistics& one, const AuditStatistics& other) {
  AuditStatistics sum = one.fault == 0 && other.fault != 0 ? other : one;
  sum.operations = one.operations + other.operations;
  sum.launches = one.launches + other.launches;
  sum.graphs = one.graphs + other.graphs;
  // Devices mostly run the same kernels.
  sum.kernels = std::max(one.kernels, other.kernels);
  sum.unknown = one.unknown + other.unknown;
  sum.left_open = one.left_open + other.left_open;
  return sum;
}

EngineStatistics ended(const EngineStatistics& last) {
  EngineStatistics end = last;
  end.freed_bytes = last.allocated_bytes;
  end.destroyed_bytes = last.created_bytes;
  end.host_given_bytes = last.host_taken_bytes;
  for (const Number held : kHeld) end.*held = 0;
  for (const Number held : kHeldByOne) end.*held = 0;
  end.size_classes = {};
  return end;
}

void forget_peaks(EngineStatistics* statistics) {
  statistics->peak_live_bytes = statistics->live_bytes;
  statistics->peak_live_buffers = statistics->live_buffers;
  statistics->peak_device_bytes = statistics->device_bytes;
  statistics->peak_host_bytes = statistics->host_bytes;
  statistics->peak_pageable_bytes = statistics->pageable_bytes;
  statistics->largest_allocation_bytes = 0;
}

}  // namespace thermocline
