// SPDX-License-Identifier: Apache-2.0
// Floating-point numbers. Results are those of IEEE 754 with the requested rounding. Operations that PTX calls
// approximate are computed exactly or by the host's functions, which are more precise than PTX requires. Halves are
// computed as float or double and rounded once more, which is exact if the wider format has at least twice the digits
// plus two (+, -, *, /, sqrt); fma has helpers. Source: PTX ISA 9.0, 9.7.3 to 9.7.5.
#include "simulator/ptx/emit.h"

namespace simulator::ptx {

bool is_float_instruction(const Instruction& instruction) {
  for (const std::string_view modifier : instruction.modifiers) {
    if (type_of(modifier).is_float()) return true;
  }
  return false;
}

namespace {

constexpr Type kFloat32{Kind::kFloat, 32};
constexpr Type kFloat64{Kind::kFloat, 64};
constexpr Type kFloat32x2{Kind::kFloat, 64, true};

struct Mode {
  Type type;
  std::string_view rounding = "rn";
  bool ftz = false;
  bool saturates = false;
  bool relu = false;
  bool approximate = false;
};

Mode take_mode(Emitter& to, Modifiers& modifiers) {
  Mode mode;
  mode.approximate = !modifiers.take_any({"approx", "full"}).empty();
  if (const std::string_view rounding = modifiers.take_any({"rn", "rz", "rm", "rp", "rna"}); !rounding.empty())
    mode.rounding = rounding;
  mode.ftz = modifiers.take("ftz");
  mode.saturates = modifiers.take("sat");
  mode.relu = modifiers.take("relu");
  mode.type = modifiers.take_type();
  if (!mode.type.is_float()) to.refuse("the type is not supported");
  if (mode.rounding != "rn" && mode.type.bits != 64 && mode.type != kFloat32)
    to.refuse("the rounding is not supported");
  return mode;
}

// For opcodes that do not have two floats in one word.
Mode take_mode_of_one(Emitter& to, Modifiers& modifiers) {
  const Mode mode = take_mode(to, modifiers);
  if (mode.type == kFloat32x2) to.refuse("the type is not supported");
  return mode;
}

std::string rounding_number(std::string_view rounding) {
  return rounding == "rz" ? "1" : rounding == "rm" ? "2" : rounding == "rp" ? "3" : "0";
}

std::string suffix(Type type) {
  if (type.kind == Kind::kBfloat) return "bf16";
  return type.bits == 16 ? "f16" : type.bits == 32 ? "f32" : "f64";
}

Type half_of(Type type) { return {type.kind, static_cast<std::uint16_t>(type.bits / 2), false}; }

// To the format in which operations are done, and back.
std::string to_float(Emitter& to, Type type, const std::string& value) {
  if (type.kind == Kind::kBfloat) return to.let("call float @bf16_to_float(i16 " + value + ")");
  if (type.bits == 16) return to.let("fpext half " + value + " to float");
  return value;
}

std::string from_float(Emitter& to, Type type, const std::string& value) {
  if (type.kind == Kind::kBfloat) return to.let("call i16 @float_to_bf16(float " + value + ")");
  if (type.bits == 16) return to.let("fptrunc float " + value + " to half");
  return value;
}

std::string flushed(Emitter& to, const Mode& mode, const std::string& value) {
  return mode.ftz ? to.flushed(mode.type, value) : value;
}

std::string finished(Emitter& to, const Mode& mode, std::string value) {
  value = flushed(to, mode, value);
  if (mode.relu || (mode.saturates && mode.type.bits == 16)) {
    std::string wide = to_float(to, mode.type, value);
    if (mode.saturates) wide = to.let("call float @saturate_float(float " + wide + ")");
    if (mode.relu) {
      // NaN is unchanged.
      const std::string negative = to.let("fcmp olt float " + wide + ", 0.0");
      wide = to.let("select i1 " + negative + ", float 0.0, float " + wide);
    }
    return from_float(to, mode.type, wide);
  }
  if (!mode.saturates) return value;
  const std::string t = llvm_type(mode.type);
  return to.let("call " + t + " @saturate_" + t + "(" + t + " " + value + ")");
}

using Compute = std::string (*)(Emitter&, const Instruction&, const Mode&, const std::vector<std::string>&);

// Operands 1 to n, with the result in operand 0; packed types half by half.
void emit_each(Emitter& to, const Instruction& instruction, const Mode& mode, std::size_t count, Compute compute) {
  to.expect_operands(instruction, count + 1, count + 1);
  if (!mode.type.packed) {
    std::vector<std::string> values;
    for (std::size_t i = 1; i <= count; ++i)
      values.push_back(flushed(to, mode, to.read(instruction.operands[i], mode.type)));
    const std::string result = finished(to, mode, compute(to, instruction, mode, values));
    return to.write(instruction.operands[0], mode.type, result);
  }
  Mode half = mode;
  half.type = half_of(mode.type);
  const std::string word = integer_type(mode.type.bits), part_type = integer_type(half.type.bits);
  const std::string width = std::to_string(half.type.bits);
  std::vector<std::string> packed;
  for (std::size_t i = 1; i <= count; ++i) packed.push_back(to.read_bits(instruction.operands[i], mode.type.bits));
  std::string halves[2];
  for (unsigned part = 0; part < 2; ++part) {
    std::vector<std::string> values;
    for (const std::string& value : packed) {
      const std::string shifted = part == 0 ? value : to.let("lshr " + word + " " + value + ", " + width);
      const std::string bits = to.let("trunc " + word + " " + shifted + " to " + part_type);
      values.push_back(flushed(to, half, to.from_bits(half.type, bits)));
    }
    const std::string result = finished(to, half, compute(to, instruction, half, values));
    halves[part] = to.let("zext " + part_type + " " + to.as_bits(half.type, result) + " to " + word);
  }
  const std::string upper = to.let("shl " + word + " " + halves[1] + ", " + width);
  to.write(instruction.operands[0], {Kind::kBits, mode.type.bits},
           to.let("or " + word + " " + halves[0] + ", " + upper));
}

std::string compute_binary(Emitter& to, const Instruction& instruction, const Mode& mode,
                           const std::vector<std::string>& v) {
  const std::string op(instruction.opcode);
  if (mode.rounding != "rn") {
    const std::string t = llvm_type(mode.type);
    return to.call(t, "ptx_" + op + "_" + suffix(mode.type),
                   t + " " + v[0] + ", " + t + " " + v[1] + ", i32 " + rounding_number(mode.rounding));
  }
  if (mode.type.bits != 16) return to.let("f" + op + " " + llvm_type(mode.type) + " " + v[0] + ", " + v[1]);
  const std::string a = to_float(to, mode.type, v[0]), b = to_float(to, mode.type, v[1]);
  return from_float(to, mode.type, to.let("f" + op + " float " + a + ", " + b));
}

std::string compute_fma(Emitter& to, const Instruction&, const Mode& mode, const std::vector<std::string>& v) {
  const std::string t = llvm_type(mode.type);
  const std::string arguments = t + " " + v[0] + ", " + t + " " + v[1] + ", " + t + " " + v[2];
  if (mode.type.bits == 16) {
    std::string bits;
    for (const std::string& value : v) bits += (bits.empty() ? "i16 " : ", i16 ") + to.as_bits(mode.type, value);
    return to.from_bits(mode.type, to.call("i16", "ptx_fma_" + suffix(mode.type), bits));
  }
  if (mode.rounding != "rn")
    return to.call(t, "ptx_fma_" + suffix(mode.type), arguments + ", i32 " + rounding_number(mode.rounding));
  return to.let("call " + t + " @llvm.fma." + suffix(mode.type) + "(" + arguments + ")");
}

// If one operand is NaN, the other one; if both are, the canonical NaN. -0 is less than +0.
std::string compute_extreme(Emitter& to, const Instruction& instruction, const Mode& mode,
                            const std::vector<std::string>& v) {
  const std::string a = to_float(to, mode.type, v[0]), b = to_float(to, mode.type, v[1]);
  const std::string t = mode.type.bits == 64 ? "double" : "float";
  std::string flags = instruction.opcode == "max" ? "1" : "0";
  for (const std::string_view modifier : instruction.modifiers) {
    if (modifier == "NaN") flags = std::to_string(std::stoi(flags) | 2);
    if (modifier == "xorsign") flags = std::to_string(std::stoi(flags) | 4);
  }
  const std::string suffix = t == "double" ? "f64" : "f32";
  const std::string arguments = t + " " + a + ", " + t + " " + b + ", i32 " + flags;
  // Most operands are different numbers, so one comparison suffices (prelude.cc).
  const std::string result = to.let("call " + t + " @extreme_" + suffix + "(" + arguments + ")");
  return from_float(to, mode.type, result);
}

std::string compute_sign(Emitter& to, const Instruction& instruction, const Mode& mode,
                         const std::vector<std::string>& v) {
  const std::string t = integer_type(mode.type.bits);
  const std::string bits = to.as_bits(mode.type, v[0]);
  const std::string sign = std::to_string(std::uint64_t{1} << (mode.type.bits - 1));
  const std::string others = std::to_string((std::uint64_t{1} << (mode.type.bits - 1)) - 1);
  return to.from_bits(mode.type, instruction.opcode == "neg" ? to.let("xor " + t + " " + bits + ", " + sign)
                                                             : to.let("and " + t + " " + bits + ", " + others));
}

// sqrt, rcp, sin and similar: one host helper for each.
std::string compute_function(Emitter& to, const Instruction& instruction, const Mode& mode,
                             const std::vector<std::string>& v) {
  const std::string op(instruction.opcode);
  const bool is_half = mode.type.bits == 16;
  const std::string t = mode.type.bits == 64 ? "double" : "float";
  const std::string a = to_float(to, mode.type, v[0]);
  std::string result;
  if (op == "rcp" && mode.rounding == "rn") {
    result = to.let("fdiv " + t + " 1.0, " + a);
  } else if (op == "rcp") {
    result = to.call(t, "ptx_div_" + std::string(t == "float" ? "f32" : "f64"),
                     t + " 1.0, " + t + " " + a + ", i32 " + rounding_number(mode.rounding));
  } else if (op == "sqrt" && mode.rounding == "rn") {
    result = to.call(t, t == "float" ? "llvm.sqrt.f32" : "llvm.sqrt.f64", t + " " + a);
  } else {
    result = to.call(t, "ptx_" + op + "_" + (t == "float" ? "f32" : "f64"),
                     t + " " + a + (op == "sqrt" ? ", i32 " + rounding_number(mode.rounding) : ""));
  }
  return is_half ? from_float(to, mode.type, result) : result;
}

void emit_function(Emitter& to, const Instruction& instruction, Modifiers& modifiers) {
  const Mode mode = take_mode_of_one(to, modifiers);
  const bool has_double = instruction.opcode == "sqrt" || instruction.opcode == "rcp" || instruction.opcode == "rsqrt";
  if (mode.type == kFloat64 && !has_double) to.refuse("the type is not supported");
  emit_each(to, instruction, mode, 1, compute_function);
}

void emit_copysign(Emitter& to, const Instruction& instruction, Modifiers& modifiers) {
  to.expect_operands(instruction, 3, 3);
  const Type type = modifiers.take_type();
  if (type != kFloat32 && type != kFloat64) to.refuse("the type is not supported");
  const std::string t = integer_type(type.bits);
  const std::string sign_bit = std::to_string(std::uint64_t{1} << (type.bits - 1));
  const std::string others = std::to_string((std::uint64_t{1} << (type.bits - 1)) - 1);
  const std::string sign =
      to.let("and " + t + " " + to.read_bits(instruction.operands[1], type.bits) + ", " + sign_bit);
  const std::string rest = to.let("and " + t + " " + to.read_bits(instruction.operands[2], type.bits) + ", " + others);
  to.write(instruction.operands[0], {Kind::kBits, type.bits}, to.let("or " + t + " " + sign + ", " + rest));
}

void emit_testp(Emitter& to, const Instruction& instruction, Modifiers& modifiers) {
  to.expect_operands(instruction, 2, 2);
  const std::string_view property =
      modifiers.take_any({"finite", "infinite", "number", "notanumber", "normal", "subnormal"});
  const Type type = modifiers.take_type();
  if (type != kFloat32 && type != kFloat64) to.refuse("the type is not supported");
  const std::string t = integer_type(type.bits);
  const bool single = type.bits == 32;
  const std::string infinity = single ? "2139095040" : "9218868437227405312";
  const std::string least = single ? "8388608" : "4503599627370496";
  const std::string others = std::to_string((std::uint64_t{1} << (type.bits - 1)) - 1);
  const std::string a = to.let("and " + t + " " + to.read_bits(instruction.operands[1], type.bits) + ", " + others);
  const auto compare = [&](const char* order, const std::string& with) {
    return to.let(std::string("icmp ") + order + " " + t + " " + a + ", " + with);
  };
  std::string result;
  if (property == "finite") {
    result = compare("ult", infinity);
  } else if (property == "infinite") {
    result = compare("eq", infinity);
  } else if (property == "number") {
    result = compare("ule", infinity);
  } else if (property == "notanumber") {
    result = compare("ugt", infinity);
  } else if (property == "normal") {
    result = to.let("and i1 " + compare("ult", infinity) + ", " + compare("uge", least));
  } else if (property == "subnormal") {
    result = to.let("and i1 " + compare("ne", "0") + ", " + compare("ult", least));
  } else {
    to.refuse("the property is not known");
  }
  to.write(instruction.operands[0], {Kind::kPredicate, 1}, result);
}

constexpr Opcode kTable[] = {
    {"fma", emit_fma},       {"sqrt", emit_function},     {"rcp", emit_function}, {"rsqrt", emit_function},
    {"sin", emit_function},  {"cos", emit_function},      {"lg2", emit_function}, {"ex2", emit_function},
    {"tanh", emit_function}, {"copysign", emit_copysign}, {"testp", emit_testp},
};

}  // namespace

void emit_float_binary(Emitter& to, const Instruction& instruction, Modifiers& modifiers) {
  const Mode mode = take_mode(to, modifiers);
  if (instruction.opcode == "div" && mode.type != kFloat32 && mode.type != kFloat64)
    to.refuse("the type is not supported");
  emit_each(to, instruction, mode, 2, compute_binary);
}

void emit_fma(Emitter& to, const Instruction& instruction, Modifiers& modifiers) {
  if (modifiers.take("oob")) to.refuse("'.oob' is not supported");
  emit_each(to, instruction, take_mode(to, modifiers), 3, compute_fma);
}

void emit_float_extreme(Emitter& to, const Instruction& instruction, Modifiers& modifiers) {
  modifiers.take("NaN");
  const bool xorsign = modifiers.take("xorsign");
  if (modifiers.take("abs") != xorsign) to.refuse("needs .xorsign.abs");
  const Mode mode = take_mode_of_one(to, modifiers);
  emit_each(to, instruction, mode, 2, compute_extreme);
}

void emit_float_sign(Emitter& to, const Instruction& instruction, Modifiers& modifiers) {
  emit_each(to, instruction, take_mode_of_one(to, modifiers), 1, compute_sign);
}

Handler find_float(std::string_view opcode) { return find_in(kTable, opcode); }

}  // namespace simulator::ptx
