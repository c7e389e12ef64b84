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
  all.evicted_bytes += earlier.evicted_bytes;
  all.restored_bytes += earlier.restored_bytes;
  all.allocations += earlier.allocations;
  all.frees += earlier.frees;
  all.operations += earlier.operations;
  all.evictions += earlier.evictions;
  all.restores += earlier.restores;
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
  return all;
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
      {"prefetches", statistics.prefetches},
      {"wasted_prefetches", statistics.wasted_prefetches},
      {"write_behinds", statistics.write_behinds},
      {"plans", statistics.plans},
      {"divergences", statistics.divergences},
      {"creates", statistics.creates},
      {"maps", statistics.maps},
      {"unmaps", statistics.unmaps},
      {"host_waits", statistics.host_waits},
      {"oom_reports", statistics.out_of_memory},
      {"unknown_launches", counted(Counter::kUnknownLaunches)},
      {"captured_operations", counted(Counter::kCapturedOperations)},
      {"other_contexts", counted(Counter::kOtherContexts)},
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
