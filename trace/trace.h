// SPDX-License-Identifier: Apache-2.0
// A recorded program in memory: the events of a `thermocline-trace/1` file, in program order, with dense indices in
// place of the file's ids, stream numbers and operator names.
//
// Invariants (validate() checks them): a buffer is allocated once, before it is used, and freed at most once, after its
// last use; steps are disjoint, in order, end at their marks, and have operators.
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
#include "trace/choices.h"
#include "trace/slices.h"

namespace thermocline {

enum class EventKind : std::uint8_t { kAllocate, kFree, kOperator };

// `index` is an index into `buffers` or `operators`.
struct TraceEvent {
  EventKind kind;
  std::uint32_t stream;  // index into `streams`
  std::uint32_t index;
};

struct TraceBuffer {
  std::uint64_t id;  // as in the file
  Bytes bytes;
  std::uint32_t tag = 0;  // index into `tags`
  // Set for a piece of a buffer of the file, if operators were split (trace/split.h). Pieces have their buffer's id.
  bool continues = false;  // it lies after the previous buffer, and both are pieces of one
};

struct TraceOperator {
  std::uint32_t name;  // index into `names`
  std::uint32_t first_operand;
  std::uint32_t reads;   // operands [first, first + reads) are read;
  std::uint32_t writes;  // the `writes` operands after them are written; one in both lists is updated in place
  double flops;          // a multiply-add counts as two
  double bytes;          // read from and written to device memory
  // measured; if set, it is used in place of flops and bytes
  double microseconds = std::numeric_limits<double>::quiet_NaN();
  static constexpr std::uint32_t kNoMark = ~std::uint32_t{0};
  std::uint32_t mark = kNoMark;  // index into `marks`: how it may be split
  // A part of an operator that was split: it computes these slices. slices == 0: all of them.
  std::uint32_t first_slice = 0, slices = 0;
  std::uint32_t part = 0, parts = 0;  // the number of the part, from 0, and the number of parts
  bool is_measured() const { return !std::isnan(microseconds); }
  // " part 2 of 4"; "" for a whole operator.
  std::string part_text() const {
    return parts == 0 ? "" : " part " + std::to_string(part + 1) + " of " + std::to_string(parts);
  }
};

// Events [begin, end).
struct StepSpan {
  std::size_t begin;
  std::size_t end;
};

struct Trace {
  std::string path;
  std::string header;  // the first line of the file
  std::vector<TraceEvent> events;
  std::vector<TraceBuffer> buffers;      // in order of allocation
  std::vector<TraceOperator> operators;  // in program order
  std::vector<std::uint32_t> operands;   // indices into `buffers`
  std::vector<std::string> names;
  std::vector<std::string> tags = {""};  // the program's names for buffers; most buffers have none
  std::vector<std::uint64_t> streams;    // the file's numbers; 0 is first
  std::vector<StepSpan> steps;           // a file without marks is one step; events after the last mark belong to none
  std::vector<SliceMark> marks;          // of operators that may be split
  std::vector<TraceChoice> choices;      // the events above are those of the chosen alternatives
  Bytes peak_live_bytes = 0;
  bool has_marks = false;
  bool is_single_device = true;

  std::span<const std::uint32_t> reads(const TraceOperator& o) const {
    return {operands.data() + o.first_operand, o.reads};
  }
  std::span<const std::uint32_t> writes(const TraceOperator& o) const {
    return {operands.data() + o.first_operand + o.reads, o.writes};
  }

  // The operator's name for display: "mm", "mm part 2 of 4".
  std::string title_of(const TraceOperator& o) const { return names[o.name] + o.part_text(); }

  void validate() const;

 private:
  void validate_slices(const TraceOperator& op) const;
};

// Rates from which an operator's duration on a device is computed.
struct DeviceRates {
  double flops_per_second;
  double memory_bytes_per_second;
  double link_to_device_bytes_per_second;
  double link_to_host_bytes_per_second;
  double launch_seconds;
};

inline double seconds_of(const TraceOperator& o, const DeviceRates& rates) {
  // A measured duration includes the launch overhead.
  if (o.is_measured()) return o.microseconds * 1e-6;
  return std::max(o.flops / rates.flops_per_second, o.bytes / rates.memory_bytes_per_second) + rates.launch_seconds;
}

}  // namespace thermocline
