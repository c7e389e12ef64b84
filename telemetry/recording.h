// SPDX-License-Identifier: Apache-2.0
// What a program did with memory, as the preloaded library writes it down and the tool reads it:
// `thermocline-record/2`.
//
// A file is one line that names the format, and then blocks (packed.h), whose contents are whole events. A program that
// is killed leaves a file of whole blocks, and perhaps a piece of one more, which its checksum tells. Kinds of events
// that a reader does not know can not be skipped, so the format has its number in its first line. The library writes
// them as they are: what compresses them is the tool, later, on nobody's time (docs/recording.md).
//
// With a limit there are two files, the older and the newer part. A part that is not the first one begins with kPart
// and then says what is so at its beginning: names, tags, durations, and the buffers that are alive (kHeld). Read
// behind the part before it, all of that changes nothing; read alone, it is what has to be known.
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
// Behind the recording's name, where the older part is.
inline constexpr std::string_view kOlderPart = ".older";

enum class RecordedKind : std::uint8_t {
  kName = 1,
  kAllocate,
  kFree,
  kOperate,
  kDuration,
  kStep,
  kThread,  // what follows is this thread's
  kTag,     // gives a tag a text
  kTagged,  // what is allocated from here on has this tag; 0: none
  kPart,
  kHeld  // as kAllocate, but of before
};

// One event; only the members that its kind has count.
struct RecordedEvent {
  RecordedKind kind = RecordedKind::kStep;
  std::uint64_t name = 0;              // kName gives it a text; kOperate has one
  std::uint64_t tag = 0;               // kTag gives it a text; kTagged, kHeld: has one
  std::uint64_t thread = 0;            // kThread: 0, 1, ... in order of their first calls
  std::string_view text;               // kName, kTag; valid as long as the file
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
  // All events since the last one, as a block.
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

  // False at the end of what can be read.
  bool next(RecordedEvent* event);
  // The file ends within a block, or in one that was damaged: what was before it has been read.
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
