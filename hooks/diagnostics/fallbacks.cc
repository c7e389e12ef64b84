// SPDX-License-Identifier: Apache-2.0
#include "hooks/diagnostics/fallbacks.h"

#include <cstddef>
#include <set>

#include "driver/locks.h"
#include "driver/quantity.h"
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
  statistics->cut_graphs = counted(Counter::kCutGraphs);
  statistics->graph_segments = counted(Counter::kGraphSegments);
  statistics->uncut_graphs = counted(Counter::kUncutGraphs);
}

std::string fallbacks_text(const EngineStatistics& statistics) {
  struct Line {
    std::uint64_t number;
    const char *one, *many;  // as in quantity()
    const char* rest;
  };
  const Line lines[] = {
      {statistics.unknown_launches, "launch", "launches",
       " whose parameters could not be read, so that everything was accessed"},
      {statistics.other_contexts, "allocation", "", " in another context, left to the driver"},
      {statistics.untracked_uploads, "copy of a graph", "copies of graphs",
       " not searched for addresses: what was copied is read when it matters"},
      {statistics.unread_tables, "operation", "", " with more tables in host memory than are searched for addresses"},
      {statistics.uncut_graphs, "launch of a graph", "launches of graphs",
       " beyond the budget, which could not be done in parts"},
      {statistics.unseen_collectives, "kernel", "", " of NCCL whose call was not seen, or not to its end"},
      {statistics.refused_shares, "request", "",
       " to share memory with other processes, refused: set shareable = true"},
      {statistics.missing_mechanisms, "mechanism", "",
       " of the driver that failed a probe and can not be used: 'thermocline doctor --gpu' says which"},
      {statistics.unmappable_devices, "device", "",
       " without virtual memory management, where memory is cached and held to the budget and nothing is evicted"},
      {statistics.unfetched_targets, "buffer", "",
       " that stored addresses lead to, used at copies on the host for lack of room"},
      {statistics.over_budget_operations, "operation", "", " let in beyond the budget, too large for it"},
      {statistics.unmapped_evictions, "eviction", "", " without a host mapping although there is a host fallback"},
      {statistics.unseen_accesses, "eviction unit", "", " written to without being seen"},
  };
  std::string text;
  for (const Line& line : lines) {
    if (line.number == 0) continue;
    text += (text.empty() ? "fallbacks: " : "; ") + quantity(line.number, line.one, line.many) + line.rest;
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
