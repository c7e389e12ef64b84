// SPDX-License-Identifier: Apache-2.0
#include "config/size.h"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <limits>

#include "driver/page_size.h"

namespace thermocline {
namespace {

constexpr std::uint64_t kMillion = 1'000'000;
constexpr std::uint64_t kWholeInMillionths = 100 * kMillion;  // 100 %, in millionths of a percent
constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 62;

struct Unit {
  const char* name;
  Bytes bytes;
};
// All units are powers of 1024: "24 GB" on a graphics card means 24 GiB, and so does 12G for Docker, systemd and Slurm.
constexpr Unit kUnits[] = {{"b", 1}, {"k", kKiB}, {"m", kMiB}, {"g", kGiB}, {"t", kTiB}};

struct Misspelling {
  const char* name;
  const char* meant;
};
constexpr Misspelling kMisspellings[] = {{"byte", "B"}, {"bytes", "B"}, {"percent", "%"}, {"gig", "GiB"}};

// "g" for "g", "gb", "gi" and "gib"; "b" for "b".
std::string letter_of(const std::string& unit) {
  for (const char* const rest : {"ib", "i", "b"}) {
    if (unit.size() > 1 && unit.substr(1) == rest) return unit.substr(0, 1);
  }
  return unit;
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front()))) text.remove_prefix(1);
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back()))) text.remove_suffix(1);
  return text;
}

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// A decimal number as two integers: whole part, and fraction in units of 10^-digits, at most six digits.
struct Decimal {
  std::uint64_t whole = 0;
  std::uint64_t fraction = 0;
  std::uint64_t scale = 1;
  bool too_large = false;
  bool too_fine = false;
};

// Removes a number from the front of `text`; false when there is none.
bool take_decimal(std::string_view* text, Decimal* out) {
  std::size_t i = 0;
  for (; i < text->size() && is_digit((*text)[i]); ++i) {
    const auto digit = static_cast<std::uint64_t>((*text)[i] - '0');
    if (out->whole > (std::numeric_limits<std::uint64_t>::max() - digit) / 10) out->too_large = true;
    out->whole = out->whole * 10 + digit;
  }
  if (i == 0) return false;
  if (i + 1 < text->size() && (*text)[i] == '.' && is_digit((*text)[i + 1])) {
    for (++i; i < text->size() && is_digit((*text)[i]); ++i) {
      if (out->scale == kMillion) {
        out->too_fine = true;
        continue;
      }
      out->fraction = out->fraction * 10 + static_cast<std::uint64_t>((*text)[i] - '0');
      out->scale *= 10;
    }
  }
  text->remove_prefix(i);
  return true;
}

std::optional<SizeSetting> failed(ParseError* error, std::string message, std::string suggestion = "") {
  *error = {std::move(message), std::move(suggestion)};
  return std::nullopt;
}

std::optional<SizeSetting> percentage(std::string_view text, const Decimal& number, const SizeRules& rules,
                                      ParseError* error) {
  const std::string quoted = "'" + std::string(text) + "'";
  if (!rules.allow_percent)
    return failed(error, quoted + " is a percentage; a size in bytes, KiB, MiB or GiB is needed");
  if (number.too_fine) return failed(error, quoted + " has more than six decimals");
  const std::uint64_t most = rules.most_percent * kMillion;
  if (number.too_large || number.whole > rules.most_percent) {
    return failed(error, quoted + " is more than " + std::to_string(rules.most_percent) + "%");
  }
  const std::uint64_t millionths = number.whole * kMillion + number.fraction * (kMillion / number.scale);
  if (millionths > most) return failed(error, quoted + " is more than " + std::to_string(rules.most_percent) + "%");
  if (millionths == 0 && !rules.allow_zero) return failed(error, quoted + " is nothing at all; it must be above zero");
  return SizeSetting::of_percent_millionths(millionths);
}

// Suggests "60%" for "0.6", "1.5GiB" for "1.5". Empty if the unit is given: nobody means another one by "1.5B".
std::string meant_by_fraction(std::string_view text, const Decimal& number, const SizeRules& rules) {
  if (!is_digit(trimmed(text).back())) return "";
  if (number.whole > 0 || !rules.allow_percent) return std::string(trimmed(text)) + "GiB";
  return SizeSetting::of_percent_millionths(number.fraction * (kWholeInMillionths / number.scale)).text();
}

std::optional<SizeSetting> byte_count(std::string_view text, const Decimal& number, Bytes unit, const SizeRules& rules,
                                      ParseError* error) {
  const std::string quoted = "'" + std::string(text) + "'";
  if (!rules.allow_bytes) return failed(error, quoted + " is a size; a percentage is needed (60%)");
  if (number.too_large || number.whole > kMostBytes / unit) return failed(error, quoted + " is too large");
  if (number.too_fine) return failed(error, quoted + " has more than six decimals");
  if (unit == 1 && number.fraction != 0) {
    return failed(error, quoted + " has a fraction of a byte", meant_by_fraction(text, number, rules));
  }
  const Bytes fraction = number.fraction * unit / number.scale;  // no overflow: at most 10^6 * 2^40
  const Bytes bytes = number.whole * unit + fraction;
  if (bytes == 0 && !rules.allow_zero) return failed(error, quoted + " is nothing at all; it must be above zero");
  return SizeSetting::of_bytes(bytes);
}

