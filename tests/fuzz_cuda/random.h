// SPDX-License-Identifier: Apache-2.0
// splitmix64 (Steele, Lea, Flood 2014): small, seedable, the same everywhere.
#pragma once

#include <cstdint>

#include "tests/fuzz_cuda/kernels.h"

namespace model {

class Random {
 public:
  // Mixed, so that the numbers of one seed are not those of the next one, shifted by one.
  explicit Random(std::uint64_t seed) : state_(mix(seed * 0xd1342543de82ef95u + 1)) {}
  std::uint64_t next() { return mix(state_ += 0x9e3779b97f4a7c15u); }
  std::uint64_t below(std::uint64_t n) { return next() % n; }
  bool one_in(std::uint64_t n) { return below(n) == 0; }

 private:
  std::uint64_t state_;
};

}  // namespace model
