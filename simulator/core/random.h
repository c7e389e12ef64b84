// SPDX-License-Identifier: Apache-2.0
// The random generator of adversarial orders: SplitMix64, so that a seed means the same on every machine.
#pragma once

#include "simulator/core/hash.h"

namespace simulator {

class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(mix(seed ^ kGolden)) {}

  std::uint64_t next() { return mix(state_ += kGolden); }
  // In [0, bound); bound > 0. The bias of the remainder is below bound / 2^64.
  std::uint64_t below(std::uint64_t bound) { return next() % bound; }
  bool one_in(std::uint64_t n) { return below(n) == 0; }

 private:
  std::uint64_t state_;
};

}  // namespace simulator