std::string examples(const SizeRules& rules) {
  if (!rules.allow_percent) return "12GiB";
  if (rules.allow_shared) return "12GiB, 512MiB, 60%, shared";
  return rules.allow_bytes ? "12GiB, 512MiB, 60%" : "60%";
}

}  // namespace

Bytes SizeSetting::resolve(Bytes whole) const {
  if (kind_ == Kind::kBytes) return value_;
  if (kind_ == Kind::kUnset || kind_ == Kind::kShared) return 0;
  __extension__ using Wide = unsigned __int128;
  return static_cast<Bytes>(static_cast<Wide>(whole) * value_ / kWholeInMillionths);
}

unsigned SizeSetting::percent() const { return static_cast<unsigned>((value_ + kMillion / 2) / kMillion); }

std::string SizeSetting::text() const {
  if (kind_ == Kind::kUnset) return "";
  if (kind_ == Kind::kShared) return "shared";
  if (kind_ == Kind::kPercent) {
    std::string out = std::to_string(value_ / kMillion);
    if (std::uint64_t rest = value_ % kMillion; rest != 0) {
      std::string digits = std::to_string(kMillion + rest).substr(1);
      while (digits.back() == '0') digits.pop_back();
      out += "." + digits;
    }
    return out + "%";
  }
  for (const auto& [suffix, unit] : {Unit{"TiB", kTiB}, Unit{"GiB", kGiB}, Unit{"MiB", kMiB}, Unit{"KiB", kKiB}}) {
    if (value_ != 0 && value_ % unit == 0) return std::to_string(value_ / unit) + suffix;
  }
  return std::to_string(value_);
}

std::optional<SizeSetting> parse_size(std::string_view given, const SizeRules& rules, ParseError* error) {
  const std::string_view text = trimmed(given);
  const std::string quoted = "'" + std::string(given) + "'";
  if (text.empty()) return failed(error, "the value is empty; write for example " + examples(rules));
  if (text.front() == '-') return failed(error, quoted + " is negative");
  if (rules.allow_shared && text == "shared") return SizeSetting::shared();
  std::string_view rest = text;
  Decimal number;
  if (!take_decimal(&rest, &number)) {
    return failed(error, quoted + " does not begin with a number; write for example " + examples(rules));
  }
  const std::string_view digits = text.substr(0, text.size() - rest.size());
  const std::string unit = lower(trimmed(rest));
  if (unit == "%") return percentage(text, number, rules, error);
  if (unit.empty()) return byte_count(text, number, 1, rules, error);
  if (unit == "%device" && rules.allow_percent)
    return failed(error, quoted + " says of what it is, which a percentage here does not", std::string(digits) + "%");
  if (unit == "%peak") {
    return failed(error, quoted +
                             " is of a recorded program's peak, which only the --budget of commands that read a trace "
                             "knows; write for example " +
                             examples(rules));
  }
  for (const Unit& known : kUnits) {
    if (letter_of(unit) == known.name && (known.bytes > 1 || unit == "b"))
      return byte_count(text, number, known.bytes, rules, error);
  }
  for (const Misspelling& known : kMisspellings) {
    if (unit != known.name) continue;
    return failed(
        error,
        quoted + " has the unknown unit '" + std::string(trimmed(rest)) + "'; units are B, KiB, MiB, GiB, TiB and %",
        std::string(digits) + known.meant);
  }
  return failed(error, quoted + " has the unknown unit '" + std::string(trimmed(rest)) +
                           "'; units are B, KiB, MiB, GiB, TiB and %");
}

ParseError doubt_about_size(std::string_view given) {
  const std::string_view text = trimmed(given);
  ParseError error;
  if (text.empty() || !std::ranges::all_of(text, is_digit)) return {};
  const std::optional<SizeSetting> size = parse_size(text, {}, &error);
  if (!size || size->resolve(0) >= kDefaultPageBytes) return {};
  return {std::string(text) + " is a number of bytes, and less than a page (2MiB)", std::string(text) + "GiB"};
}

std::string human_bytes(Bytes bytes) {
  char out[32];
  if (bytes >= kTiB) {
    std::snprintf(out, sizeof out, "%.2f TiB", static_cast<double>(bytes) / static_cast<double>(kTiB));
  } else if (bytes >= kGiB) {
    std::snprintf(out, sizeof out, "%.2f GiB", static_cast<double>(bytes) / static_cast<double>(kGiB));
  } else if (bytes >= kMiB) {
    std::snprintf(out, sizeof out, "%.1f MiB", static_cast<double>(bytes) / static_cast<double>(kMiB));
  } else {
    std::snprintf(out, sizeof out, "%llu bytes", static_cast<unsigned long long>(bytes));
  }
  return out;
}

}  // namespace thermocline
