// SPDX-License-Identifier: Apache-2.0
// The semantics of PTX instructions, implemented a second time, in C++ and independently of the simulator: for tests of
// single instructions, and for the interpreter of random programs.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace ptx_test {

// The kind of a register, which also determines its declaration.
enum class Kind : std::uint8_t { kPredicate, k16, k32, k64, kF32, kF64 };

constexpr unsigned bits_of(Kind kind) {
  constexpr unsigned kBits[] = {1, 16, 32, 64, 32, 64};
  return kBits[static_cast<unsigned>(kind)];
}

// How precise a result has to be.
enum class Closeness : std::uint8_t {
  kExact,
  kFloat16,    // any NaN for a NaN; for halves, two of them in 32 bits
  kFloat,      // any NaN for a NaN; for the register's size
  kFloatPair,  // the same, for two floats in 64 bits
  kAbout,      // within 2^-20 of the value, or of 1
};

enum class HalfFormat : std::uint8_t { kNone, kF16, kBf16 };

struct Rule {
  std::string name;  // `add.s32`
  Kind out = Kind::k32;
  std::vector<Kind> in;
  std::function<std::uint64_t(const std::uint64_t*)> compute;  // from the operands' bits
  Closeness closeness = Closeness::kExact;
  HalfFormat halves = HalfFormat::kNone;  // for kFloat16
  std::string suffix{};                   // an immediate operand after the others: `, 0xca`
};

const std::vector<Rule>& rules();

bool agree(const Rule& rule, std::uint64_t expected, std::uint64_t found);

// Parts of the table.
void add_integer_rules(std::vector<Rule>* to);
void add_bit_rules(std::vector<Rule>* to);
void add_float_rules(std::vector<Rule>* to);
void add_conversion_rules(std::vector<Rule>* to);
void add_comparison_rules(std::vector<Rule>* to);
void add_video_rules(std::vector<Rule>* to);

}  // namespace ptx_test
