// SPDX-License-Identifier: Apache-2.0
// Fat binaries: a container of device images for several architectures, and nvcc's wrapper around it.
// Source: fatbinary_section.h (wrapper); the container as nvcc 13.0 was seen to write it, all modes of compression.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "simulator/image/bytes.h"
#include "simulator/image/image.h"

namespace simulator {

inline constexpr std::uint32_t kFatbinWrapperMagic = 0x466243b1;
inline constexpr std::uint32_t kFatbinMagic = 0xba55ed50;

// The container that a wrapper points at; nullptr where it is none of the versions that are known.
const void* unwrap_fatbin(const void* wrapper);

// Length of the container as its header says it.
std::optional<std::uint64_t> fatbin_bytes(const void* data);

// One entry of the container, where there is one that can be read; see image.h for which.
ImageResult read_fatbin(ByteSpan data, Image* out);

}  // namespace simulator
