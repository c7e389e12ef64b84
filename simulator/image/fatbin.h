// SPDX-License-Identifier: Apache-2.0
// Fat binaries: a container of device images for several architectures, and nvcc's wrapper around it. Source:
// fatbinary_section.h (wrapper); the container as written by nvcc 13.0, in all modes of compression.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "simulator/image/bytes.h"
#include "simulator/image/image.h"

namespace simulator {

inline constexpr std::uint32_t kFatbinWrapperMagic = 0x466243b1;
inline constexpr std::uint32_t kFatbinMagic = 0xba55ed50;

// The container to which a wrapper points; nullptr if its version is unknown.
const void* unwrap_fatbin(const void* wrapper);

// Containers of the files that were linked to make the one that `wrapper` points to, as nvcc -rdc=true does; else none.
std::vector<const void*> linked_fatbins(const void* wrapper);

// Size of the container according to its header.
std::optional<std::uint64_t> fatbin_bytes(const void* data);

// Reads the best entry of the container that can be read; see image.h.
ImageResult read_fatbin(ByteSpan data, Image* out);

// The text of its first PTX; nothing if it has none that can be read.
std::optional<std::string> text_of_fatbin(ByteSpan data);

// Adds the PTX that `cubin` was made from.
void take_text(Image text, Image* cubin);

}  // namespace simulator
