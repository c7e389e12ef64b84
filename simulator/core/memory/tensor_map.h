// SPDX-License-Identifier: Apache-2.0
// The contents of a tensor map (CUtensorMap) of the simulated device. CUDA's is opaque, and so is this one: its 128
// bytes contain no readable address, and decode() accepts only what encode() has made.
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
  std::uint32_t rest = 0;  // represents all properties that the simulated device ignores
  std::array<std::uint64_t, kMostTensorDimensions> extents{};
  std::array<std::uint64_t, kMostTensorDimensions> strides{};  // in bytes; the first is an element
  std::array<std::uint32_t, kMostTensorDimensions> box{};
};

void encode(const TensorMap& map, void* to);
// False: these 128 bytes are no tensor map.
bool decode(const void* from, TensorMap* out);

}  // namespace simulator
