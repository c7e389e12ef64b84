// SPDX-License-Identifier: Apache-2.0
// cvt between all scalars. Source: PTX ISA 9.0, 9.7.9.21.
#include "simulator/ptx/emit.h"

namespace simulator::ptx {
namespace {

constexpr Type kFloat32{Kind::kFloat, 32};

struct Conversion {
  Type to, from;
  std::string_view rounding;          // rn rz rm rp
  std::string_view integer_rounding;  // rni rzi rmi rpi
  bool ftz = false;
  bool saturates = false;
  bool relu = false;
};

std::string rounding_number(std::string_view rounding) {
  return rounding == "rz" ? "1" : rounding == "rm" ? "2" : rounding == "rp" ? "3" : "0";
}

std::string ftz(Emitter& to, const std::string& value) { return to.let("call float @ftz(float " + value + ")"); }

// Converts a half to float; other types are unchanged. `type` is updated.
std::string opened(Emitter& to, Type* type, const std::string& value) {
  if (type->bits != 16 || !type->is_float()) return value;
  const bool is_bfloat = type->kind == Kind::kBfloat;
  *type = kFloat32;
  return is_bfloat ? to.let("call float @bf16_to_float(i16 " + value + ")")
                   : to.let("fpext half " + value + " to float");
}

std::string round_to_integral(Emitter& to, std::string_view rounding, Type type, const std::string& value) {
  const std::string t = llvm_type(type);
  const char* const name = rounding == "rzi"   ? "trunc"
                           : rounding == "rmi" ? "floor"
                           : rounding == "rpi" ? "ceil"
                                               : "rint";
  return to.call(t, std::string("llvm.") + name + (type.bits == 32 ? ".f32" : ".f64"), t + " " + value);
}

std::string integer_to_integer(Emitter& to, const Conversion& c, std::string value) {
  const std::string from = integer_type(c.from.bits), into = integer_type(c.to.bits);
  if (c.saturates) {
    // Through 128 bits, which can represent all values of both types.
    value = to.let(std::string(c.from.is_signed() ? "sext " : "zext ") + from + " " + value + " to i128");
    const unsigned bits = c.to.bits - (c.to.is_signed() ? 1u : 0u);
    const std::string limit = to.let("lshr i128 -1, " + std::to_string(128 - bits));
    const std::string least = c.to.is_signed() ? to.let("xor i128 " + limit + ", -1") : "0";
    value = to.call("i128", "llvm.smin.i128", "i128 " + value + ", i128 " + limit);
    value = to.call("i128", "llvm.smax.i128", "i128 " + value + ", i128 " + least);
    return to.let("trunc i128 " + value + " to " + into);
  }
  if (c.to.bits < c.from.bits) return to.let("trunc " + from + " " + value + " to " + into);
  if (c.to.bits == c.from.bits) return value;
  return to.let(std::string(c.from.is_signed() ? "sext " : "zext ") + from + " " + value + " to " + into);
}

// NaN becomes 0; values out of range become the nearest limit.
std::string float_to_integer(Emitter& to, const Conversion& c, std::string value) {
  Type from = c.from;
  value = opened(to, &from, value);
  if (c.ftz && from == kFloat32) value = ftz(to, value);
  value = round_to_integral(to, c.integer_rounding, from, value);
  const std::string f = llvm_type(from), into = integer_type(c.to.bits);
  const std::string name = std::string(c.to.is_signed() ? "llvm.fptosi.sat." : "llvm.fptoui.sat.") + into +
                           (from.bits == 32 ? ".f32" : ".f64");
  return to.call(into, name, f + " " + value);
}

std::string integer_to_float(Emitter& to, const Conversion& c, std::string value) {
  const std::string from = integer_type(c.from.bits);
  const bool exact_modes = c.rounding == "rn" || c.rounding.empty();
  const bool is_half = c.to.bits == 16;
  if (exact_modes && !is_half) {
    value =
        to.let(std::string(c.from.is_signed() ? "sitofp " : "uitofp ") + from + " " + value + " to " + llvm_type(c.to));
    if (c.saturates)
      value = to.let("call " + llvm_type(c.to) + " @saturate_" + llvm_type(c.to) + "(" + llvm_type(c.to) + " " + value +
                     ")");
    return value;
  }
  if (c.from.bits < 64)
    value = to.let(std::string(c.from.is_signed() ? "sext " : "zext ") + from + " " + value + " to i64");
  const std::string name = is_half ? (c.to.kind == Kind::kBfloat ? "bf16" : "f16") : c.to.bits == 32 ? "f32" : "f64";
  const std::string result = is_half ? "i16" : llvm_type(c.to);
  value =
      to.call(result, "ptx_int_to_" + name,
              "i64 " + value + ", i32 " + (c.from.is_signed() ? "1" : "0") + ", i32 " + rounding_number(c.rounding));
  return is_half ? to.from_bits(c.to, value) : value;
}

std::string clamp(Emitter& to, const Conversion& c, std::string value, Type type) {
  const std::string t = llvm_type(type);
  if (c.saturates) value = to.let("call " + t + " @saturate_" + t + "(" + t + " " + value + ")");
  if (c.relu) {
    const std::string negative = to.let("fcmp olt " + t + " " + value + ", 0.0");
    value = to.let("select i1 " + negative + ", " + t + " 0.0, " + t + " " + value);
  }
  return value;
}

// From float or double to a half, with a single rounding.
std::string narrowed(Emitter& to, const Conversion& c, Type from, const std::string& value) {
  const bool is_bfloat = c.to.kind == Kind::kBfloat;
  const bool nearest = c.rounding == "rn" || c.rounding.empty();
  if (nearest && from == kFloat32)
    return is_bfloat ? to.let("call i16 @float_to_bf16(float " + value + ")")
                     : to.let("fptrunc float " + value + " to half");
  const std::string wide = from == kFloat32 ? to.let("fpext float " + value + " to double") : value;
  return to.from_bits(c.to, to.call("i16", is_bfloat ? "ptx_double_to_bf16" : "ptx_double_to_f16",
                                    "double " + wide + ", i32 " + rounding_number(c.rounding)));
}

std::string float_to_float(Emitter& to, const Conversion& c, std::string value) {
  Type from = c.from;
  value = opened(to, &from, value);
  if (c.ftz && from == kFloat32) value = ftz(to, value);
  if (!c.integer_rounding.empty()) value = round_to_integral(to, c.integer_rounding, from, value);
  if (c.to.bits == 16) return narrowed(to, c, from, clamp(to, c, value, from));
  if (c.to.bits > from.bits) value = to.let("fpext float " + value + " to double");
  if (c.to.bits < from.bits) {
    const bool nearest = c.rounding == "rn" || c.rounding.empty();
    value = nearest ? to.let("fptrunc double " + value + " to float")
                    : to.call("float", "ptx_double_to_f32", "double " + value + ", i32 " + rounding_number(c.rounding));
    if (c.ftz) value = ftz(to, value);
  }
  return clamp(to, c, value, c.to);
}

// Two floats into the halves of one word; the first is the upper one.
void emit_pack(Emitter& to, const Instruction& instruction, Conversion c) {
  to.expect_operands(instruction, 3, 3);
  if (c.from != kFloat32) to.refuse("packs .f32 alone");
  c.to = {c.to.kind, 16, false};
  std::string halves[2];
  for (std::size_t i = 0; i < 2; ++i) {
    const std::string half = to.as_bits(c.to, float_to_float(to, c, to.read(instruction.operands[i + 1], c.from)));
    halves[i] = to.let("zext i16 " + half + " to i32");
  }
  const std::string upper = to.let("shl i32 " + halves[0] + ", 16");
  to.write(instruction.operands[0], {Kind::kBits, 32}, to.let("or i32 " + upper + ", " + halves[1]));
}

void emit_cvt_pack(Emitter& to, const Instruction& instruction, Modifiers& modifiers) {
  modifiers.take("sat");
  const Type into = modifiers.take_type(), from = modifiers.take_type();
  // Bytes fill half of the word; the rest is that of another one.
  const std::size_t count = into.bits == 8 ? 4 : 3;
  to.expect_operands(instruction, count, count);
  if (into.bits == 8 && !modifiers.take("b32")) to.refuse("the form is not supported");
  if ((into.bits != 8 && into.bits != 16) || from != Type{Kind::kSigned, 32}) to.refuse("the form is not supported");
  const Conversion c{into, from, {}, {}, false, true, false};
  const std::string a = integer_to_integer(to, c, to.read(instruction.operands[1], from));
  const std::string b = integer_to_integer(to, c, to.read(instruction.operands[2], from));
  const std::string t = integer_type(into.bits);
  const std::string low = to.let("zext " + t + " " + b + " to i32");
  const std::string high =
      to.let("shl i32 " + to.let("zext " + t + " " + a + " to i32") + ", " + std::to_string(into.bits));
  std::string result = to.let("or i32 " + high + ", " + low);
  if (into.bits == 8) {
    const std::string rest = to.let("shl i32 " + to.read_bits(instruction.operands[3], 32) + ", 16");
    result = to.let("or i32 " + result + ", " + rest);
  }
  to.write(instruction.operands[0], {Kind::kBits, 32}, result);
}

void emit_tf32(Emitter& to, const Instruction& instruction, Modifiers& modifiers, const Conversion& c) {
  to.expect_operands(instruction, 2, 2);
  const std::string_view rounding = modifiers.take("rna") ? "rna" : c.rounding;
  if (!modifiers.take("f32") || (rounding != "rna" && rounding != "rn" && rounding != "rz") || c.ftz || c.saturates)
    to.refuse("the form is not supported");
  std::string value = to.read(instruction.operands[1], kFloat32);
  if (c.relu) {
    const std::string negative = to.let("fcmp olt float " + value + ", 0.0");
    value = to.let("select i1 " + negative + ", float 0.0, float " + value);
  }
  const char* const mode = rounding == "rna" ? "0" : rounding == "rn" ? "1" : "2";
  to.write(instruction.operands[0], {Kind::kBits, 32},
           to.call("i32", "ptx_tf32", "i32 " + to.as_bits(kFloat32, value) + ", i32 " + mode));
}

void emit_cvt(Emitter& to, const Instruction& instruction, Modifiers& modifiers) {
  if (modifiers.take("pack")) return emit_cvt_pack(to, instruction, modifiers);
  if (emit_cvt_of_small(to, instruction, modifiers)) return;
  Conversion c;
  c.integer_rounding = modifiers.take_any({"rni", "rzi", "rmi", "rpi"});
  c.rounding = modifiers.take_any({"rn", "rz", "rm", "rp"});
  c.ftz = modifiers.take("ftz");
  c.relu = modifiers.take("relu");
  c.saturates = modifiers.take("sat");
  if (modifiers.take("tf32")) return emit_tf32(to, instruction, modifiers, c);
  c.to = modifiers.take_type();
  c.from = modifiers.take_type();
  if (c.to.bits == 0 || c.from.bits == 0 || c.to.kind == Kind::kPredicate || c.from.kind == Kind::kPredicate)
    to.refuse("the types are not supported");
  if (c.to.packed && !c.from.packed) return emit_pack(to, instruction, c);
  if (c.from.packed || c.to.packed) to.refuse("the types are not supported");
  to.expect_operands(instruction, 2, 2);
  const std::string value = to.read(instruction.operands[1], c.from, true);
  std::string result;
  if (c.from.is_float() && !c.to.is_float() && c.integer_rounding.empty()) to.refuse("needs a rounding to an integer");
  if (c.from.is_float()) {
    result = c.to.is_float() ? float_to_float(to, c, value) : float_to_integer(to, c, value);
  } else {
    result = c.to.is_float() ? integer_to_float(to, c, value) : integer_to_integer(to, c, value);
  }
  to.write(instruction.operands[0], c.to, result, true);
}

constexpr Opcode kTable[] = {{"cvt", emit_cvt}};

}  // namespace

Handler find_conversion(std::string_view opcode) { return find_in(kTable, opcode); }

}  // namespace simulator::ptx
