// SPDX-License-Identifier: Apache-2.0
// Integers. Opcodes that floating-point types share are passed on to emit_float.cc. Source: PTX ISA 9.0, 9.7.1, 9.7.2.
#include "simulator/ptx/emit.h"

namespace simulator::ptx {
namespace {

constexpr std::uint16_t kWord = 32;
constexpr Type kInt32{Kind::kBits, kWord};

std::string int_type(Type type) { return integer_type(type.bits); }

// With twice as many bits.
std::string widened(Emitter& to, Type type, const std::string& value) {
  return to.let(std::string(type.is_signed() ? "sext " : "zext ") + int_type(type) + " " + value + " to " +
                integer_type(2u * type.bits));
}

std::string operation(Emitter& to, const std::string& name, Type type, const std::string& a, const std::string& b) {
  return to.let(name + " " + int_type(type) + " " + a + ", " + b);
}

std::string intrinsic(Emitter& to, const std::string& name, Type type, const std::string& a, const std::string& b) {
  const std::string t = int_type(type);
  return to.call(t, "llvm." + name + "." + t, t + " " + a + ", " + t + " " + b);
}

Type integer(Emitter& to, Modifiers& modifiers, unsigned least = 16) {
  const Type type = modifiers.take_type();
  if (type.is_float() || type.kind == Kind::kPredicate || type.bits < least || type.bits > 64)
    to.refuse("the type is not supported");
  return type;
}

// ---- addition and subtraction, with their carries

// The flag is the carry of the adder, which computes a - b as a + ~b + 1: after a subtraction it is set if nothing was
// borrowed. The ISA does not say so, but nvcc's division of 128 bits reads a borrow with addc.

void store_carry(Emitter& to, const std::string& value) { to.line("store i1 " + value + ", i1* %carry"); }

std::string carry_in(Emitter& to, Type type) {
  return to.let("zext i1 " + to.let("load i1, i1* %carry") + " to " + int_type(type));
}

void emit_sum(Emitter& to, const Instruction& instruction, Modifiers& modifiers, bool subtracts, bool with_carry) {
  to.expect_operands(instruction, 3, 3);
  const bool saturates = modifiers.take("sat");
  const bool sets_carry = modifiers.take("cc");
  const Type type = integer(to, modifiers);
  const std::string t = int_type(type);
  const std::string a = to.read(instruction.operands[1], type), b = to.read(instruction.operands[2], type);
  const char* const name = subtracts ? "sub" : "add";
  if (saturates) {
    if (type != Type{Kind::kSigned, kWord}) to.refuse("saturates .s32 alone");
    return to.write(instruction.operands[0], type, intrinsic(to, std::string("s") + name + ".sat", type, a, b));
  }
  std::string result = operation(to, name, type, a, b);
  std::string out = sets_carry ? to.let("icmp ult " + t + " " + (subtracts ? a + ", " + b : result + ", " + a)) : "";
  if (with_carry) {
    std::string more = carry_in(to, type);
    if (subtracts) more = operation(to, "xor", type, more, "1");
    const std::string before = result;
    result = operation(to, name, type, before, more);
    if (sets_carry) {
      const std::string again =
          to.let("icmp ult " + t + " " + (subtracts ? before + ", " + more : result + ", " + before));
      out = to.let("or i1 " + out + ", " + again);
    }
  }
  if (sets_carry) store_carry(to, subtracts ? to.let("xor i1 " + out + ", true") : out);
  to.write(instruction.operands[0], type, result);
}

void emit_add(Emitter& to, const Instruction& instruction, Modifiers& modifiers) {
  if (is_float_instruction(instruction)) return emit_float_binary(to, instruction, modifiers);
  emit_sum(to, instruction, modifiers, false, false);
}
void emit_sub(Emitter& to, const Instruction& instruction, Modifiers& modifiers) {
  if (is_float_instruction(instruction)) return emit_float_binary(to, instruction, modifiers);
  emit_sum(to, instruction, modifiers, true, false);
}
void emit_addc(Emitter& to, const Instruction& instruction, Modifiers& modifiers) {
  emit_sum(to, instruction, modifiers, false, true);
}
void emit_subc(Emitter& to, const Instruction& instruction, Modifiers& modifiers) {
  emit_sum(to, instruction, modifiers, true, true);
}

// ---- products

// `.wide` doubles the size; `.hi` and `.lo` take a half.
std::string product(Emitter& to, const std::string_view part, Type type, const std::string& a, const std::string& b) {
  if (part == "lo") return operation(to, "mul", type, a, b);
  const std::string wide = integer_type(2u * type.bits);
  const std::string all = to.let("mul " + wide + " " + widened(to, type, a) + ", " + widened(to, type, b));
  if (part == "wide") return all;
  const std::string upper = to.let("lshr " + wide + " " + all + ", " + std::to_string(type.bits));
  return to.let("trunc " + wide + " " + upper + " to " + int_type(type));
}

Type part_type(Type type, std::string_view part) {
  if (part == "wide") type.bits = static_cast<std::uint16_t>(2 * type.bits);
  return type;
}

std::string_view take_part(Emitter& to, Modifiers& modifiers) {
  const std::string_view part = modifiers.take_any({"lo", "hi", "wide"});
  if (part.empty()) to.refuse("needs .lo, .hi or .wide");
  return part;
}

void emit_mul(Emitter& to, const Instruction& instruction, Modifiers& modifiers) {
  if (is_float_instruction(instruction)) return emit_float_binary(to, instruction, modifiers);
  to.expect_operands(instruction, 3, 3);
  const std::string_view part = take_part(to, modifiers);
  const Type type = integer(to, modifiers);
  const std::string a = to.read(instruction.operands[1], type), b = to.read(instruction.operands[2], type);
  to.write(instruction.operands[0], part_type(type, part), product(to, part, type, a, b));
}

void emit_mad_with(Emitter& to, const Instruction& instruction, Modifiers& modifiers, bool with_carry) {
  to.expect_operands(instruction, 4, 4);
  const std::string_view part = take_part(to, modifiers);
  const bool saturates = modifiers.take("sat");
  const bool sets_carry = modifiers.take("cc");
  const Type type = integer(to, modifiers);
  const Type sum_type = part_type(type, part);
  const std::string a = to.read(instruction.operands[1], type), b = to.read(instruction.operands[2], type);
  const std::string c = to.read(instruction.operands[3], sum_type);
  const std::string multiplied = product(to, part, type, a, b);
  if (saturates) {
    if (part != "hi" || type != Type{Kind::kSigned, kWord}) to.refuse("saturates .hi.s32 alone");
    return to.write(instruction.operands[0], type, intrinsic(to, "sadd.sat", type, multiplied, c));
  }
  std::string result = operation(to, "add", sum_type, multiplied, c);
  std::string out;
  if (sets_carry) out = to.let("icmp ult " + int_type(sum_type) + " " + result + ", " + c);
  if (with_carry) {
    const std::string before = result;
    result = operation(to, "add", sum_type, before, carry_in(to, sum_type));
    if (sets_carry)
      out = to.let("or i1 " + out + ", " + to.let("icmp ult " + int_type(sum_type) + " " + result + ", " + before));
  }
  if (sets_carry) store_carry(to, out);
  to.write(instruction.operands[0], sum_type, result);
}

void emit_mad(Emitter& to, const Instruction& instruction, Modifiers& modifiers) {
  if (is_float_instruction(instruction)) return emit_fma(to, instruction, modifiers);
  emit_mad_with(to, instruction, modifiers, false);
}
void emit_madc(Emitter& to, const Instruction& instruction, Modifiers& modifiers) {
  emit_mad_with(to, instruction, modifiers, true);
}

// The product of the lower 24 bits.
std::string product24(Emitter& to, const Instruction& instruction, Modifiers& modifiers, Type* type) {
  const std::string_view part = modifiers.take_any({"lo", "hi"});
  *type = integer(to, modifiers, kWord);
  if (type->bits != kWord || part.empty()) to.refuse("the form is not supported");
  std::string wide[2];
  for (std::size_t i = 0; i < 2; ++i) {
    const std::string value = to.read(instruction.operands[i + 1], *type);
    const std::string top = to.let("shl i32 " + value + ", 8");
    const std::string low = to.let(std::string(type->is_signed() ? "ashr" : "lshr") + " i32 " + top + ", 8");
    wide[i] = widened(to, *type, low);
  }
  const std::string all = to.let("mul i64 " + wide[0] + ", " + wide[1]);
  const std::string shifted = part == "lo" ? all : to.let("lshr i64 " + all + ", 16");
  return to.let("trunc i64 " + shifted + " to i32");
}

void emit_mul24(Emitter& to, const Instruction& instruction, Modifiers& modifiers) {
  to.expect_operands(instruction, 3, 3);
  Type type;
  const std::string value = product24(to, instruction, modifiers, &type);
  to.write(instruction.operands[0], type, value);
}

void emit_mad24(Emitter& to, const Instruction& instruction, Modifiers& modifiers) {
  to.expect_operands(instruction, 4, 4);
  Type type;
  const std::string value = product24(to, instruction, modifiers, &type);
  to.write(instruction.operands[0], type, operation(to, "add", type, value, to.read(instruction.operands[3], type)));
}

// ---- division

// Division by zero has a result on devices but traps on hosts: all ones for quotients, the dividend for remainders (as
// observed on CUDA devices). The same applies to the one signed overflow.
void emit_quotient(Emitter& to, const Instruction& instruction, Modifiers& modifiers, bool is_remainder) {
  to.expect_operands(instruction, 3, 3);
  const Type type = integer(to, modifiers);
  const std::string t = int_type(type);
  const std::string a = to.read(instruction.operands[1], type), b = to.read(instruction.operands[2], type);
  const std::string by_zero = to.let("icmp eq " + t + " " + b + ", 0");
  std::string unsafe = by_zero;
  std::string by_minus_one = "false";
  if (type.is_signed()) {
    by_minus_one = to.let("icmp eq " + t + " " + b + ", -1");
    unsafe = to.let("or i1 " + by_zero + ", " + by_minus_one);
  }
  const std::string divisor = to.let("select i1 " + unsafe + ", " + t + " 1, " + t + " " + b);
  const std::string name = std::string(type.is_signed() ? "s" : "u") + (is_remainder ? "rem" : "div");
  std::string result = operation(to, name, type, a, divisor);
  if (type.is_signed() && !is_remainder) {
    const std::string negated = operation(to, "sub", type, "0", a);
    result = to.let("select i1 " + by_minus_one + ", " + t + " " + negated + ", " + t + " " + result);
  }
  result = to.let("select i1 " + by_zero + ", " + t + " " + (is_remainder ? a : "-1") + ", " + t + " " + result);
  to.write(instruction.operands[0], type, result);
}

void emit_div(Emitter& to, const Instruction& instruction, Modifiers& modifiers) {
  if (is_float_instruction(instruction)) return emit_float_binary(to, instruction, modifiers);
  emit_quotient(to, instruction, modifiers, false);
}
void emit_rem(Emitter& to, const Instruction& instruction, Modifiers& modifiers) {
  emit_quotient(to, instruction, modifiers, true);
}

// ---- the rest

// `.u16x2` and `.s16x2`: each half separately.
bool emit_halves(Emitter& to, const Instruction& instruction, Modifiers& modifiers) {
  const std::string_view name = modifiers.take_any({"u16x2", "s16x2"});
  if (name.empty()) return false;
  if (instruction.opcode != "min" && instruction.opcode != "max" && instruction.opcode != "add")
    to.refuse("the type is not supported");
  to.expect_operands(instruction, 3, 3);
  std::string vectors[2];
  for (std::size_t i = 0; i < 2; ++i)
    vectors[i] = to.let("bitcast i32 " + to.read_bits(instruction.operands[i + 1], kWord) + " to <2 x i16>");
  std::string result;
  if (instruction.opcode == "add") {
    result = to.let("add <2 x i16> " + vectors[0] + ", " + vectors[1]);
  } else {
    const std::string order = std::string(name[0] == 's' ? "s" : "u") + (instruction.opcode == "min" ? "lt" : "gt");
    const std::string first = to.let("icmp " + order + " <2 x i16> " + vectors[0] + ", " + vectors[1]);
    result = to.let("select <2 x i1> " + first + ", <2 x i16> " + vectors[0] + ", <2 x i16> " + vectors[1]);
    if (name[0] == 's' && modifiers.take("relu")) {
      const std::string positive = to.let("icmp sgt <2 x i16> " + result + ", zeroinitializer");
      result = to.let("select <2 x i1> " + positive + ", <2 x i16> " + result + ", <2 x i16> zeroinitializer");
    }
  }
  to.write(instruction.operands[0], kInt32, to.let("bitcast <2 x i16> " + result + " to i32"));
  return true;
}

void emit_extreme(Emitter& to, const Instruction& instruction, Modifiers& modifiers) {
  if (is_float_instruction(instruction)) return emit_float_extreme(to, instruction, modifiers);
  if (emit_halves(to, instruction, modifiers)) return;
  to.expect_operands(instruction, 3, 3);
  const bool relu = modifiers.take("relu");
  const Type type = integer(to, modifiers);
  const std::string a = to.read(instruction.operands[1], type), b = to.read(instruction.operands[2], type);
  std::string result = intrinsic(to, (type.is_signed() ? "s" : "u") + std::string(instruction.opcode), type, a, b);
  if (relu) result = intrinsic(to, "smax", type, result, "0");
  to.write(instruction.operands[0], type, result);
}

void emit_abs(Emitter& to, const Instruction& instruction, Modifiers& modifiers) {
  if (is_float_instruction(instruction)) return emit_float_sign(to, instruction, modifiers);
  to.expect_operands(instruction, 2, 2);
  const Type type = integer(to, modifiers);
  const std::string a = to.read(instruction.operands[1], type);
  const std::string negated = operation(to, "sub", type, "0", a);
  const std::string is_negative = to.let("icmp slt " + int_type(type) + " " + a + ", 0");
  to.write(
      instruction.operands[0], type,
      to.let("select i1 " + is_negative + ", " + int_type(type) + " " + negated + ", " + int_type(type) + " " + a));
}

void emit_neg(Emitter& to, const Instruction& instruction, Modifiers& modifiers) {
  if (is_float_instruction(instruction)) return emit_float_sign(to, instruction, modifiers);
  to.expect_operands(instruction, 2, 2);
  const Type type = integer(to, modifiers);
  to.write(instruction.operands[0], type, operation(to, "sub", type, "0", to.read(instruction.operands[1], type)));
}

// c + |a - b|
void emit_sad(Emitter& to, const Instruction& instruction, Modifiers& modifiers) {
  to.expect_operands(instruction, 4, 4);
  const Type type = integer(to, modifiers);
  const std::string a = to.read(instruction.operands[1], type), b = to.read(instruction.operands[2], type);
  const std::string c = to.read(instruction.operands[3], type);
  const std::string sign = type.is_signed() ? "s" : "u";
  const std::string most = intrinsic(to, sign + "max", type, a, b), least = intrinsic(to, sign + "min", type, a, b);
  to.write(instruction.operands[0], type, operation(to, "add", type, c, operation(to, "sub", type, most, least)));
}

// Four products of bytes, or two of halves and bytes, and a sum.
void emit_dot(Emitter& to, const Instruction& instruction, Modifiers& modifiers) {
  to.expect_operands(instruction, 4, 4);
  const bool is_dp2a = instruction.opcode == "dp2a";
  const bool upper = is_dp2a && modifiers.take_any({"lo", "hi"}) == "hi";
  const Type a_type = integer(to, modifiers, kWord), b_type = integer(to, modifiers, kWord);
  const std::string a = to.read_bits(instruction.operands[1], kWord), b = to.read_bits(instruction.operands[2], kWord);
  std::string sum = to.read_bits(instruction.operands[3], kWord);
  const auto part = [&](const std::string& value, Type type, unsigned index, unsigned bits) {
    const std::string top = to.let("shl i32 " + value + ", " + std::to_string(kWord - bits * (index + 1)));
    return to.let(std::string(type.is_signed() ? "ashr" : "lshr") + " i32 " + top + ", " +
                  std::to_string(kWord - bits));
  };
  for (unsigned i = 0; i < (is_dp2a ? 2u : 4u); ++i) {
    const std::string x = part(a, a_type, i, is_dp2a ? 16 : 8);
    const std::string y = part(b, b_type, i + (upper ? 2 : 0), 8);
    sum = to.let("add i32 " + sum + ", " + to.let("mul i32 " + x + ", " + y));
  }
  to.write(instruction.operands[0], kInt32, sum);
}

void emit_add_or_halves(Emitter& to, const Instruction& instruction, Modifiers& modifiers) {
  if (!emit_halves(to, instruction, modifiers)) emit_add(to, instruction, modifiers);
}

constexpr Opcode kTable[] = {
    {"add", emit_add_or_halves}, {"sub", emit_sub},     {"addc", emit_addc},   {"subc", emit_subc},   {"mul", emit_mul},
    {"mad", emit_mad},           {"madc", emit_madc},   {"mul24", emit_mul24}, {"mad24", emit_mad24}, {"div", emit_div},
    {"rem", emit_rem},           {"min", emit_extreme}, {"max", emit_extreme}, {"abs", emit_abs},     {"neg", emit_neg},
    {"sad", emit_sad},           {"dp4a", emit_dot},    {"dp2a", emit_dot},
};

}  // namespace

Handler find_arithmetic(std::string_view opcode) { return find_in(kTable, opcode); }

}  // namespace simulator::ptx
