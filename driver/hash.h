// SPDX-License-Identifier: Apache-2.0
// Multiplicative hashing (Knuth, The Art of Computer Programming 3, 6.4), for tables whose keys are addresses, sizes and
// handles, and for tokens of operations. The one place of these constants in the library and its tools.
#pragma once

#include <cstdint>

namespace thermocline {

// 2^64 over the golden ratio. It is odd, so a multiplication by it loses nothing.
inline constexpr std::uint64_t kHashFactor = 0x9E3779B97F4A7C15u;

// So many bits of the product, from 1 to 64: the upper ones, which depend on all bits of the key.
constexpr std::uint64_t hash_bits(std::uint64_t key, unsigned bits) { return (key * kHashFactor) >> (64 - bits); }

// Joins two keys, of which the order counts.
constexpr std::uint64_t joined_hash(std::uint64_t first, std::uint64_t second) {
  return first ^ (second * kHashFactor);
}

}  // namespace thermocline
