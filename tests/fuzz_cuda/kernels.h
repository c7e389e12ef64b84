// SPDX-License-Identifier: Apache-2.0
// The kernels of the random programs. What a kernel does to memory is a function here, which the device runs on its
// memory and the model on its own. Most kernels access a fixed sample of each operand's words (first and last
// included), so that a program of megabytes costs microseconds and every page still matters; words that they do not
// access are compared too.
#pragma once

#include <cstdint>

namespace model {

inline constexpr unsigned kSamples = 64;

// The finalizer of splitmix64 (Steele, Lea, Flood 2014).
static inline std::uint64_t mix(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// Part of a buffer. Kernels get it as two words: the address and the count.
struct Words {
  std::uint64_t* at;
  std::uint64_t count;
  // For small operands several i give the same word.
  std::uint64_t& sample(unsigned i) const { return at[(count - 1) * i / (kSamples - 1)]; }
};

// The operands may overlap: everything is read before anything is written. If samples coincide, the last one wins.
static inline void combine(const Words& out, const Words& a, const Words& b, std::uint64_t salt) {
  std::uint64_t result[kSamples];
  for (unsigned i = 0; i < kSamples; ++i) {
    result[i] = mix(out.sample(i) ^ mix(a.sample(i) + salt) ^ (mix(b.sample(kSamples - 1 - i) ^ salt) + i));
  }
  for (unsigned i = 0; i < kSamples; ++i) out.sample(i) = result[i];
}

static inline void change_every_word(const Words& out, std::uint64_t salt) {
  for (std::uint64_t i = 0; i < out.count; ++i) out.at[i] = (out.at[i] ^ salt) * 0x9e3779b97f4a7c15u + i;
}

// The contents of a kernel's table: out, a and b, each with its count.
inline constexpr unsigned kTableWords = 6;
inline constexpr std::size_t kTableBytes = 4 * kTableWords * sizeof(std::uint64_t);  // size of a buffer for tables
// Tables to which a global variable of the module points: one for each thread of the host.
inline constexpr unsigned kRoots = 64;
inline std::uint64_t* roots = nullptr;  // that variable's address; found by the program, read by the kernel's body

// The kernels' bodies are host functions (simulated_model_combine ...). The PTX declares the parameters.
inline constexpr char kImage[] = R"(.version 8.0
.target sm_70
.address_size 64
.visible .global .align 8 .b8 model_roots[512];
.visible .entry model_combine(
  .param .u64 out, .param .u64 out_words,
  .param .u64 a, .param .u64 a_words,
  .param .u64 b, .param .u64 b_words,
  .param .u64 salt
)
{
  ret;
}
.visible .entry model_combine_described(.param .align 8 .b8 block[56])
{
  ret;
}
.visible .entry model_combine_packed(.param .align 1 .b8 block[59])
{
  ret;
}
.visible .entry model_combine_by_table(.param .u64 table, .param .u64 salt)
{
  ret;
}
.visible .entry model_combine_by_chain(.param .u64 table, .param .u64 salt)
{
  ret;
}
.visible .entry model_combine_by_root(.param .u32 root, .param .u64 salt)
{
  ret;
}
.visible .entry model_write_table(.param .u64 table,
  .param .u64 out, .param .u64 out_words,
  .param .u64 a, .param .u64 a_words,
  .param .u64 b, .param .u64 b_words
)
{
  ret;
}
.visible .entry model_decide(.param .u64 handle, .param .u64 word)
{
  ret;
}
.visible .entry model_count_down(.param .u64 handle, .param .u64 counter)
{
  ret;
}
.visible .entry model_change_every_word(.param .u64 out, .param .u64 words, .param .u64 salt)
{
  ret;
}
)";

}  // namespace model
