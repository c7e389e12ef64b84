// SPDX-License-Identifier: Apache-2.0
// The packed form of a trace: `thermocline-trace-blocks/1`, the same content as `thermocline-trace/1` in a fraction of
// the bytes.
//
// One line that names the format; then blocks with checksums (telemetry/packed.h), each a zstd frame (RFC 8878) that
// states its size. In a block: events, each a kind, a mask of the fields that are present, and these fields. Integers
// are zigzag-encoded in groups of seven bits, ids as the difference from the one before, floating-point figures as 8
// bytes; a text is written once and then referred to by number. The first event is the header, the last one marks the
// end.
//
// A file that is truncated or damaged is read up to the last whole block before the damage.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "trace/event_fields.h"

namespace thermocline {

inline constexpr std::string_view kEventBlocksHeader = "thermocline-trace-blocks/1\n";
inline constexpr std::uint64_t kEventBlock = 0x314b'4c42'4d52'4854;  // "THRMBLK1"

class EventBlockWriter {
 public:
  // Appends to `out`, one block at a time.
  explicit EventBlockWriter(std::string* out);
  void header(std::string_view json);
  // False if the format has no such kind of event.
  bool event(const EventFields& fields);
  void finish();

 private:
  void number(std::uint64_t value);
  void text(const std::string& text);
  void ids(const std::vector<std::int64_t>& ids);
  void texts(const std::vector<std::string>& all);
  void flush();

  std::string* out_;
  std::string contents_;
  std::unordered_map<std::string, std::uint64_t> texts_;
};

class EventBlockReader {
 public:
  // `file` begins with kEventBlocksHeader and must outlive the reader.
  explicit EventBlockReader(std::string_view file) : rest_(file.substr(kEventBlocksHeader.size())) {}

  // Must be the first call. False: there is no readable header.
  bool header(std::string* json);
  // False at the end of the readable part.
  bool next(EventFields* out);
  // Whether the end mark was reached; otherwise the file is truncated or damaged.
  bool is_whole() const { return whole_; }

 private:
  bool next_block();
  bool number(std::uint64_t* value);
  bool text(std::string* out);
  bool ids(std::vector<std::int64_t>* out);
  bool texts(std::vector<std::string>* out);
  bool fields(std::uint64_t mask, EventFields* out);

  std::string_view rest_, contents_;
  std::string block_;
  std::vector<std::string> texts_;
  bool whole_ = false, failed_ = false;
};

}  // namespace thermocline
