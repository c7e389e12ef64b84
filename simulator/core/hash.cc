// SPDX-License-Identifier: Apache-2.0
#include "simulator/core/hash.h"

#include <cstring>

namespace simulator {
namespace {

constexpr std::size_t kLanes = 8;  // independent chains, so that multiplications overlap
constexpr std::uint64_t kLaneFactor = 0xd6e8feb86659fd93;

std::uint64_t load(const std::byte* from) {
  std::uint64_t word = 0;
  std::memcpy(&word, from, sizeof word);
  return word;
}

// The rotation moves high bits down: without it, two flipped sign bits in one lane would cancel.
std::uint64_t absorb(std::uint64_t lane, std::uint64_t word) { return std::rotl((lane ^ word) * kLaneFactor, 29); }

std::uint64_t derived_word(std::uint64_t position) {
  const std::uint64_t x = (position ^ (position >> 32)) * kLaneFactor;
  return x ^ (x >> 32);
}

}  // namespace

std::uint64_t hash_bytes(const void* data, std::size_t bytes, std::uint64_t seed) {
  const auto* at = static_cast<const std::byte*>(data);
  std::uint64_t lanes[kLanes];
  for (std::size_t i = 0; i < kLanes; ++i) lanes[i] = mix(seed + i * kGolden);
  std::size_t left = bytes;
  for (; left >= sizeof lanes; left -= sizeof lanes, at += sizeof lanes) {
    for (std::size_t i = 0; i < kLanes; ++i) lanes[i] = absorb(lanes[i], load(at + i * 8));
  }
  std::uint64_t hash = combine(seed, bytes);
  for (; left >= 8; left -= 8, at += 8) hash = combine(hash, load(at));
  if (left > 0) {
    std::uint64_t word = 0;
    std::memcpy(&word, at, left);
    hash = combine(hash, word);
  }
  for (const std::uint64_t lane : lanes) hash = combine(hash, lane);
  return hash;
}

// Four words at a time where the processor has AVX2.
#if defined(__x86_64__)
__attribute__((target_clones("avx2", "default")))
#endif
void derive_bytes(void* data, std::size_t bytes, std::uint64_t seed) {
  auto* at = static_cast<std::byte*>(data);
  std::uint64_t position = mix(seed);
  std::size_t left = bytes;
  for (; left >= 8; left -= 8, at += 8) {
    const std::uint64_t word = derived_word(position += kGolden);
    std::memcpy(at, &word, 8);
  }
  if (left > 0) {
    const std::uint64_t word = derived_word(position + kGolden);
    std::memcpy(at, &word, left);
  }
}

}  // namespace simulator
