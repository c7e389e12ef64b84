// SPDX-License-Identifier: Apache-2.0
// Input: an arbitrary file as a trace. It must be refused with a reason, or satisfy the invariants of traces and be
// unchanged by a conversion to the packed form and back. The first byte says what the rest is: a file, or the contents
// of a block of a recording or of a packed trace, because no mutation would pass the checksum.
#include <zstd.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "driver/check.h"
#include "telemetry/packed.h"
#include "telemetry/recording.h"
#include "tests/fuzz/memory_file.h"
#include "trace/event_blocks.h"
#include "trace/read.h"

namespace thermocline::fuzz {
namespace {

class Kept : public EventSink {
 public:
  std::string header(std::string_view json) override {
    header_ = json;
    return "";
  }
  std::string event(const EventFields& fields, std::size_t /*line*/) override {
    events_.push_back(fields);
    return "";
  }
  const std::string& header_text() const { return header_; }
  const std::vector<EventFields>& events() const { return events_; }

 private:
  std::string header_;
  std::vector<EventFields> events_;
};

std::string zstd_frame(std::string_view contents) {
  std::string frame(ZSTD_compressBound(contents.size()), '\0');
  frame.resize(ZSTD_compress(frame.data(), frame.size(), contents.data(), contents.size(), 1));
  return frame;
}

std::string file_of(std::string_view input) {
  const char form = input.empty() ? '\0' : input.front();
  const std::string_view rest = input.substr(input.empty() ? 0 : 1);
  std::string file;
  if (form == '1') {
    file = kRecordingHeader;
    append_block(kRecordingBlock, rest, &file);
  } else if (form == '2') {
    file = kEventBlocksHeader;
    append_block(kEventBlock, zstd_frame(rest), &file);
  } else {
    file = input;
  }
  return file;
}

void check_packed(const Kept& kept) {
  std::string file;
  EventBlockWriter writer(&file);
  writer.header(kept.header_text());
  for (const EventFields& event : kept.events()) {
    THERMOCLINE_CHECK(writer.event(event), "what was read can be packed");
  }
  writer.finish();
  EventBlockReader reader(file);
  std::string header;
  THERMOCLINE_CHECK(reader.header(&header) && header == kept.header_text(), "the header comes back");
  std::size_t count = 0;
  for (EventFields event; reader.next(&event); ++count) {
    THERMOCLINE_CHECK(count < kept.events().size() && event == kept.events()[count], "each event comes back");
  }
  THERMOCLINE_CHECK(reader.is_whole() && count == kept.events().size(), "all events come back");
}

// Every alternative of each choice is taken once.
void check_alternatives(const std::string& path) {
  TraceFamily family;
  TraceError error;
  THERMOCLINE_CHECK(family.read(path, &error), "what was read is read again");
  for (std::uint32_t a = 0; family.has_choices() && a < ChoiceChecker::kMostAlternatives; ++a) {
    ChoiceSelection selection;
    for (const TraceChoice& choice : family.recorded().choices) {
      selection.push_back(a % static_cast<std::uint32_t>(choice.alternatives.size()));
    }
    Trace trace;
    if (family.take(selection, &trace, &error)) trace.validate();
  }
}

void read(std::string_view input) {
  const MemoryFile file(file_of(input));
  Trace trace;
  TraceError error;
  std::vector<std::string> warnings;
  if (!read_trace(file.path(), &trace, &error, &warnings)) {
    THERMOCLINE_CHECK(!error.reason.empty(), "who refuses says why");
    THERMOCLINE_CHECK(error.text().find('\n') == std::string::npos, "in one line");
    return;
  }
  trace.validate();
  Kept kept;
  THERMOCLINE_CHECK(read_events(file.path(), &kept, &error, nullptr), "what was read is read again");
  check_packed(kept);
  check_alternatives(file.path());
}

}  // namespace
}  // namespace thermocline::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  thermocline::fuzz::read({reinterpret_cast<const char*>(data), size});
  return 0;
}
