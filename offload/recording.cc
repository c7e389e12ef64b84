// SPDX-License-Identifier: Apache-2.0
#include "offload/recording.h"

#include <utility>

namespace thermocline {
namespace {

constexpr std::uint64_t kMagic = 0x3152'4245'4d52'4854;  // "THRMEBR1"
constexpr std::size_t kHeadBytes = 24;

// 64-bit FNV-1a (Fowler, Noll, Vo): finds what a crash or a full disk does to a file.
std::uint64_t checksum_of(std::string_view bytes) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const char byte : bytes) hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001b3u;
  return hash;
}

void append_word(std::uint64_t word, std::string* out) {
  for (int shift = 0; shift < 64; shift += 8) out->push_back(static_cast<char>(word >> shift & 0xff));
}

std::uint64_t word_at(std::string_view bytes, std::size_t at) {
  std::uint64_t word = 0;
  for (std::size_t i = 8; i-- > 0;) word = word << 8 | static_cast<unsigned char>(bytes[at + i]);
  return word;
}

}  // namespace

void RecordingWriter::begin(RecordedKind kind) { contents_.push_back(static_cast<char>(kind)); }

void RecordingWriter::number(std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) contents_.push_back(static_cast<char>((value & 0x7f) | 0x80));
  contents_.push_back(static_cast<char>(value));
}

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
                              std::span<const Touch> touches) {
  begin(RecordedKind::kOperate);
  number(name);
  number(stream);
  number(token);
  number(touches.size());
  for (const Touch& touch : touches) {
    number(touch.address.value);
    number(touch.bytes);
    number(static_cast<std::uint64_t>(touch.access));
  }
}

void RecordingWriter::duration(std::uint64_t token, std::uint64_t nanoseconds) {
  begin(RecordedKind::kDuration);
  number(token);
  number(nanoseconds);
}

void RecordingWriter::step() { begin(RecordedKind::kStep); }

std::string RecordingWriter::take_block() {
  std::string block;
  append_word(kMagic, &block);
  append_word(contents_.size(), &block);
  append_word(checksum_of(contents_), &block);
  block += contents_;
  contents_.clear();
  return block;
}

bool RecordingReader::next_block() {
  if (rest_.empty()) return false;
  cut_ = true;
  if (rest_.size() < kHeadBytes || word_at(rest_, 0) != kMagic) return false;
  const std::uint64_t bytes = word_at(rest_, 8);
  if (bytes == 0 || bytes > rest_.size() - kHeadBytes) return false;
  const std::string_view contents = rest_.substr(kHeadBytes, bytes);
  if (checksum_of(contents) != word_at(rest_, 16)) return false;
  cut_ = false;
  contents_ = contents;
  rest_.remove_prefix(kHeadBytes + bytes);
  return true;
}

bool RecordingReader::next(RecordedEvent* event) {
  if (cut_ || (contents_.empty() && !next_block())) return false;
  event->kind = static_cast<RecordedKind>(contents_.front());
  contents_.remove_prefix(1);
  cut_ = !fields(event);
  return !cut_;
}

bool RecordingReader::number(std::uint64_t* value) {
  *value = 0;
  for (int shift = 0; shift < 64 && !contents_.empty(); shift += 7) {
    const auto byte = static_cast<unsigned char>(contents_.front());
    contents_.remove_prefix(1);
    *value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
    if ((byte & 0x80) == 0) return true;
  }
  return false;
}

bool RecordingReader::touches(RecordedEvent* event) {
  std::uint64_t count = 0;
  // An event's touches take three bytes each at least.
  if (!number(&count) || count > contents_.size() / 3) return false;
  event->touches.resize(count);
  for (Touch& touch : event->touches) {
    std::uint64_t access = 0;
    if (!number(&touch.address.value) || !number(&touch.bytes) || !number(&access)) return false;
    if (access > static_cast<std::uint64_t>(Access::kWrite)) return false;
    touch.access = static_cast<Access>(access);
  }
  return true;
}

bool RecordingReader::fields(RecordedEvent* event) {
  switch (event->kind) {
    case RecordedKind::kName: {
      std::uint64_t bytes = 0;
      if (!number(&event->name) || !number(&bytes) || bytes > contents_.size()) return false;
      event->text = contents_.substr(0, bytes);
      contents_.remove_prefix(bytes);
      return true;
    }
    case RecordedKind::kAllocate:
      return number(&event->address) && number(&event->bytes) && number(&event->stream);
    case RecordedKind::kFree:
      return number(&event->address) && number(&event->stream);
    case RecordedKind::kOperate:
      return number(&event->name) && number(&event->stream) && number(&event->token) && touches(event);
    case RecordedKind::kDuration:
      return number(&event->token) && number(&event->nanoseconds);
    case RecordedKind::kStep:
      return true;
  }
  return false;
}

}  // namespace thermocline
