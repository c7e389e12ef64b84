// SPDX-License-Identifier: Apache-2.0
// splitmix64 (Steele, Lea, Flood 2014): small, seedable, the same everywhere.
#pragma once

#include <cstdint>

namespace thermocline::fuzz_engine {

class Random {
 public:
  // Mixed, so that the numbers of one seed are not those of the next one, shifted by one.
  explicit Random(std::uint64_t seed) : state_(mix(seed * 0xd1342543de82ef95u + 1)) {}

  std::uint64_t next() { return mix(state_ += 0x9e3779b97f4a7c15u); }
  std::uint64_t below(std::uint64_t bound) { return next() % bound; }
  // In [low, high].
  std::uint64_t between(std::uint64_t low, std::uint64_t high) { return low + below(high - low + 1); }
  bool one_in(std::uint64_t n) { return below(n) == 0; }

 private:
  static std::uint64_t mix(std::uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
  }

  std::uint64_t state_;
};

}  // namespace thermocline::fuzz_engine
