// SPDX-License-Identifier: Apache-2.0
// Reads a trace's events from a file, and writes them to one. Three forms are read, recognized by the beginning of the
// file: JSON Lines (`thermocline-trace/1`, plain or gzip-compressed), packed blocks (event_blocks.h), and a recording
// as the library writes it (recording.h). The first two are written.
//
// JSON Lines that end early are rejected. The other two forms are designed to be read up to the point where they end,
// with a warning.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "trace/event_blocks.h"
#include "trace/event_fields.h"

struct gzFile_s;  // zlib's  NOLINT(readability-identifier-naming)

namespace thermocline {

struct TraceError {
  std::string path;
  std::size_t line = 0;  // from 1; 0: the file as a whole
  std::string reason;

  // "step.jsonl.gz:12: buffer 7 is not alive"
  std::string text() const;
};

// Passes all events to the sink, or reports why it stopped. `warnings` may be null.
bool read_events(const std::string& path, EventSink* sink, TraceError* error, std::vector<std::string>* warnings);

enum class TraceForm : std::uint8_t { kLines, kGzipLines, kBlocks };

// The form according to the file's name: *.jsonl, *.json and "-" are lines, *.gz is gzip-compressed lines, else blocks.
TraceForm form_of(const std::string& path);

// Writes a temporary file beside the target and renames it at the end. A target that is not a regular file is written
// directly; "-" is stdout.
class EventFile : public EventSink {
 public:
  // Null: `reason` has the reason.
  static std::unique_ptr<EventFile> open(const std::string& path, std::string* reason);
  // If finish() was not called, nothing is left behind.
  ~EventFile() override;
  EventFile(const EventFile&) = delete;
  EventFile& operator=(const EventFile&) = delete;

  // The name of the temporary file; "" where there is none.
  static std::string partial_path(const std::string& path);

  std::string header(std::string_view json) override;
  std::string event(const EventFields& fields, std::size_t line) override;
  // Returns "" or the reason of failure; after a failure the former file is unchanged.
  std::string finish();
  // Whether writing failed, as opposed to an event that was rejected.
  bool failed() const { return failed_; }

 private:
  EventFile(std::string path, std::string beside, std::FILE* file);
  std::string pass_on(std::size_t at_least);

  std::string path_, beside_;  // temporary file; empty: path_ is written directly
  std::FILE* file_;
  gzFile_s* gzip_ = nullptr;
  std::string pending_;  // to be written next
  std::unique_ptr<EventBlockWriter> blocks_;
  bool failed_ = false;
};

}  // namespace thermocline
