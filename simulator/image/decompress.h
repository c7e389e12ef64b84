// SPDX-License-Identifier: Apache-2.0
// The two compression formats of fat binaries: a standard zstd frame, and a raw LZ4 block (nvcc -compress-mode=speed,
// and all older toolkits). Source of the latter: "LZ4 Block Format Description" of the lz4 project.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "simulator/image/bytes.h"

namespace simulator {

// A larger size means that the data is damaged: no device image is nearly that large.
inline constexpr std::uint64_t kLargestImage = std::uint64_t{1} << 31;

// Nothing unless the result has exactly `bytes` bytes.
std::optional<std::vector<std::byte>> decompress_zstd(ByteSpan data, std::uint64_t bytes);
std::optional<std::vector<std::byte>> decompress_lz4(ByteSpan data, std::uint64_t bytes);

}  // namespace simulator
