// SPDX-License-Identifier: Apache-2.0
// A trace's events out of a file and into one. Three forms are read, told by how the file begins: JSON Lines
// (`thermocline-trace/1`, plain or gzip-compressed), packed blocks (event_blocks.h), and a recording as the library
// leaves it (recording.h). The first two are written.
//
// JSON Lines that end early are rejected; the other two are made to be read up to where they end, with a warning.
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

// Gives all events to the sink, or says why not all. `warnings` may be null.
bool read_events(const std::string& path, EventSink* sink, TraceError* error, std::vector<std::string>* warnings);

enum class TraceForm : std::uint8_t { kLines, kGzipLines, kBlocks };

// By the name: *.jsonl, *.json and "-" are lines, *.gz is gzip-compressed lines, all others are blocks.
TraceForm form_of(const std::string& path);

// Writes beside the file and takes its place at the end; what is no plain file is written as it comes, "-" to stdout.
class EventFile : public EventSink {
 public:
  // Null: `reason` says why.
  static std::unique_ptr<EventFile> open(const std::string& path, std::string* reason);
  // Unfinished, it leaves nothing behind.
  ~EventFile() override;
  EventFile(const EventFile&) = delete;
  EventFile& operator=(const EventFile&) = delete;

  // What is half written: "" where there is no such file.
  static std::string partial_path(const std::string& path);

  std::string header(std::string_view json) override;
  std::string event(const EventFields& fields, std::size_t line) override;
  // "" or the reason; then what was there before still is.
  std::string finish();
  // Whether it was the writing that went wrong.
  bool failed() const { return failed_; }

 private:
  EventFile(std::string path, std::string beside, std::FILE* file);
  std::string pass_on(std::size_t at_least);

  std::string path_, beside_;  // `beside_` empty: path_ itself is written
  std::FILE* file_;
  gzFile_s* gzip_ = nullptr;
  std::string pending_;  // what goes to the file next
  std::unique_ptr<EventBlockWriter> blocks_;
  bool failed_ = false;
};

}  // namespace thermocline
