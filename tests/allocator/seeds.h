// SPDX-License-Identifier: Apache-2.0
// How many seeds a random test tries: THERMOCLINE_TEST_SEEDS where it is set. THERMOCLINE_TEST_SEED, set, tries that
// one alone.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <vector>

namespace thermocline {

inline std::vector<std::uint64_t> test_seeds(std::uint64_t usual) {
  if (const char* one = std::getenv("THERMOCLINE_TEST_SEED"); one != nullptr) return {std::strtoull(one, nullptr, 10)};
  const char* many = std::getenv("THERMOCLINE_TEST_SEEDS");
  const std::uint64_t count = many != nullptr ? std::strtoull(many, nullptr, 10) : usual;
  std::vector<std::uint64_t> seeds;
  for (std::uint64_t seed = 1; seed <= count; ++seed) seeds.push_back(seed);
  return seeds;
}

}  // namespace thermocline
