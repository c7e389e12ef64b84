// SPDX-License-Identifier: Apache-2.0
// One event of a trace file with its fields, independent of the file's form: passed from readers of files to sinks.
// Nothing has been checked except that each field has its type.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace thermocline {

struct EventFields {
  std::string kind;  // "e": alloc, free, op, step, choice
  std::string name;  // "k"
  std::string tag;
  std::string alternative;                // "a": of the choice `choice`; the event happens only where it is taken
  std::vector<std::string> alternatives;  // "of": all of a choice
  std::optional<std::int64_t> buffer, bytes, stream, device, thread, index, choice, slices;
  std::optional<double> flops, traffic, microseconds;
  std::vector<std::int64_t> reads, writes;
  std::vector<std::int64_t> split;  // operands that consist of `slices` equal slices (trace/slices.h)

  void clear() {
    kind.clear();
    name.clear();
    tag.clear();
    alternative.clear();
    alternatives.clear();
    buffer = bytes = stream = device = thread = index = choice = slices = std::nullopt;
    flops = traffic = microseconds = std::nullopt;
    reads.clear();
    writes.clear();
    split.clear();
  }
  bool operator==(const EventFields&) const = default;
};

// Each function returns "" or the reason why the event is rejected.
class EventSink {
 public:
  virtual ~EventSink() = default;
  // Called once, before any event; the header is one JSON object on one line.
  virtual std::string header(std::string_view json) = 0;
  // `line` counts from 1, which is the header, in every form of file.
  virtual std::string event(const EventFields& fields, std::size_t line) = 0;
};

}  // namespace thermocline
