// SPDX-License-Identifier: Apache-2.0
// The statistics of an engine by name: our own names, which stand for every number there is, and beside them the names
// under which PyTorch and TensorFlow show the same, as far as they have any:
//
//   PyTorch     torch.cuda.memory_stats(): allocated_bytes.all.current ...
//   TensorFlow  tsl::AllocatorStats (xla/tsl/framework/allocator.h): bytes_in_use ...
//
// Whatever shows statistics goes through these tables: the C interface, the page of a running process, the command.
#pragma once

#include <cstdint>
#include <span>

#include "offload/statistics.h"

namespace thermocline {

enum class StatisticKind : std::uint8_t { kCurrent, kPeak, kTotal };

struct Statistic {
  const char* name;
  StatisticKind kind;
  bool is_bytes;
  const char* help;
  std::uint64_t (*read)(const EngineStatistics&);
};

// Rows are only ever added, at the end: a row's place is its number on the page (live_page.h).
std::span<const Statistic> statistics_table();
const Statistic* find_statistic(const char* name);

struct StatisticAlias {
  const char* name;  // theirs
  const char* ours;
};

std::span<const StatisticAlias> pytorch_names();
std::span<const StatisticAlias> tensorflow_names();

}  // namespace thermocline
