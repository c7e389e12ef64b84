// SPDX-License-Identifier: Apache-2.0
#include "telemetry/recording.h"

#include <utility>

namespace thermocline {

void RecordingWriter::name(std::uint64_t id, std::string_view text) {
  begin(RecordedKind::kName);
  number(id);
  number(text.size());
  contents_.append(text);
}

void RecordingWriter::allocate(std::uint64_t address, Bytes bytes, std::uint64_t stream) {
  begin(RecordedKind::kAllocate);
  number(address);
  number(bytes);
  number(stream);
}

void RecordingWriter::free(std::uint64_t address, std::uint64_t stream) {
  begin(RecordedKind::kFree);
  number(address);
  number(stream);
}

void RecordingWriter::operate(std::uint64_t name, std::uint64_t stream, std::uint64_t token,
                              std::span<const MemoryAccess> accesses) {
  // Accesses are most of a recording, so room for all of them is made once.
  const std::size_t before = contents_.size();
  contents_.resize(before + 1 + kLongestNumber * (4 + 3 * accesses.size()));
  char* at = contents_.data() + before;
  *at++ = static_cast<char>(RecordedKind::kOperate);
  for (const std::uint64_t value : {name, stream, token, std::uint64_t{accesses.size()}}) at = put_number(value, at);
  for (const MemoryAccess& memory_access : accesses) {
    at = put_number(memory_access.address.value, at);
    at = put_number(memory_access.bytes, at);
    at = put_number(static_cast<std::uint64_t>(memory_access.access), at);
  }
  contents_.resize(static_cast<std::size_t>(at - contents_.data()));
}

void RecordingWriter::duration(std::uint64_t token, std::uint64_t nanoseconds) {
  begin(RecordedKind::kDuration);
  number(token);
  number(nanoseconds);
}

void RecordingWriter::step() { begin(RecordedKind::kStep); }

void RecordingWriter::thread(std::uint64_t number_of_it) {
  begin(RecordedKind::kThread);
  number(number_of_it);
}

void RecordingWriter::tag(std::uint64_t id, std::string_view text) {
  begin(RecordedKind::kTag);
  number(id);
  number(text.size());
  contents_.append(text);
}

void RecordingWriter::tagged(std::uint64_t id) {
  begin(RecordedKind::kTagged);
  number(id);
}

void RecordingWriter::part() { begin(RecordedKind::kPart); }

void RecordingWriter::held(std::uint64_t address, Bytes bytes, std::uint64_t stream, std::uint64_t tag) {
  begin(RecordedKind::kHeld);
  number(address);
  number(bytes);
  number(stream);
  number(tag);
}

std::string RecordingWriter::take_block() {
  std::string block;
  append_block(kRecordingBlock, contents_, &block);
  contents_.clear();
  return block;
}

bool RecordingReader::next(RecordedEvent* event) {
  if (cut_) return false;
  if (contents_.empty()) {
    if (rest_.empty()) return false;
    cut_ = !take_block(kRecordingBlock, &rest_, &contents_);
    if (cut_) return false;
  }
  event->kind = static_cast<RecordedKind>(contents_.front());
  contents_.remove_prefix(1);
  cut_ = !fields(event);
  return !cut_;
}

bool RecordingReader::text(RecordedEvent* event, std::uint64_t* id) {
  std::uint64_t bytes = 0;
  if (!number(id) || !number(&bytes) || bytes > contents_.size()) return false;
  event->text = contents_.substr(0, bytes);
  contents_.remove_prefix(bytes);
  return true;
}

bool RecordingReader::accesses(RecordedEvent* event) {
  std::uint64_t count = 0;
  // Each access of an event takes at least three bytes.
  if (!number(&count) || count > contents_.size() / 3) return false;
  event->accesses.resize(count);
  for (MemoryAccess& memory_access : event->accesses) {
    std::uint64_t access = 0;
    if (!number(&memory_access.address.value) || !number(&memory_access.bytes) || !number(&access)) return false;
    if (access > static_cast<std::uint64_t>(Access::kWrite)) return false;
    memory_access.access = static_cast<Access>(access);
  }
  return true;
}

bool RecordingReader::fields(RecordedEvent* event) {
  switch (event->kind) {
    case RecordedKind::kName:
      return text(event, &event->name);
    case RecordedKind::kTag:
      return text(event, &event->tag);
    case RecordedKind::kThread:
      return number(&event->thread);
    case RecordedKind::kTagged:
      return number(&event->tag);
    case RecordedKind::kHeld:
      return number(&event->address) && number(&event->bytes) && number(&event->stream) && number(&event->tag);
    case RecordedKind::kAllocate:
      return number(&event->address) && number(&event->bytes) && number(&event->stream);
    case RecordedKind::kFree:
      return number(&event->address) && number(&event->stream);
    case RecordedKind::kOperate:
      return number(&event->name) && number(&event->stream) && number(&event->token) && accesses(event);
    case RecordedKind::kDuration:
      return number(&event->token) && number(&event->nanoseconds);
    case RecordedKind::kStep:
    case RecordedKind::kPart:
      return true;
  }
  return false;
}

}  // namespace thermocline
