// SPDX-License-Identifier: Apache-2.0
// cvt from and to two numbers of 4 to 8 bits. Source: PTX ISA 9.0, 9.7.9.21.
#include "simulator/ptx/emit.h"
#include "simulator/ptx/small_floats.h"

namespace simulator::ptx {
namespace {

struct Name {
  std::string_view name;
  SmallFloat format;
  std::uint16_t bits;  // of a register with two of them
};

constexpr Name kNames[] = {{"e4m3x2", SmallFloat::kE4m3, 16}, {"e5m2x2", SmallFloat::kE5m2, 16},
                           {"e3m2x2", SmallFloat::kE3m2, 16}, {"e2m3x2", SmallFloat::kE2m3, 16},
                           {"e2m1x2", SmallFloat::kE2m1, 8},  {"ue8m0x2", SmallFloat::kUe8m0, 16}};

const Name* find_name(std::string_view modifier) {
  for (const Name& entry : kNames) {
    if (entry.name == modifier) return &entry;
  }
  return nullptr;
}

// The parts of a packed word as doubles, the upper one first.
void open_halves(Emitter& to, const std::string& word, Type type, std::string (&out)[2]) {
  for (std::size_t i = 0; i < 2; ++i) {
    const std::string shifted = i == 0 ? to.let("lshr i32 " + word + ", 16") : word;
    const std::string bits = to.let("trunc i32 " + shifted + " to i16");
    const std::string single = type.kind == Kind::kBfloat
                                   ? to.let("call float @bf16_to_float(i16 " + bits + ")")
                                   : to.let("fpext half " + to.from_bits({Kind::kFloat, 16}, bits) + " to float");
    out[i] = to.let("fpext float " + single + " to double");
  }
}

void emit_into_small(Emitter& to, const Instruction& instruction, const Name& into, Type from, bool relu, bool up) {
  std::string parts[2];
  if (from == Type{Kind::kFloat, 32}) {
    to.expect_operands(instruction, 3, 3);
    for (std::size_t i = 0; i < 2; ++i)
      parts[i] = to.let("fpext float " + to.read(instruction.operands[i + 1], from) + " to double");
  } else {
    if (!from.packed) to.refuse("the types are not supported");
    to.expect_operands(instruction, 2, 2);
    open_halves(to, to.read_bits(instruction.operands[1], 32), from, parts);
  }
  const unsigned what = static_cast<unsigned>(into.format) | (relu ? 256u : 0u) | (up ? 512u : 0u);
  const std::string pair =
      to.call("i32", "ptx_to_small", "double " + parts[0] + ", double " + parts[1] + ", i32 " + std::to_string(what));
  const std::string t = integer_type(into.bits);
  to.write(instruction.operands[0], {Kind::kBits, into.bits}, to.let("trunc i32 " + pair + " to " + t));
}

void emit_from_small(Emitter& to, const Instruction& instruction, const Name& from, Type into, bool relu) {
  if (!into.packed) to.refuse("the types are not supported");
  to.expect_operands(instruction, 2, 2);
  const std::string pair = to.read_bits(instruction.operands[1], from.bits);
  const std::string wide = to.let("zext " + integer_type(from.bits) + " " + pair + " to i32");
  const unsigned what =
      static_cast<unsigned>(from.format) | (relu ? 256u : 0u) | (into.kind == Kind::kBfloat ? 512u : 0u);
  to.write(instruction.operands[0], {Kind::kBits, 32},
           to.call("i32", "ptx_from_small", "i32 " + wide + ", i32 " + std::to_string(what)));
}

}  // namespace

bool emit_cvt_of_small(Emitter& to, const Instruction& instruction, Modifiers& modifiers) {
  const Name* small = nullptr;
  for (const std::string_view modifier : instruction.modifiers) {
    if (const Name* const found = find_name(modifier); found != nullptr) small = found;
  }
  if (small == nullptr) return false;
  const bool is_source = instruction.modifiers.back() == small->name;
  modifiers.take(small->name);
  const bool is_scale = small->format == SmallFloat::kUe8m0;
  const std::string_view rounding = modifiers.take_any({"rn", "rz", "rp"});
  const bool saturates = modifiers.take("satfinite");
  const bool relu = modifiers.take("relu");
  const Type other = modifiers.take_type();
  if (rounding.empty() || (rounding != "rn") != (is_scale && !is_source)) to.refuse("the rounding is not supported");
  if (is_source) {
    emit_from_small(to, instruction, *small, other, relu);
  } else {
    if (!saturates) to.refuse("needs .satfinite");
    emit_into_small(to, instruction, *small, other, relu, rounding == "rp");
  }
  return true;
}

}  // namespace simulator::ptx
