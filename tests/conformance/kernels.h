// SPDX-License-Identifier: Apache-2.0
// The kernels of the rules: PTX for all devices since compute capability 7.5. For a device that runs no code, the
// program exports host functions of the same names (simulated_...) that do the same.
#pragma once

#include <cstddef>
#include <cstdint>

namespace conformance {

// conformance_add(u64 at, u32 words, u32 value)        at[i] += value
// conformance_copy(u64 to, u64 from, u32 words)        to[i] = from[i]
// conformance_shape(u64 to)                            to[0..5] = grid and block, x y z each
// conformance_layout(u8 a, u64 to, u16 b, u32 c[3], u32 d)   to[0..5] = a, b, c[0], c[1], c[2], d
// conformance_nothing()                                has 256 bytes of shared memory
// conformance_words: u32[4] = {41, 42, 43, 44}
extern const char kKernels[];

// The offsets of conformance_layout's parameters: each is aligned to its own size (or element size).
struct PlaceOfParameter {
  std::size_t offset, bytes;
};
inline constexpr PlaceOfParameter kLayout[] = {{0, 1}, {8, 8}, {16, 2}, {20, 12}, {32, 4}};
inline constexpr std::size_t kLayoutBytes = 36;

inline constexpr std::uint32_t kWords[] = {41, 42, 43, 44};
inline constexpr int kStaticSharedBytes = 256;

}  // namespace conformance
