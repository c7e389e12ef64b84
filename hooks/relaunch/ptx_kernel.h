// SPDX-License-Identifier: Apache-2.0
// Parses the instructions of one kernel of a PTX text. Source: PTX ISA 9.0. Unknown syntax is refused, never guessed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hooks/relaunch/ptx_index.h"

namespace thermocline {

struct PtxOperand {
  enum class Kind : std::uint8_t {
    kRegister,
    kSpecial,  // %tid.x: a special register, by `text`
    kInteger,
    kOther,    // a floating-point constant, a name
    kAddress,  // [register + value], or [text + value]
    kVector,   // {a, b}, or the two predicates of a setp
  };
  Kind kind = Kind::kOther;
  int reg = -1;  // also that of an address; -1: none
  std::int64_t value = 0;
  std::string_view text;
  std::vector<PtxOperand> parts;
};

struct PtxInstruction {
  int guard = -1;  // the predicate register; -1: always
  bool guard_is_negated = false;
  std::string_view root;                    // "ld" of "ld.global.f32"
  std::vector<std::string_view> modifiers;  // "global", "f32"
  std::vector<PtxOperand> operands;
  int target = -1;  // of bra: index of an instruction; the number of instructions: the end

  bool has(std::string_view modifier) const;
  // "f32" of "ld.global.f32".
  std::string_view type() const { return modifiers.empty() ? std::string_view() : modifiers.back(); }
  bool writes_first_operand() const;
  // A register that is written in addition to the first operand: the predicate of a shuffle; -1: none.
  int also_writes() const { return root == "shfl" && operands.size() == 6 ? operands[1].reg : -1; }
};

// Views point into the text.
struct PtxKernel {
  struct Parameter {
    std::string_view name;
    unsigned bytes = 0;
  };
  std::vector<Parameter> parameters;
  std::vector<PtxInstruction> instructions;
  std::vector<unsigned> bits;  // of each register; 1: a predicate
  std::vector<std::string_view> shared, local;
  static constexpr std::uint64_t kOfTheLaunch = ~std::uint64_t{0};
  std::vector<std::uint64_t> shared_bytes;  // by variable; 0: not known; kOfTheLaunch: dynamic shared memory

  int parameter(std::string_view name) const;
};

// The index of an existing register in lists by register.
inline std::size_t index_of(int reg) { return static_cast<std::size_t>(reg); }

// The size in bytes of a scalar type, given without its dot; 0: not a scalar type.
unsigned ptx_type_bytes(std::string_view type);

// Empty: the text has no such kernel, or something is not understood (`not_understood`: opcode, directive, or "").
std::optional<PtxKernel> parse_ptx_kernel(std::string_view text, const PtxIndex& index, std::string_view name,
                                          std::string_view* not_understood = nullptr);

}  // namespace thermocline
