// SPDX-License-Identifier: Apache-2.0
#include "simulator/core/memory/tensor_map.h"

#include <bit>
#include <cstring>

#include "simulator/core/hash.h"

namespace simulator {
namespace {

constexpr std::size_t kWords = kTensorMapBytes / sizeof(std::uint64_t);
constexpr std::size_t kCheck = kWords - 1;
using Words = std::array<std::uint64_t, kWords>;

// Applies a different bijection to each word, so that no word of the map is an address.
std::uint64_t hide(std::uint64_t word, std::size_t place) { return std::rotl(word ^ mix(place + 1), 7); }
std::uint64_t show(std::uint64_t word, std::size_t place) { return std::rotr(word, 7) ^ mix(place + 1); }

std::uint64_t check_of(const Words& words) {
  return hash_bytes(words.data(), kCheck * sizeof words[0], kTensorMapBytes);
}

}  // namespace

void encode(const TensorMap& map, void* to) {
  Words words{map.address, map.rank | std::uint64_t{map.element_bytes} << 8 | std::uint64_t{map.rest} << 32};
  for (std::size_t i = 0; i < kMostTensorDimensions; ++i) words[2 + i] = map.extents[i];
  for (std::size_t i = 1; i < kMostTensorDimensions; ++i) words[6 + i] = map.strides[i];
  for (std::size_t i = 0; i < kMostTensorDimensions; ++i)
    words[11 + i / 2] |= std::uint64_t{map.box[i]} << 32 * (i % 2);
  words[kCheck] = check_of(words);
  for (std::size_t i = 0; i < kWords; ++i) words[i] = hide(words[i], i);
  std::memcpy(to, words.data(), kTensorMapBytes);
}

bool decode(const void* from, TensorMap* out) {
  Words words;
  std::memcpy(words.data(), from, kTensorMapBytes);
  for (std::size_t i = 0; i < kWords; ++i) words[i] = show(words[i], i);
  if (words[kCheck] != check_of(words)) return false;
  out->address = words[0];
  out->rank = static_cast<std::uint8_t>(words[1]);
  out->element_bytes = static_cast<std::uint8_t>(words[1] >> 8);
  out->rest = static_cast<std::uint32_t>(words[1] >> 32);
  for (std::size_t i = 0; i < kMostTensorDimensions; ++i) out->extents[i] = words[2 + i];
  out->strides[0] = out->element_bytes;
  for (std::size_t i = 1; i < kMostTensorDimensions; ++i) out->strides[i] = words[6 + i];
  for (std::size_t i = 0; i < kMostTensorDimensions; ++i)
    out->box[i] = static_cast<std::uint32_t>(words[11 + i / 2] >> 32 * (i % 2));
  return true;
}

}  // namespace simulator
