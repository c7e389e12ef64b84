// SPDX-License-Identifier: Apache-2.0
#include "tool/pickle.h"

#include <limits>
#include <utility>

namespace thermocline {

void Pickle::little_endian(std::uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) out_ += static_cast<char>(value >> (8 * i));
}

void Pickle::string(std::string_view text) {
  const auto next = static_cast<std::uint32_t>(known_.size());
  const auto [known, is_new] = known_.emplace(text, next);
  if (is_new) {
    out_ += 'X';
    little_endian(text.size(), 4);
    out_ += text;
  }
  // The memo's index takes one byte for the first 256 entries.
  const bool is_short = known->second <= 0xFF;
  out_ += is_new ? (is_short ? 'q' : 'r') : (is_short ? 'h' : 'j');
  little_endian(known->second, is_short ? 1 : 4);
}

void Pickle::integer(std::int64_t value) {
  if (value >= 0 && value <= 0xFF) {
    out_ += 'K';
    little_endian(static_cast<std::uint64_t>(value), 1);
  } else if (value >= std::numeric_limits<std::int32_t>::min() && value <= std::numeric_limits<std::int32_t>::max()) {
    out_ += 'J';
    little_endian(static_cast<std::uint64_t>(value), 4);
  } else {
    out_ += "\x8a\x08";
    little_endian(static_cast<std::uint64_t>(value), 8);
  }
}

std::string Pickle::take() { return std::exchange(out_, std::string()); }

}  // namespace thermocline
