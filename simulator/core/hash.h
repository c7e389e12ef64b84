// SPDX-License-Identifier: Apache-2.0
// Hashes of contents and names. Properties: any changed bit of the input changes the result (every step is a bijection
// of the state), the order counts, and results are the same in every run and on every machine. Not cryptographic.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace simulator {

inline constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15;  // 2^64 / golden ratio, odd

// Finalizer of SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, OOPSLA 2014), a
// bijection.
constexpr std::uint64_t mix(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

// Appends `value` to the hash of a sequence.
constexpr std::uint64_t combine(std::uint64_t hash, std::uint64_t value) {
  return mix((std::rotl(hash, 23) ^ value) + kGolden);
}

// Hash of bytes, at several GB/s.
std::uint64_t hash_bytes(const void* data, std::size_t bytes, std::uint64_t seed);

inline std::uint64_t hash_text(std::string_view text) { return hash_bytes(text.data(), text.size(), text.size()); }

// Fills memory with contents that only `seed` determines.
void derive_bytes(void* data, std::size_t bytes, std::uint64_t seed);

}  // namespace simulator
