// SPDX-License-Identifier: Apache-2.0
// Numbers that generated code passes to the helpers for textures and surfaces.
#pragma once

#include <cstdint>

namespace simulator::ptx {

enum class Geometry : std::uint32_t { k1d, k2d, k3d, k1dLayered, k2dLayered, kCube, kCubeLayered };

inline constexpr std::uint32_t kGeometryMask = 7;
// For fetches.
inline constexpr std::uint32_t kIntegerCoordinates = 8;
inline constexpr std::uint32_t kFloatResult = 16;
inline constexpr std::uint32_t kGathers = 32;
inline constexpr std::uint32_t kGatheredChannel = 64;  // times the channel's number
// For surfaces; bits 8 to 12 are the number of bytes. An access outside is a fault if neither of these is set.
inline constexpr std::uint32_t kClampsOutside = 8;
inline constexpr std::uint32_t kZeroOutside = 16;
inline constexpr std::uint32_t kWritesSurface = 32;

enum class TextureQuery : std::uint32_t { kWidth, kHeight, kDepth, kNormalizedCoordinates };

}  // namespace simulator::ptx
