// SPDX-License-Identifier: Apache-2.0
// The memory operations of a program, as the preloaded library records them and the tool reads them: format
// `thermocline-record/2`.
//
// A file is one line that names the format, followed by blocks (packed.h), each of which contains whole events. A
// program that is killed leaves a file of whole blocks and possibly a partial one, which the checksum reveals. A reader
// can not skip kinds of events that it does not know, so the first line has the format's version. The library writes
// events uncompressed; the tool compresses them later (docs/recording.md).
//
// If the size is limited there are two files, an older and a newer part. A part that is not the first begins with kPart
// and then the state at its beginning: names, tags, durations, and live buffers (kHeld). For a reader that has read the
// part before, these events change nothing; for a reader of this part alone they are the initial state.
//
// Nothing here does I/O. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "offload/access.h"
#include "telemetry/packed.h"

namespace thermocline {

inline constexpr std::string_view kAnyRecording = "thermocline-record/";
inline constexpr std::string_view kRecordingHeader = "thermocline-record/2\n";

inline constexpr std::uint64_t kRecordingBlock = 0x3252'4245'4d52'4854;  // "THRMEBR2"
// Appended to the recording's name for the file with the older part.
inline constexpr std::string_view kOlderPart = ".older";

enum class RecordedKind : std::uint8_t {
  kName = 1,
  kAllocate,
  kFree,
  kOperate,
  kDuration,
  kStep,
  kThread,  // the events that follow are of this thread
  kTag,     // the text of a tag
  kTagged,  // the following allocations have this tag; 0: none
  kPart,
  kHeld  // as kAllocate, for a buffer that was allocated before this part
};

// One event; only the members that belong to its kind are set.
struct RecordedEvent {
  RecordedKind kind = RecordedKind::kStep;
  std::uint64_t name = 0;              // of kName, which defines its text, and kOperate
  std::uint64_t tag = 0;               // of kTag, which defines its text, kTagged and kHeld
  std::uint64_t thread = 0;            // kThread: 0, 1, ... in order of their first calls
  std::string_view text;               // kName, kTag; valid as long as the file is in memory
  std::uint64_t address = 0;           // kAllocate, kFree, kHeld
  Bytes bytes = 0;                     // kAllocate, kHeld
  std::uint64_t stream = 0;            // kAllocate, kFree, kOperate, kHeld: a handle
  std::uint64_t token = 0;             // kOperate, kDuration: equal for operations that take equally long
  std::uint64_t nanoseconds = 0;       // kDuration: the shortest seen so far
  std::vector<MemoryAccess> accesses;  // kOperate
};

class RecordingWriter {
 public:
  void name(std::uint64_t id, std::string_view text);
  void allocate(std::uint64_t address, Bytes bytes, std::uint64_t stream);
  void free(std::uint64_t address, std::uint64_t stream);
  void operate(std::uint64_t name, std::uint64_t stream, std::uint64_t token, std::span<const MemoryAccess> accesses);
  void duration(std::uint64_t token, std::uint64_t nanoseconds);
  void step();
  void thread(std::uint64_t number);
  void tag(std::uint64_t id, std::string_view text);
  void tagged(std::uint64_t id);
  void part();
  void held(std::uint64_t address, Bytes bytes, std::uint64_t stream, std::uint64_t tag);

  std::size_t bytes() const { return contents_.size(); }
  // Returns all events since the last call, as a block.
  std::string take_block();

 private:
  void begin(RecordedKind kind) { contents_.push_back(static_cast<char>(kind)); }
  void number(std::uint64_t value) { append_number(value, &contents_); }

  std::string contents_;
};

class RecordingReader {
 public:
  // `file` without its first line; must outlive the reader.
  explicit RecordingReader(std::string_view file) : rest_(file) {}

  // False at the end of the readable part.
  bool next(RecordedEvent* event);
  // True if the file ends in the middle of a block, or with a damaged one. Everything before that has been read.
  bool is_cut() const { return cut_; }

 private:
  bool number(std::uint64_t* value) { return take_number(&contents_, value); }
  bool text(RecordedEvent* event, std::uint64_t* id);
  bool accesses(RecordedEvent* event);
  bool fields(RecordedEvent* event);

  std::string_view rest_, contents_;
  bool cut_ = false;
};

}  // namespace thermocline
