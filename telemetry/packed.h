// SPDX-License-Identifier: Apache-2.0
// Encoding of numbers and blocks in recordings and packed traces. A number is in groups of seven bits, the lowest first
// (LEB128 of the DWARF specification). A block is a head (magic, size of the contents, checksum, each 8 bytes,
// little-endian) and its contents. So after a kill or a full disk, blocks that were written completely can be told from
// the rest.
//
// Nothing here does I/O or trusts its input.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace thermocline {

inline constexpr std::size_t kLongestNumber = 10;
// `at` must have room for the longest encoding. Returns the position after the last byte written.
inline char* put_number(std::uint64_t value, char* at) {
  for (; value >= 0x80; value >>= 7) *at++ = static_cast<char>(value | 0x80);
  *at++ = static_cast<char>(value);
  return at;
}
void append_number(std::uint64_t value, std::string* out);
// Removes a number from the front; false if there is no valid one.
bool take_number(std::string_view* from, std::uint64_t* value);

// Maps integers of small magnitude, also negative ones, to small numbers (zigzag).
constexpr std::uint64_t folded(std::int64_t value) {
  return static_cast<std::uint64_t>(value) << 1 ^ static_cast<std::uint64_t>(value >> 63);
}
constexpr std::int64_t unfolded(std::uint64_t value) {
  return static_cast<std::int64_t>(value >> 1) ^ -static_cast<std::int64_t>(value & 1);
}

void append_word(std::uint64_t word, std::string* out);
bool take_word(std::string_view* from, std::uint64_t* word);

void append_block(std::uint64_t magic, std::string_view contents, std::string* out);
// False if no complete, undamaged block with this magic begins there.
bool take_block(std::uint64_t magic, std::string_view* from, std::string_view* contents);

}  // namespace thermocline
