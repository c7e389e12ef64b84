// SPDX-License-Identifier: Apache-2.0
#include "hooks/statistics.h"

#include <algorithm>

#include "hooks/runtime.h"

namespace thermocline {

EngineStatistics merge(const EngineStatistics& earlier, const EngineStatistics& later) {
  EngineStatistics all = later;
  all.peak_live_bytes = std::max(earlier.peak_live_bytes, later.peak_live_bytes);
  all.peak_device_bytes = std::max(earlier.peak_device_bytes, later.peak_device_bytes);
  all.peak_host_bytes = std::max(earlier.peak_host_bytes, later.peak_host_bytes);
  all.peak_live_buffers = std::max(earlier.peak_live_buffers, later.peak_live_buffers);
  all.largest_allocation_bytes = std::max(earlier.largest_allocation_bytes, later.largest_allocation_bytes);
  all.allocated_bytes += earlier.allocated_bytes;
  all.freed_bytes += earlier.freed_bytes;
  all.created_bytes += earlier.created_bytes;
  all.destroyed_bytes += earlier.destroyed_bytes;
  all.host_taken_bytes += earlier.host_taken_bytes;
  all.host_given_bytes += earlier.host_given_bytes;
  all.evicted_bytes += earlier.evicted_bytes;
  all.restored_bytes += earlier.restored_bytes;
  all.allocations += earlier.allocations;
  all.frees += earlier.frees;
  all.operations += earlier.operations;
  all.evictions += earlier.evictions;
  all.restores += earlier.restores;
  all.covered_evictions += earlier.covered_evictions;
  all.bare_evictions += earlier.bare_evictions;
  all.unseen_touches += earlier.unseen_touches;
  all.prefetches += earlier.prefetches;
  all.wasted_prefetches += earlier.wasted_prefetches;
  all.write_behinds += earlier.write_behinds;
  all.plans += earlier.plans;
  all.divergences += earlier.divergences;
  all.creates += earlier.creates;
  all.maps += earlier.maps;
  all.unmaps += earlier.unmaps;
  all.host_waits += earlier.host_waits;
  all.out_of_memory += earlier.out_of_memory;
  all.followed += earlier.followed;
  all.left_out_targets += earlier.left_out_targets;
  all.table_looks += earlier.table_looks;
  all.table_kernels += earlier.table_kernels;
  return all;
}

EngineStatistics ended(const EngineStatistics& last) {
  EngineStatistics end = last;
  end.freed_bytes = last.allocated_bytes;
  end.destroyed_bytes = last.created_bytes;
  end.host_given_bytes = last.host_taken_bytes;
  for (std::uint64_t EngineStatistics::*held :
       {&EngineStatistics::live_bytes, &EngineStatistics::live_buffers, &EngineStatistics::device_bytes,
        &EngineStatistics::foreign_bytes, &EngineStatistics::block_bytes, &EngineStatistics::away_bytes,
        &EngineStatistics::free_mapped_bytes, &EngineStatistics::slab_bytes, &EngineStatistics::slab_live_bytes,
        &EngineStatistics::available_bytes, &EngineStatistics::pinned_bytes, &EngineStatistics::pinned_buffers,
        &EngineStatistics::host_bytes, &EngineStatistics::host_live_bytes, &EngineStatistics::host_shared_bytes,
        &EngineStatistics::host_claimed_bytes, &EngineStatistics::references, &EngineStatistics::predicted_step_ns}) {
    end.*held = 0;
  }
  end.size_classes = {};
  return end;
}

void forget_peaks(EngineStatistics* statistics) {
  statistics->peak_live_bytes = statistics->live_bytes;
  statistics->peak_live_buffers = statistics->live_buffers;
  statistics->peak_device_bytes = statistics->device_bytes;
  statistics->peak_host_bytes = statistics->host_bytes;
  statistics->largest_allocation_bytes = 0;
}

std::string statistics_line(const EngineStatistics& statistics) {
  struct Field {
    const char* name;
    std::uint64_t value;
  };
  // The first eight stand in the documented order; more may follow.
  const Field fields[] = {
      {"peak_live_bytes", statistics.peak_live_bytes},
      {"peak_device_bytes", statistics.peak_device_bytes},
      {"budget_bytes", statistics.budget_bytes},
      {"peak_host_bytes", statistics.peak_host_bytes},
      {"evicted_bytes", statistics.evicted_bytes},
      {"restored_bytes", statistics.restored_bytes},
      {"allocations", statistics.allocations},
      {"pinned_buffers", statistics.pinned_buffers},
      {"frees", statistics.frees},
      {"operations", statistics.operations},
      {"evictions", statistics.evictions},
      {"restores", statistics.restores},
      {"covered_evictions", statistics.covered_evictions},
      {"bare_evictions", statistics.bare_evictions},
      {"unseen_touches", statistics.unseen_touches},
      {"prefetches", statistics.prefetches},
      {"wasted_prefetches", statistics.wasted_prefetches},
      {"write_behinds", statistics.write_behinds},
      {"plans", statistics.plans},
      {"divergences", statistics.divergences},
      {"creates", statistics.creates},
      {"maps", statistics.maps},
      {"unmaps", statistics.unmaps},
      {"host_waits", statistics.host_waits},
      {"peak_live_buffers", statistics.peak_live_buffers},
      {"allocated_bytes", statistics.allocated_bytes},
      {"freed_bytes", statistics.freed_bytes},
      {"followed", statistics.followed},
      {"left_out_targets", statistics.left_out_targets},
      {"table_looks", statistics.table_looks},
      {"table_kernels", statistics.table_kernels},
      {"oom_reports", statistics.out_of_memory},
      {"unknown_launches", counted(Counter::kUnknownLaunches)},
      {"captured_operations", counted(Counter::kCapturedOperations)},
      {"other_contexts", counted(Counter::kOtherContexts)},
      {"unknown_functions", counted(Counter::kUnknownFunctions)},
      {"unsearched_uploads", counted(Counter::kUnsearchedUploads)},
      {"unseen_collectives", counted(Counter::kUnseenCollectives)},
      {"refused_shares", counted(Counter::kRefusedShares)},
      {"objects_past_us", counted(Counter::kObjectsPastUs)},
  };
  std::string line;
  for (const Field& field : fields) {
    if (!line.empty()) line += ' ';
    line += field.name;
    line += '=';
    line += std::to_string(field.value);
  }
  return line;
}

}  // namespace thermocline
