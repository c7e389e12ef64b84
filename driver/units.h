// SPDX-License-Identifier: Apache-2.0
// Units of the whole library. An address has its own type, so that it can not be mixed up with a size. A size is a
// 64-bit count of bytes; the alias only names the unit.
#pragma once

#include <compare>
#include <cstdint>

namespace thermocline {

using Bytes = std::uint64_t;

inline constexpr Bytes kKiB = Bytes{1} << 10;
inline constexpr Bytes kMiB = Bytes{1} << 20;
inline constexpr Bytes kGiB = Bytes{1} << 30;
inline constexpr Bytes kTiB = Bytes{1} << 40;

// A device address as programs see it (CUdeviceptr). 0: no address.
struct DeviceAddress {
  std::uint64_t value = 0;

  // NOLINTNEXTLINE(modernize-use-nullptr): clang-tidy sees a 0 in it
  friend constexpr auto operator<=>(DeviceAddress, DeviceAddress) = default;
  friend constexpr DeviceAddress operator+(DeviceAddress a, Bytes offset) { return {a.value + offset}; }
  friend constexpr DeviceAddress operator-(DeviceAddress a, Bytes offset) { return {a.value - offset}; }
  // Distance; the left address must not be below the right one.
  friend constexpr Bytes operator-(DeviceAddress a, DeviceAddress b) { return a.value - b.value; }
  constexpr explicit operator bool() const { return value != 0; }
};

constexpr Bytes round_up(Bytes n, Bytes unit) { return (n + unit - 1) / unit * unit; }
constexpr Bytes round_down(Bytes n, Bytes unit) { return n / unit * unit; }

}  // namespace thermocline
