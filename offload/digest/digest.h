// SPDX-License-Identifier: Apache-2.0
// Digests: 128 bits computed from the contents of memory. Our kernel (digest_code.h) and the host compute the same.
//
// The function. Memory is taken as units of 16 bytes, the last one filled up with zeros. Each unit goes through a
// permutation of 128 bits that depends on the unit's number, and the digest is the sum of the results, as two sums
// modulo 2^64. So no unit waits for another, and any grouping into threads and blocks gives the same digest.
//
// When two contents of the same length have the same digest though they differ:
//   one unit differs: never, for a permutation maps different units to different results;
//   several differ: only if their differences add up to zero in both sums. Five rounds of odd multiplication and
//   folding leave no correlation except in inputs made for it, so the sum is taken as uniform: 2^-128 a comparison.
//   A billion comparisons a second for the age of the universe (4e17 s) come to 1e-12. The test of truncated digests
//   (DigestTest.StructuredChangesCollideNoMoreThanChance) looks for structure that would break this.
// It is no defense against contents made to collide, because the constants are known. Only the program itself can make
// such contents, and it could only spoil its own memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "driver/units.h"

namespace thermocline {

struct Digest {
  std::uint64_t low = 0, high = 0;

  Digest& operator+=(const Digest& other) {
    low += other.low;
    high += other.high;
    return *this;
  }
  friend bool operator==(const Digest&, const Digest&) = default;
};

inline constexpr Bytes kDigestUnit = 16;

// By the host.
Digest digest_of(std::span<const std::byte> memory);

}  // namespace thermocline
