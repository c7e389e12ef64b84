// SPDX-License-Identifier: Apache-2.0
// The effort of random tests. THERMOCLINE_TEST_SEEDS is a percentage of the usual number of seeds, with the same
// meaning in all tests: 100 if it is not set, less under sanitizers (CMakePresets.json), more for a long search.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <numeric>
#include <vector>

namespace thermocline {

inline std::uint64_t percent_of_seeds() {
  const char* const percent = std::getenv("THERMOCLINE_TEST_SEEDS");
  return percent != nullptr ? std::strtoull(percent, nullptr, 10) : 100;
}

// The percentage of the usual number of seeds, and at least one.
inline std::uint64_t scaled_seeds(std::uint64_t usual) {
  return std::max<std::uint64_t>(1, usual * percent_of_seeds() / 100);
}

// 1, 2, ..., or from THERMOCLINE_TEST_FIRST_SEED on; if THERMOCLINE_TEST_SEED is set, only that one.
inline std::vector<std::uint64_t> test_seeds(std::uint64_t usual) {
  if (const char* one = std::getenv("THERMOCLINE_TEST_SEED"); one != nullptr) return {std::strtoull(one, nullptr, 10)};
  std::vector<std::uint64_t> seeds(scaled_seeds(usual));
  const char* const first = std::getenv("THERMOCLINE_TEST_FIRST_SEED");
  std::iota(seeds.begin(), seeds.end(), first != nullptr ? std::strtoull(first, nullptr, 10) : 1);
  return seeds;
}

}  // namespace thermocline
