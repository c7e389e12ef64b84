// SPDX-License-Identifier: Apache-2.0
// Multiplicative hashing (Knuth, The Art of Computer Programming 3, 6.4), for tables whose keys are addresses, sizes and
// handles, for tokens of operations, and for check sums. Others: FNV-1a in a file format, MurmurHash3 of tensor maps.
#pragma once

#include <cstdint>

namespace thermocline {

// 2^64 over the golden ratio. It is odd, so a multiplication by it loses nothing.
inline constexpr std::uint64_t kHashFactor = 0x9E3779B97F4A7C15u;

// The upper `bits` bits of the product, from 1 to 64: these depend on all bits of the key.
constexpr std::uint64_t hash_bits(std::uint64_t key, unsigned bits) { return (key * kHashFactor) >> (64 - bits); }

// Appends a word to the hash of a sequence of words, in which the order counts. Multiply and fold, as FNV-1a (Fowler,
// Noll, Vo) does byte by byte: every step is invertible, so any change of a single word changes the result.
constexpr std::uint64_t folded_hash(std::uint64_t hash, std::uint64_t word) {
  hash = (hash ^ word) * kHashFactor;
  return hash ^ (hash >> 32);
}

// Joins two keys in this order.
constexpr std::uint64_t joined_hash(std::uint64_t first, std::uint64_t second) {
  return first ^ (second * kHashFactor);
}

}  // namespace thermocline
