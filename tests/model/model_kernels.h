// SPDX-License-Identifier: Apache-2.0
// The kernel of the random programs, and the model of what it does. It touches a fixed sample of each buffer's words
// (first and last included), so that a program of megabytes costs microseconds and still every page matters.
#pragma once

#include <cstdint>

namespace model {

inline constexpr unsigned kSamples = 64;

// The finaliser of splitmix64 (Steele, Lea, Flood 2014).
inline std::uint64_t mix(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// Index of the i-th sampled word of a buffer; small buffers give the same word for several i.
inline std::uint64_t sample_at(std::uint64_t words, unsigned i) { return (words - 1) * i / (kSamples - 1); }

inline std::uint64_t combined(std::uint64_t out, std::uint64_t a, std::uint64_t b, std::uint64_t salt, unsigned i) {
  return mix(out ^ mix(a + salt) ^ (mix(b ^ salt) + i));
}

// What the kernel does, on samples. `a` and `b` may be the same buffer as `out`: all is read before anything is
// written.
inline void combine_samples(std::uint64_t* out, std::uint64_t out_words, const std::uint64_t* a, const std::uint64_t* b,
                            std::uint64_t salt) {
  std::uint64_t result[kSamples];
  for (unsigned i = 0; i < kSamples; ++i) result[i] = combined(out[i], a[i], b[kSamples - 1 - i], salt, i);
  // Where samples coincide the last one wins, as in the kernel's loop.
  for (unsigned i = 0; i < kSamples; ++i) {
    for (unsigned j = i; j < kSamples && sample_at(out_words, j) == sample_at(out_words, i); ++j) out[i] = result[j];
  }
}

// What model_combine_by_table is given in memory: out, a and b, each with its words.
inline constexpr unsigned kTableWords = 6;

// The kernels' bodies are host functions (simulated_model_combine ...). The PTX declares the parameters.
inline constexpr char kImage[] = R"(.version 8.0
.target sm_70
.address_size 64
.visible .entry model_combine(
  .param .u64 out, .param .u64 out_words,
  .param .u64 a, .param .u64 a_words,
  .param .u64 b, .param .u64 b_words,
  .param .u64 salt
)
{
  ret;
}
.visible .entry model_combine_by_table(.param .u64 table, .param .u64 salt)
{
  ret;
}
)";

}  // namespace model
