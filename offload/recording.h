// SPDX-License-Identifier: Apache-2.0
// What a program did with memory, as the preloaded library writes it down and the tool reads it:
// `thermocline-record/1`.
//
// A file is one line that names the format, and then blocks: a head (magic, bytes of contents, checksum, each 8 bytes,
// little-endian), and the contents, which are whole events. A program that is killed leaves a file of whole blocks, and
// perhaps a piece of one more, which its checksum tells. Numbers within events are in groups of seven bits, the lowest
// first (LEB128 of the DWARF specification); kinds that a reader does not know can not be skipped, so the format has
// its number in its first line.
//
// Nothing here does I/O. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "offload/engine.h"

namespace thermocline {

inline constexpr std::string_view kRecordingHeader = "thermocline-record/1\n";

enum class RecordedKind : std::uint8_t { kName = 1, kAllocate, kFree, kOperate, kDuration, kStep };

// One event; only the members that its kind has count.
struct RecordedEvent {
  RecordedKind kind = RecordedKind::kStep;
  std::uint64_t name = 0;         // kName gives it a text; kOperate has one
  std::string_view text;          // kName; valid until the next block
  std::uint64_t address = 0;      // kAllocate, kFree
  Bytes bytes = 0;                // kAllocate
  std::uint64_t stream = 0;       // kAllocate, kFree, kOperate: a handle
  std::uint64_t token = 0;        // kOperate, kDuration: equal for operations that take equally long
  std::uint64_t nanoseconds = 0;  // kDuration: the shortest seen so far
  std::vector<Touch> touches;     // kOperate
};

class RecordingWriter {
 public:
  void name(std::uint64_t id, std::string_view text);
  void allocate(std::uint64_t address, Bytes bytes, std::uint64_t stream);
  void free(std::uint64_t address, std::uint64_t stream);
  void operate(std::uint64_t name, std::uint64_t stream, std::uint64_t token, std::span<const Touch> touches);
  void duration(std::uint64_t token, std::uint64_t nanoseconds);
  void step();

  std::size_t bytes() const { return contents_.size(); }
  // All events since the last one, as a block.
  std::string take_block();

 private:
  void begin(RecordedKind kind);
  void number(std::uint64_t value);

  std::string contents_;
};

class RecordingReader {
 public:
  // `file` without its first line; must outlive the reader.
  explicit RecordingReader(std::string_view file) : rest_(file) {}

  // False at the end of what can be read.
  bool next(RecordedEvent* event);
  // The file ends within a block, or in one that was damaged: what was before it has been read.
  bool is_cut() const { return cut_; }

 private:
  bool next_block();
  bool number(std::uint64_t* value);
  bool touches(RecordedEvent* event);
  bool fields(RecordedEvent* event);

  std::string_view rest_, contents_;
  bool cut_ = false;
};

}  // namespace thermocline
