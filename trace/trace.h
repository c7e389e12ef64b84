// SPDX-License-Identifier: Apache-2.0
// A recorded program in memory: the events of a `thermocline-trace/1` file, in program order, with dense numbers in
// place of the file's ids, stream numbers and operator names.
//
// What holds (validate() recomputes it): a buffer is allocated once, before it is used, and freed at most once, after
// its last use; steps are disjoint, in order, and end at their marks.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "driver/units.h"

namespace thermocline {

enum class EventKind : std::uint8_t { kAllocate, kFree, kOperator };

// `index` is of `buffers` or of `operators`.
struct TraceEvent {
  EventKind kind;
  std::uint32_t stream;  // index of `streams`
  std::uint32_t index;
};

struct TraceBuffer {
  std::uint64_t id;  // as in the file
  Bytes bytes;
  std::uint32_t tag = 0;  // index of `tags`
};

struct TraceOperator {
  std::uint32_t name;  // index of `names`
  std::uint32_t first_operand;
  std::uint32_t reads;   // operands [first, first + reads) are read,
  std::uint32_t writes;  // the `writes` behind them written; one in both lists is updated in place
  double flops;          // multiply-add counted as two
  double bytes;          // through device memory
  double microseconds = std::numeric_limits<double>::quiet_NaN();  // measured, and then it wins
  bool is_measured() const { return !std::isnan(microseconds); }
};

// Events [begin, end).
struct StepSpan {
  std::size_t begin;
  std::size_t end;
};

struct Trace {
  std::string path;
  std::string header;  // the first line
  std::vector<TraceEvent> events;
  std::vector<TraceBuffer> buffers;      // in order of allocation
  std::vector<TraceOperator> operators;  // in program order
  std::vector<std::uint32_t> operands;   // indices of `buffers`
  std::vector<std::string> names;
  std::vector<std::string> tags = {""};  // what the program calls buffers; most have none
  std::vector<std::uint64_t> streams;    // the file's numbers; 0 comes first
  std::vector<StepSpan> steps;           // a file without marks is one step; events behind the last mark belong to none
  Bytes peak_live_bytes = 0;
  bool has_marks = false;
  bool is_single_device = true;

  std::span<const std::uint32_t> reads(const TraceOperator& o) const {
    return {operands.data() + o.first_operand, o.reads};
  }
  std::span<const std::uint32_t> writes(const TraceOperator& o) const {
    return {operands.data() + o.first_operand + o.reads, o.writes};
  }

  void validate() const;
};

// What an operator takes on a device.
struct DeviceRates {
  double flops_per_second;
  double memory_bytes_per_second;
  double link_to_device_bytes_per_second;
  double link_to_host_bytes_per_second;
  double launch_seconds;
};

inline double seconds_of(const TraceOperator& o, const DeviceRates& rates) {
  // A measured duration includes its launch.
  if (o.is_measured()) return o.microseconds * 1e-6;
  return std::max(o.flops / rates.flops_per_second, o.bytes / rates.memory_bytes_per_second) + rates.launch_seconds;
}

}  // namespace thermocline
