// SPDX-License-Identifier: Apache-2.0
// Numbers and blocks as recordings and packed traces hold them. A number is in groups of seven bits, the lowest first
// (LEB128 of the DWARF specification). A block is a head (magic, bytes of contents, checksum, each 8 bytes,
// little-endian) and its contents, so that what a kill or a full disk leaves is known from what was written whole.
//
// Nothing here does I/O or trusts what it reads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace thermocline {

inline constexpr std::size_t kLongestNumber = 10;
// Where as many bytes have room; behind its last one.
inline char* put_number(std::uint64_t value, char* at) {
  for (; value >= 0x80; value >>= 7) *at++ = static_cast<char>(value | 0x80);
  *at++ = static_cast<char>(value);
  return at;
}
void append_number(std::uint64_t value, std::string* out);
// Takes it off the front; false where there is none.
bool take_number(std::string_view* from, std::uint64_t* value);

// Small negative numbers are small, too.
constexpr std::uint64_t folded(std::int64_t value) {
  return static_cast<std::uint64_t>(value) << 1 ^ static_cast<std::uint64_t>(value >> 63);
}
constexpr std::int64_t unfolded(std::uint64_t value) {
  return static_cast<std::int64_t>(value >> 1) ^ -static_cast<std::int64_t>(value & 1);
}

void append_word(std::uint64_t word, std::string* out);
bool take_word(std::string_view* from, std::uint64_t* word);

void append_block(std::uint64_t magic, std::string_view contents, std::string* out);
// False where no whole and undamaged block of this magic begins.
bool take_block(std::uint64_t magic, std::string_view* from, std::string_view* contents);

}  // namespace thermocline
