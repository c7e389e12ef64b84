// SPDX-License-Identifier: Apache-2.0
// Size classes by which live buffers are counted in statistics.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

#include "driver/units.h"

namespace thermocline {

// The live buffers of one class, by requested size: up to 4 KiB, 64 KiB, 1 MiB, 16 MiB, 256 MiB, and above.
struct SizeClass {
  static constexpr unsigned kCount = 6;
  // requested must be > 0.
  static constexpr unsigned of(Bytes requested) { return kOfWidth[std::bit_width(requested - 1)]; }
  static constexpr std::array<std::uint8_t, 65> kOfWidth = [] {
    std::array<std::uint8_t, 65> all{};
    for (unsigned width = 13; width <= 64; ++width) {
      all[width] = static_cast<std::uint8_t>(std::min((width - 9) / 4, kCount - 1));
    }
    return all;
  }();
  // The largest size of the class; the last class has no bound.
  static constexpr Bytes largest(unsigned size_class) { return 4 * kKiB << 4 * size_class; }

  Bytes live_bytes = 0;
  std::uint64_t buffers = 0;
};

}  // namespace thermocline
