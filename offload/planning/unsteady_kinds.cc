// SPDX-License-Identifier: Apache-2.0
#include "offload/planning/unsteady_kinds.h"

namespace thermocline {
namespace {

// A rolling polynomial hash modulo 2^64, of any odd base.
constexpr std::uint64_t kKindsBase = 0xd6e8feb86659fd93u;

consteval std::uint64_t power(std::size_t exponent) {
  std::uint64_t result = 1;
  while (exponent-- > 0) result *= kKindsBase;
  return result;
}

std::uint64_t term(std::uint64_t kind) {
  kind ^= kind >> 32;
  return kind * kHashFactor + 1;
}

}  // namespace

bool UnsteadyKinds::watch(std::span<const std::uint64_t> kinds, std::span<const std::uint64_t> tokens) {
  const std::size_t size = kinds.size();
  hash_ = hash_ * kKindsBase + term(kinds.back());
  if (++watched_ < kContext) return false;
  if (watched_ > kContext) hash_ -= term(kinds[size - 1 - kContext]) * power(kContext);
  const auto [found, is_new] = newest_.try_emplace(hash_, size);
  if (is_new) {
    distance_ = 0;
    return false;
  }
  const std::size_t distance = size - found->second;
  found->second = size;
  const auto same = [&](std::size_t back) { return tokens[size - back] == tokens[size - back - distance]; };
  if (distance == distance_) {
    equal_ += same(1);
    // One more operation before the context is known to be comparable, since its own context was compared.
    equal_ -= same(kContext + 1);
  } else {
    distance_ = distance;
    equal_ = 0;
    for (std::size_t back = 1; back <= kContext; ++back) equal_ += same(back);
  }
  if (equal_ < kLeastEqual || kinds[size - kContext / 2] == 0 || same(kContext / 2)) return false;
  // Adds all at once, because the caller goes over its history again for each answer.
  const std::size_t known = kinds_.size();
  for (std::size_t back = kContext / 4; back <= kContext; ++back) {
    if (kinds[size - back] != 0 && !same(back)) add(kinds[size - back]);
  }
  return kinds_.size() > known;
}

void UnsteadyKinds::restart() {
  watched_ = 0;
  hash_ = 0;
  newest_.clear();
  distance_ = 0;
  equal_ = 0;
}

}  // namespace thermocline
