// SPDX-License-Identifier: Apache-2.0
// What a tensor map (CUtensorMap) of the simulated device holds. CUDA's is opaque, and so is this one: nothing in its
// 128 bytes is an address as it stands, and only what encode() has made is taken for one.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "simulator/core/types.h"

namespace simulator {

inline constexpr std::size_t kTensorMapBytes = 128;
inline constexpr std::uint32_t kMostTensorDimensions = 5;

struct TensorMap {
  Address address = 0;
  std::uint8_t rank = 0;
  std::uint8_t element_bytes = 0;
  std::uint32_t rest = 0;  // stands for all that the simulated device does not act upon
  std::array<std::uint64_t, kMostTensorDimensions> extents{};
  std::array<std::uint64_t, kMostTensorDimensions> strides{};  // in bytes; the first is an element
  std::array<std::uint32_t, kMostTensorDimensions> box{};
};

void encode(const TensorMap& map, void* to);
// False: these 128 bytes are no tensor map.
bool decode(const void* from, TensorMap* out);

}  // namespace simulator
