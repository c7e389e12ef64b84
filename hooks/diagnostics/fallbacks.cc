// SPDX-License-Identifier: Apache-2.0
#include "hooks/diagnostics/fallbacks.h"

#include <cstddef>
#include <set>

#include "driver/locks.h"
#include "hooks/interpose/lock_levels.h"
#include "hooks/interpose/process_lifetime.h"
#include "hooks/runtime/counters.h"
#include "hooks/runtime/runtime.h"

namespace thermocline {
namespace {

constexpr std::size_t kMostNamed = 16;

struct Names {
  Mutex mutex{"names of functions", lock_level::kLeaf};
  std::set<std::string, std::less<>> all THERMOCLINE_GUARDED_BY(mutex);
};
Names& names() { return process_lifetime<Names>(); }

}  // namespace

void add_fallbacks(EngineStatistics* statistics) {
  statistics->unknown_launches = counted(Counter::kUnknownLaunches);
  statistics->captured_operations = counted(Counter::kCapturedOperations);
  statistics->other_contexts = counted(Counter::kOtherContexts);
  statistics->unknown_functions = counted(Counter::kUnknownFunctions);
  statistics->untracked_uploads = counted(Counter::kUntrackedUploads);
  statistics->unread_tables = counted(Counter::kUnreadTables);
  statistics->unseen_collectives = counted(Counter::kUnseenCollectives);
  statistics->refused_shares = counted(Counter::kRefusedShares);
  statistics->missing_mechanisms = counted(Counter::kMissingMechanisms);
  statistics->unmappable_devices = counted(Counter::kUnmappableDevices);
}

std::string fallbacks_text(const EngineStatistics& statistics) {
  struct Line {
    std::uint64_t number;
    const char* what;
  };
  const Line lines[] = {
      {statistics.unknown_launches, "launches whose parameters could not be read, so that everything was accessed"},
      {statistics.other_contexts, "allocations in another context, left to the driver"},
      {statistics.untracked_uploads,
       "copies of graphs that were not searched for addresses: what they brought is read when it matters"},
      {statistics.unread_tables, "operations with more tables in host memory than are searched for addresses"},
      {statistics.unseen_collectives, "kernels of NCCL whose call was not seen, or not to its end"},
      {statistics.refused_shares, "requests to share memory with other processes, refused: set shareable = true"},
      {statistics.missing_mechanisms,
       "mechanisms of the driver that failed their probe and are not used: 'thermocline doctor --gpu' names them"},
      {statistics.unmappable_devices,
       "devices without virtual memory management, where memory is cached and held to the budget and nothing is "
       "evicted"},
      {statistics.unfetched_targets,
       "buffers that stored addresses lead to, used at their copies on the host for lack of room"},
      {statistics.over_budget_operations, "operations let in beyond the budget, which were too large for it"},
      {statistics.unmapped_evictions, "evictions without a host mapping although there is a host fallback"},
      {statistics.unseen_accesses, "eviction units that were written to without being seen"},
  };
  std::string text;
  for (const Line& line : lines) {
    if (line.number == 0) continue;
    text += (text.empty() ? "fallbacks: " : "; ") + std::to_string(line.number) + ' ' + line.what;
  }
  return text;
}

void count_unknown_function(std::string_view name) {
  const MutexLock lock(names().mutex);
  if (names().all.emplace(name).second) count(Counter::kUnknownFunctions);
}

std::string unknown_functions() {
  const MutexLock lock(names().mutex);
  std::string text;
  std::size_t named = 0;
  for (const std::string& name : names().all) {
    if (named == kMostNamed) return text + " and " + std::to_string(names().all.size() - named) + " more";
    text += (named++ == 0 ? "" : ", ") + name;
  }
  return text;
}

}  // namespace thermocline
