// SPDX-License-Identifier: Apache-2.0
// Bits: logic, shifts, fields, permutations. Shifts by the width or more give zero (or the sign). Source: PTX ISA 9.0,
// 9.7.1 and 9.7.8.
#include "simulator/ptx/emit.h"

namespace simulator::ptx {
namespace {

constexpr Type kWord{Kind::kBits, 32};
constexpr Type kPredicate{Kind::kPredicate, 1};

std::string text_of(unsigned value) { return std::to_string(value); }

void emit_bitwise(Emitter& to, const Instruction& instruction, Modifiers& modifiers) {
  to.expect_operands(instruction, 3, 3);
  const Type type = modifiers.take_type();
  if (type.is_float() || type.bits == 8 || type.bits == 0) to.refuse("the type is not supported");
  const std::string a = to.read(instruction.operands[1], type), b = to.read(instruction.operands[2], type);
  to.write(instruction.operands[0], type,
           to.let(std::string(instruction.opcode) + " " + llvm_type(type) + " " + a + ", " + b));
}

void emit_not(Emitter& to, const Instruction& instruction, Modifiers& modifiers) {
  to.expect_operands(instruction, 2, 2);
  const Type type = modifiers.take_type();
  if (type.is_float() || type.bits == 0) to.refuse("the type is not supported");
  const std::string a = to.read(instruction.operands[1], type);
  to.write(instruction.operands[0], type,
           to.let("xor " + llvm_type(type) + " " + a + (type.bits == 1 ? ", true" : ", -1")));
}

void emit_cnot(Emitter& to, const Instruction& instruction, Modifiers& modifiers) {
  to.expect_operands(instruction, 2, 2);
  const Type type = modifiers.take_type();
  const std::string t = integer_type(type.bits);
  const std::string none = to.let("icmp eq " + t + " " + to.read(instruction.operands[1], type) + ", 0");
  to.write(instruction.operands[0], type, to.let("zext i1 " + none + " to " + t));
}

// Any function of three bits, given by its truth table.
void emit_lop3(Emitter& to, const Instruction& instruction, Modifiers& modifiers) {
  const std::string_view with = modifiers.take_any({"or", "and"});
  if (modifiers.take_type() != kWord) to.refuse("the type is not supported");
  to.expect_operands(instruction, with.empty() ? 5 : 6, with.empty() ? 5 : 6);
  const Operand& table = instruction.operands[4];
  if (table.form != Operand::Form::kInteger || table.value > 255) to.refuse("expected a table of 8 bits");
  std::string inputs[3], inverted[3];
  for (std::size_t i = 0; i < 3; ++i) {
    inputs[i] = to.read(instruction.operands[i + 1], kWord);
    inverted[i] = to.let("xor i32 " + inputs[i] + ", -1");
  }
  std::string result = "0";
  for (unsigned row = 0; row < 8; ++row) {
    if ((table.value >> row & 1) == 0) continue;
    std::string term = (row & 4) != 0 ? inputs[0] : inverted[0];
    term = to.let("and i32 " + term + ", " + ((row & 2) != 0 ? inputs[1] : inverted[1]));
    term = to.let("and i32 " + term + ", " + ((row & 1) != 0 ? inputs[2] : inverted[2]));
    result = to.let("or i32 " + result + ", " + term);
  }
  if (with.empty()) return to.write(instruction.operands[0], kWord, result);
  const Operand& pair = instruction.operands[0];
  if (pair.form != Operand::Form::kPair) to.refuse("expected d|p");
  to.write(pair.parts[0], kWord, result);
  const std::string any = to.let("icmp ne i32 " + result + ", 0");
  to.write(pair.parts[1], kPredicate,
           to.let(std::string(with) + " i1 " + any + ", " + to.read(instruction.operands[5], kPredicate)));
}

void emit_shift(Emitter& to, const Instruction& instruction, Modifiers& modifiers) {
  to.expect_operands(instruction, 3, 3);
  const Type type = modifiers.take_type();
  if (type.is_float() || type.bits < 16 || type.bits > 64) to.refuse("the type is not supported");
  const std::string t = integer_type(type.bits);
  const std::string a = to.read(instruction.operands[1], type), by = to.read(instruction.operands[2], kWord);
  const std::string is_far = to.let("icmp ugt i32 " + by + ", " + text_of(type.bits - 1u));
  const std::string near = to.let("select i1 " + is_far + ", i32 " + text_of(type.bits - 1u) + ", i32 " + by);
  std::string amount = near;
  if (type.bits != 32) amount = to.let((type.bits == 16 ? "trunc i32 " : "zext i32 ") + near + " to " + t);
  if (instruction.opcode == "shr" && type.is_signed())
    return to.write(instruction.operands[0], type, to.let("ashr " + t + " " + a + ", " + amount));
  const std::string shifted = to.let((instruction.opcode == "shl" ? "shl " : "lshr ") + t + " " + a + ", " + amount);
  to.write(instruction.operands[0], type, to.let("select i1 " + is_far + ", " + t + " 0, " + t + " " + shifted));
}

// Shifts the 64 bits made of b (upper) and a.
void emit_shf(Emitter& to, const Instruction& instruction, Modifiers& modifiers) {
  to.expect_operands(instruction, 4, 4);
  const bool left = modifiers.take_any({"l", "r"}) == "l";
  const bool wraps = modifiers.take_any({"wrap", "clamp"}) == "wrap";
  if (modifiers.take_type() != kWord) to.refuse("the type is not supported");
  const std::string a = to.let("zext i32 " + to.read(instruction.operands[1], kWord) + " to i64");
  const std::string b = to.let("zext i32 " + to.read(instruction.operands[2], kWord) + " to i64");
  const std::string both = to.let("or i64 " + to.let("shl i64 " + b + ", 32") + ", " + a);
  std::string by = to.read(instruction.operands[3], kWord);
  by = wraps ? to.let("and i32 " + by + ", 31") : to.call("i32", "llvm.umin.i32", "i32 " + by + ", i32 32");
  const std::string amount = to.let("zext i32 " + by + " to i64");
  const std::string shifted = to.let((left ? "shl i64 " : "lshr i64 ") + both + ", " + amount);
  const std::string part = left ? to.let("lshr i64 " + shifted + ", 32") : shifted;
  to.write(instruction.operands[0], kWord, to.let("trunc i64 " + part + " to i32"));
}

void emit_count(Emitter& to, const Instruction& instruction, Modifiers& modifiers) {
  to.expect_operands(instruction, 2, 2);
  const Type type = modifiers.take_type();
  if (type.bits != 32 && type.bits != 64) to.refuse("the type is not supported");
  const std::string t = integer_type(type.bits);
  const bool ones = instruction.opcode == "popc";
  std::string count = to.call(t, (ones ? "llvm.ctpop." : "llvm.ctlz.") + t,
                              t + " " + to.read(instruction.operands[1], type) + (ones ? "" : ", i1 false"));
  if (type.bits == 64) count = to.let("trunc i64 " + count + " to i32");
  to.write(instruction.operands[0], kWord, count);
}

void emit_brev(Emitter& to, const Instruction& instruction, Modifiers& modifiers) {
  to.expect_operands(instruction, 2, 2);
  const Type type = modifiers.take_type();
  const std::string t = integer_type(type.bits);
  to.write(instruction.operands[0], type,
           to.call(t, "llvm.bitreverse." + t, t + " " + to.read(instruction.operands[1], type)));
}

// The highest bit that differs from the sign, or -1.
void emit_bfind(Emitter& to, const Instruction& instruction, Modifiers& modifiers) {
  to.expect_operands(instruction, 2, 2);
  const bool as_shift = modifiers.take("shiftamt");
  const Type type = modifiers.take_type();
  const std::string t = integer_type(type.bits);
  std::string a = to.read(instruction.operands[1], type);
  if (type.is_signed()) {
    const std::string sign = to.let("ashr " + t + " " + a + ", " + text_of(type.bits - 1u));
    a = to.let("xor " + t + " " + a + ", " + sign);
  }
  std::string zeros = to.call(t, "llvm.ctlz." + t, t + " " + a + ", i1 false");
  if (type.bits == 64) zeros = to.let("trunc i64 " + zeros + " to i32");
  const std::string none = to.let("icmp eq i32 " + zeros + ", " + text_of(type.bits));
  const std::string found = as_shift ? zeros : to.let("sub i32 " + text_of(type.bits - 1u) + ", " + zeros);
  to.write(instruction.operands[0], kWord, to.let("select i1 " + none + ", i32 -1, i32 " + found));
}

// Host helpers, in 64 bits: value, position and length.
void emit_field(Emitter& to, const Instruction& instruction, Modifiers& modifiers) {
  const bool inserts = instruction.opcode == "bfi";
  to.expect_operands(instruction, inserts ? 5 : 4, inserts ? 5 : 4);
  const Type type = modifiers.take_type();
  if (type.bits != 32 && type.bits != 64) to.refuse("the type is not supported");
  std::string arguments;
  for (std::size_t i = 1; i <= (inserts ? 2u : 1u); ++i) {
    std::string value = to.read(instruction.operands[i], type);
    if (type.bits == 32) value = to.let("zext i32 " + value + " to i64");
    arguments += "i64 " + value + ", ";
  }
  const std::size_t at = inserts ? 3 : 2;
  arguments +=
      "i32 " + to.read(instruction.operands[at], kWord) + ", i32 " + to.read(instruction.operands[at + 1], kWord);
  arguments += ", i32 " + text_of(type.bits);
  if (!inserts) arguments += type.is_signed() ? ", i32 1" : ", i32 0";
  std::string result = to.call("i64", "ptx_" + std::string(instruction.opcode), arguments);
  if (type.bits == 32) result = to.let("trunc i64 " + result + " to i32");
  to.write(instruction.operands[0], type, result);
}

void emit_bmsk(Emitter& to, const Instruction& instruction, Modifiers& modifiers) {
  to.expect_operands(instruction, 3, 3);
  const bool wraps = modifiers.take_any({"clamp", "wrap"}) == "wrap";
  if (modifiers.take_type().bits != 32) to.refuse("the type is not supported");
  to.write(instruction.operands[0], kWord,
           to.call("i32", "ptx_bmsk",
                   "i32 " + to.read(instruction.operands[1], kWord) + ", i32 " +
                       to.read(instruction.operands[2], kWord) + ", i32 " + (wraps ? "1" : "0")));
}

void emit_szext(Emitter& to, const Instruction& instruction, Modifiers& modifiers) {
  to.expect_operands(instruction, 3, 3);
  const bool wraps = modifiers.take_any({"clamp", "wrap"}) == "wrap";
  const Type type = modifiers.take_type();
  to.write(
      instruction.operands[0], kWord,
      to.call("i32", "ptx_szext",
              "i32 " + to.read_bits(instruction.operands[1], 32) + ", i32 " + to.read(instruction.operands[2], kWord) +
                  ", i32 " + (wraps ? "1" : "0") + ", i32 " + (type.is_signed() ? "1" : "0")));
}

void emit_fns(Emitter& to, const Instruction& instruction, Modifiers& modifiers) {
  to.expect_operands(instruction, 4, 4);
  modifiers.take_type();
  to.write(instruction.operands[0], kWord,
           to.call("i32", "ptx_fns",
                   "i32 " + to.read(instruction.operands[1], kWord) + ", i32 " +
                       to.read(instruction.operands[2], kWord) + ", i32 " + to.read(instruction.operands[3], kWord)));
}

// Selects four bytes out of eight. A constant selector becomes shifts; otherwise a helper is called.
void emit_prmt(Emitter& to, const Instruction& instruction, Modifiers& modifiers) {
  to.expect_operands(instruction, 4, 4);
  if (modifiers.take_type() != kWord) to.refuse("the type is not supported");
  const std::string_view mode = modifiers.take_any({"f4e", "b4e", "rc8", "ecl", "ecr", "rc16"});
  const std::string a = to.read(instruction.operands[1], kWord), b = to.read(instruction.operands[2], kWord);
  const Operand& selector = instruction.operands[3];
  if (!mode.empty() || selector.form != Operand::Form::kInteger) {
    const unsigned number = mode == "f4e"   ? 1
                            : mode == "b4e" ? 2
                            : mode == "rc8" ? 3
                            : mode == "ecl" ? 4
                            : mode == "ecr" ? 5
                            : mode.empty()  ? 0
                                            : 6;
    return to.write(
        instruction.operands[0], kWord,
        to.call("i32", "ptx_prmt",
                "i32 " + a + ", i32 " + b + ", i32 " + to.read(selector, kWord) + ", i32 " + text_of(number)));
  }
  std::string result = "0";
  for (unsigned i = 0; i < 4; ++i) {
    const auto pick = static_cast<unsigned>(selector.value >> (4 * i) & 15);
    const std::string& word = (pick & 4) != 0 ? b : a;
    std::string byte;
    if ((pick & 8) != 0) {
      const std::string top = to.let("shl i32 " + word + ", " + text_of(24 - 8 * (pick & 3)));
      byte = to.let("and i32 " + to.let("ashr i32 " + top + ", 31") + ", 255");
    } else {
      byte = to.let("and i32 " + to.let("lshr i32 " + word + ", " + text_of(8 * (pick & 3))) + ", 255");
    }
    result = to.let("or i32 " + result + ", " + to.let("shl i32 " + byte + ", " + text_of(8 * i)));
  }
  to.write(instruction.operands[0], kWord, result);
}

constexpr Opcode kTable[] = {
    {"and", emit_bitwise}, {"or", emit_bitwise},  {"xor", emit_bitwise}, {"not", emit_not},   {"cnot", emit_cnot},
    {"lop3", emit_lop3},   {"shl", emit_shift},   {"shr", emit_shift},   {"shf", emit_shf},   {"popc", emit_count},
    {"clz", emit_count},   {"brev", emit_brev},   {"bfind", emit_bfind}, {"bfe", emit_field}, {"bfi", emit_field},
    {"bmsk", emit_bmsk},   {"szext", emit_szext}, {"fns", emit_fns},     {"prmt", emit_prmt},
};

}  // namespace

Handler find_logic(std::string_view opcode) { return find_in(kTable, opcode); }

}  // namespace simulator::ptx
