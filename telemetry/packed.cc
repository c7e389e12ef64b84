// SPDX-License-Identifier: Apache-2.0
#include "telemetry/packed.h"

#include <bit>
#include <cstring>

#include "driver/hash.h"

namespace thermocline {
namespace {

constexpr std::size_t kHeadBytes = 24;

static_assert(std::endian::native == std::endian::little, "words are read as they lie in the file");

std::uint64_t word_at(const char* at) {
  std::uint64_t word = 0;
  std::memcpy(&word, at, sizeof word);
  return word;
}

std::uint64_t checksum_of(std::string_view bytes) {
  std::uint64_t hash = 0xcbf29ce484222325u ^ bytes.size();
  std::size_t at = 0;
  for (; bytes.size() - at >= 8; at += 8) hash = folded_hash(hash, word_at(bytes.data() + at));
  std::uint64_t last = 0;
  std::memcpy(&last, bytes.data() + at, bytes.size() - at);
  return folded_hash(hash, last);
}

}  // namespace

void append_number(std::uint64_t value, std::string* out) {
  char bytes[kLongestNumber];
  out->append(bytes, put_number(value, bytes));
}

bool take_number(std::string_view* from, std::uint64_t* value) {
  *value = 0;
  for (int shift = 0; shift < 64 && !from->empty(); shift += 7) {
    const auto byte = static_cast<unsigned char>(from->front());
    from->remove_prefix(1);
    *value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
    if ((byte & 0x80) == 0) return true;
  }
  return false;
}

void append_word(std::uint64_t word, std::string* out) {
  out->append(reinterpret_cast<const char*>(&word), sizeof word);
}

bool take_word(std::string_view* from, std::uint64_t* word) {
  if (from->size() < sizeof *word) return false;
  *word = word_at(from->data());
  from->remove_prefix(sizeof *word);
  return true;
}

void append_block(std::uint64_t magic, std::string_view contents, std::string* out) {
  append_word(magic, out);
  append_word(contents.size(), out);
  append_word(checksum_of(contents), out);
  out->append(contents);
}

bool take_block(std::uint64_t magic, std::string_view* from, std::string_view* contents) {
  if (from->size() < kHeadBytes || word_at(from->data()) != magic) return false;
  const std::uint64_t bytes = word_at(from->data() + 8);
  if (bytes == 0 || bytes > from->size() - kHeadBytes) return false;
  const std::string_view found = from->substr(kHeadBytes, bytes);
  if (checksum_of(found) != word_at(from->data() + 16)) return false;
  *contents = found;
  from->remove_prefix(kHeadBytes + bytes);
  return true;
}

}  // namespace thermocline
