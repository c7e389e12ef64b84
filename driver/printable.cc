// SPDX-License-Identifier: Apache-2.0
// RFC 3629 for UTF-8; ECMA-48 for terminal control characters, in 7 and 8 bits; UAX #9 for bidirectional controls.
#include "driver/printable.h"

#include <cstdint>

namespace thermocline {
namespace {

struct Character {
  std::uint32_t code = 0;
  std::size_t bytes = 0;  // std::size_t bytes = 0; // 0: not valid UTF-8
};

Character first_of(std::string_view text) {
  const auto byte = [text](std::size_t at) { return static_cast<std::uint32_t>(static_cast<unsigned char>(text[at])); };
  const std::uint32_t lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  const std::size_t bytes = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || text.size() < bytes) return {};
  std::uint32_t code = lead & (0xFFu >> (bytes + 1));
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return {};
    code = code << 6 | (byte(i) & 0x3F);
  }
  constexpr std::uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  if (code < kLeast[bytes] || code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF)) return {};
  return {code, bytes};
}

bool may_be_shown(std::uint32_t code) {
  if (code < 0x20 || (code >= 0x7F && code <= 0x9F)) return false;
  // Bidirectional controls, zero-width characters, and line and paragraph separators.
  if ((code >= 0x200B && code <= 0x200F) || (code >= 0x2028 && code <= 0x202E)) return false;
  return !(code >= 0x2060 && code <= 0x206F) && code != 0xFEFF && code != 0x061C;
}

std::string shown(std::string_view text, std::size_t most_bytes, bool lines) {
  std::string out;
  while (!text.empty()) {
    const Character next = first_of(text);
    const std::size_t taken = next.bytes == 0 ? 1 : next.bytes;
    const bool as_it_is = next.bytes != 0 && (may_be_shown(next.code) || (lines && next.code == '\n'));
    const std::string_view part = as_it_is ? text.substr(0, taken) : "?";
    if (part.size() > most_bytes - out.size()) break;
    out += part;
    text.remove_prefix(taken);
  }
  return out;
}

}  // namespace

std::string printable(std::string_view text, std::size_t most_bytes) { return shown(text, most_bytes, false); }

std::string printable_lines(std::string_view text) { return shown(text, std::string::npos, true); }

}  // namespace thermocline
