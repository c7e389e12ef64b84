// SPDX-License-Identifier: Apache-2.0
// Sizes as users write them: a number of bytes with an optional unit (B, K, KB, KiB to T, TB, TiB; all are powers of
// 1024), or a percentage of a total that is known only later. Exact: decimals are parsed digit by digit, never as
// floating point.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "driver/units.h"

namespace thermocline {

class SizeSetting {
 public:
  // Unset; the code that resolves the setting decides what that means.
  constexpr SizeSetting() = default;
  static constexpr SizeSetting of_bytes(Bytes bytes) { return SizeSetting(Kind::kBytes, bytes); }
  // In millionths of a percent, so that 62.5 % is exact.
  static constexpr SizeSetting of_percent_millionths(std::uint64_t millionths) {
    return SizeSetting(Kind::kPercent, millionths);
  }
  // A part of a whole that is divided among the processes that use it; the part changes.
  static constexpr SizeSetting shared() { return SizeSetting(Kind::kShared, 0); }

  constexpr bool is_set() const { return kind_ != Kind::kUnset; }
  constexpr bool is_percent() const { return kind_ == Kind::kPercent; }
  constexpr bool is_shared() const { return kind_ == Kind::kShared; }

  // In bytes, a percentage being of `whole`, rounded down; 0 for an unset or shared size.
  Bytes resolve(Bytes whole) const;
  // In percent, rounded to the nearest whole number; only for a percentage.
  unsigned percent() const;
  // As in a settings file, without quotes; "" when unset.
  std::string text() const;

  friend constexpr bool operator==(const SizeSetting&, const SizeSetting&) = default;

 private:
  enum class Kind : std::uint8_t { kUnset, kBytes, kPercent, kShared };
  constexpr SizeSetting(Kind kind, std::uint64_t value) : kind_(kind), value_(value) {}

  Kind kind_ = Kind::kUnset;
  std::uint64_t value_ = 0;  // bytes, or millionths of a percent
};

struct SizeRules {
  bool allow_bytes = true;
  bool allow_percent = true;
  bool allow_zero = false;
  bool allow_shared = false;
  unsigned most_percent = 100;
};

struct ParseError {
  std::string message;     // the error, without file and line
  std::string suggestion;  // the likely meaning, or ""
};

// Returns nothing when `text` breaks the rules; then `error` has the reason.
std::optional<SizeSetting> parse_size(std::string_view text, const SizeRules& rules, ParseError* error);

// The warning about a size that is accepted but hardly intended: a number without a unit that is less than a page. The
// message is "" for every other text.
ParseError doubt_about_size(std::string_view text);

// For display: "60.0 MiB".
std::string human_bytes(Bytes bytes);

}  // namespace thermocline
