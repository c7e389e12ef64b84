// SPDX-License-Identifier: Apache-2.0
// Sizes as reports of refused memory write them.
#pragma once

#include <algorithm>
#include <array>
#include <cinttypes>
#include <cstdio>
#include <string>
#include <utility>

#include "driver/units.h"

namespace thermocline {

inline std::string amount_in(Bytes bytes, Bytes unit) {
  std::array<char, 32> text;
  const double units = static_cast<double>(bytes) / static_cast<double>(unit);
  switch (unit) {
    case kTiB:
      std::snprintf(text.data(), text.size(), "%.2f TiB", units);
      break;
    case kGiB:
      std::snprintf(text.data(), text.size(), "%.2f GiB", units);
      break;
    case kMiB:
      std::snprintf(text.data(), text.size(), "%.1f MiB", units);
      break;
    case kKiB:
      std::snprintf(text.data(), text.size(), "%.1f KiB", units);
      break;
    default:
      std::snprintf(text.data(), text.size(), "%" PRIu64 " bytes", bytes);
  }
  return text.data();
}

inline constexpr Bytes kAmountUnits[] = {kTiB, kGiB, kMiB, kKiB, 1};

// "1.50 GiB"
inline std::string amount(Bytes bytes) {
  return amount_in(bytes,
                   *std::ranges::find_if(kAmountUnits, [bytes](Bytes unit) { return bytes >= unit || unit == 1; }));
}

// The texts of two different sizes, which must differ: in the largest unit that shows the difference.
inline std::pair<std::string, std::string> amounts(Bytes one, Bytes other) {
  std::pair<std::string, std::string> texts{amount(one), amount(other)};
  for (const Bytes unit : kAmountUnits) {
    if (one == other || texts.first != texts.second) break;
    if (unit < one) texts = {amount_in(one, unit), amount_in(other, unit)};
  }
  return texts;
}

// A size as settings are written, rounded up.
inline std::string setting(Bytes bytes) { return std::to_string((bytes + kMiB - 1) / kMiB) + "MiB"; }

}  // namespace thermocline
