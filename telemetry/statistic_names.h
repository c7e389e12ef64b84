// SPDX-License-Identifier: Apache-2.0
// The statistics of an engine by name. The library's own names cover every statistic; PyTorch and TensorFlow have names
// for some of them:
//
//   PyTorch     torch.cuda.memory_stats(): allocated_bytes.all.current ...
//   TensorFlow  tsl::AllocatorStats (xla/tsl/framework/allocator.h): bytes_in_use ...
//
// All code that shows statistics uses these tables: the C interface, the live page of a running process, the command.
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

// Rows are only ever added at the end: a row's index is its position on the live page (live_page.h).
std::span<const Statistic> statistics_table();
const Statistic* find_statistic(const char* name);

struct StatisticAlias {
  const char* name;  // the framework's name
  const char* ours;
};

std::span<const StatisticAlias> pytorch_names();
std::span<const StatisticAlias> tensorflow_names();

}  // namespace thermocline
