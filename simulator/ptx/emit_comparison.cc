// SPDX-License-Identifier: Apache-2.0
// mov, comparisons and selections. Source: PTX ISA 9.0, 9.7.6, 9.7.7 and 9.7.9.3.
#include "simulator/ptx/emit.h"

namespace simulator::ptx {
namespace {

constexpr Type kWord{Kind::kBits, 32};
constexpr Type kPredicate{Kind::kPredicate, 1};

// ---- mov

std::string resized(Emitter& to, const std::string& value, unsigned from, unsigned into) {
  if (from == into) return value;
  return to.let((from < into ? "zext " : "trunc ") + integer_type(from) + " " + value + " to " + integer_type(into));
}

void pack(Emitter& to, const Instruction& instruction, Type type) {
  const std::vector<Operand>& parts = instruction.operands[1].parts;
  const auto bits = static_cast<unsigned>(type.bits / parts.size());
  std::string result = "0";
  for (std::size_t i = 0; i < parts.size(); ++i) {
    std::string part = resized(to, to.read_bits(parts[i], bits), bits, type.bits);
    if (i != 0) part = to.let("shl " + integer_type(type.bits) + " " + part + ", " + std::to_string(bits * i));
    result = to.let("or " + integer_type(type.bits) + " " + result + ", " + part);
  }
  to.write(instruction.operands[0], {Kind::kBits, type.bits}, result);
}

void unpack(Emitter& to, const Instruction& instruction, Type type) {
  const std::vector<Operand>& parts = instruction.operands[0].parts;
  const auto bits = static_cast<unsigned>(type.bits / parts.size());
  const std::string value = to.read_bits(instruction.operands[1], type.bits);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].form == Operand::Form::kSink) continue;
    const std::string shifted =
        to.let("lshr " + integer_type(type.bits) + " " + value + ", " + std::to_string(bits * i));
    to.write(parts[i], {Kind::kBits, static_cast<std::uint16_t>(bits)}, resized(to, shifted, type.bits, bits));
  }
}

void emit_mov(Emitter& to, const Instruction& instruction, Modifiers& modifiers) {
  to.expect_operands(instruction, 2, 2);
  const Type type = modifiers.take_type();
  if (type.bits == 0) to.refuse("the type is not supported");
  const Operand& from = instruction.operands[1];
  for (const Operand& operand : instruction.operands) {
    if (operand.form == Operand::Form::kVector &&
        (operand.parts.empty() || type.bits % operand.parts.size() != 0 || type.bits / operand.parts.size() < 8))
      to.refuse("a vector of another size");
  }
  if (from.form == Operand::Form::kVector) return pack(to, instruction, type);
  if (instruction.operands[0].form == Operand::Form::kVector) return unpack(to, instruction, type);
  const bool is_name = from.form == Operand::Form::kSymbol;
  if (!is_name) return to.write(instruction.operands[0], type, to.read(from, type));
  if (type.bits != 32 && type.bits != 64) to.refuse("an address has 32 or 64 bits");
  Space space = Space::kGeneric;
  std::uint64_t bytes = 0;
  std::string address = to.address_of_symbol(from, &space, &bytes);
  if (from.value != 0) address = to.let("add i64 " + address + ", " + std::to_string(from.value));
  if (type.bits == 32 && space != Space::kShared) to.refuse("an address of this space has 64 bits");
  to.write(instruction.operands[0], {Kind::kBits, type.bits}, resized(to, address, 64, type.bits));
}

// ---- comparisons

struct Order {
  std::string_view name;
  const char* is_signed;
  const char* is_unsigned;
  const char* is_float;
};

constexpr Order kOrders[] = {
    {"eq", "eq", "eq", "oeq"},        {"ne", "ne", "ne", "one"},        {"lt", "slt", "ult", "olt"},
    {"le", "sle", "ule", "ole"},      {"gt", "sgt", "ugt", "ogt"},      {"ge", "sge", "uge", "oge"},
    {"lo", "ult", "ult", nullptr},    {"ls", "ule", "ule", nullptr},    {"hi", "ugt", "ugt", nullptr},
    {"hs", "uge", "uge", nullptr},    {"equ", nullptr, nullptr, "ueq"}, {"neu", nullptr, nullptr, "une"},
    {"ltu", nullptr, nullptr, "ult"}, {"leu", nullptr, nullptr, "ule"}, {"gtu", nullptr, nullptr, "ugt"},
    {"geu", nullptr, nullptr, "uge"}, {"num", nullptr, nullptr, "ord"}, {"nan", nullptr, nullptr, "uno"},
};

std::string compared(Emitter& to, std::string_view name, Type type, bool ftz, std::string a, std::string b) {
  for (const Order& order : kOrders) {
    if (order.name != name) continue;
    const char* const how = type.is_float() ? order.is_float : type.is_signed() ? order.is_signed : order.is_unsigned;
    if (how == nullptr) break;
    if (!type.is_float()) return to.let(std::string("icmp ") + how + " " + llvm_type(type) + " " + a + ", " + b);
    if (ftz) {
      a = to.flushed(type, a);
      b = to.flushed(type, b);
    }
    if (type.kind == Kind::kBfloat) {
      a = to.let("call float @bf16_to_float(i16 " + a + ")");
      b = to.let("call float @bf16_to_float(i16 " + b + ")");
      type = {Kind::kFloat, 32};
    }
    return to.let(std::string("fcmp ") + how + " " + llvm_type(type) + " " + a + ", " + b);
  }
  to.refuse("the comparison does not suit the type");
}

std::string_view take_order(Emitter& to, Modifiers& modifiers) {
  for (const Order& order : kOrders) {
    if (modifiers.take(order.name)) return order.name;
  }
  to.refuse("compares in no way that is known");
}

std::string combined(Emitter& to, const Instruction& instruction, std::string_view with, const std::string& value) {
  if (with.empty()) return value;
  to.expect_operands(instruction, 4, 4);
  return to.let(std::string(with) + " i1 " + value + ", " + to.read(instruction.operands[3], kPredicate));
}

// Compares halves of the packed operands; `part` is 0 for the lower ones.
std::string compared_half(Emitter& to, const Instruction& instruction, std::string_view order, Type type, bool ftz,
                          unsigned part) {
  const Type half{type.kind, 16, false};
  std::string values[2];
  for (std::size_t i = 0; i < 2; ++i) {
    values[i] = to.read_bits(instruction.operands[i + 1], 32);
    if (part == 1) values[i] = to.let("lshr i32 " + values[i] + ", 16");
    values[i] = to.from_bits(half, to.let("trunc i32 " + values[i] + " to i16"));
  }
  return compared(to, order, half, ftz, values[0], values[1]);
}

void emit_setp_halves(Emitter& to, const Instruction& instruction, std::string_view order, std::string_view with,
                      Type type, bool ftz) {
  const Operand& pair = instruction.operands[0];
  if (pair.form != Operand::Form::kPair) to.refuse("expected p|q");
  std::string results[2];
  for (unsigned part = 0; part < 2; ++part)
    results[part] = combined(to, instruction, with, compared_half(to, instruction, order, type, ftz, part));
  for (unsigned part = 0; part < 2; ++part) to.write(pair.parts[part], kPredicate, results[part]);
}

void emit_setp(Emitter& to, const Instruction& instruction, Modifiers& modifiers) {
  const std::string_view order = take_order(to, modifiers);
  const std::string_view with = modifiers.take_any({"and", "or", "xor"});
  const bool ftz = modifiers.take("ftz");
  const Type type = modifiers.take_type();
  if (type.bits < 16) to.refuse("the type is not supported");
  to.expect_operands(instruction, with.empty() ? 3 : 4, with.empty() ? 3 : 4);
  if (type.packed) return emit_setp_halves(to, instruction, order, with, type, ftz);
  const std::string a = to.read(instruction.operands[1], type), b = to.read(instruction.operands[2], type);
  const std::string value = compared(to, order, type, ftz, a, b);
  const Operand& into = instruction.operands[0];
  // The second destination gets the opposite, combined in the same way.
  if (into.form == Operand::Form::kPair) {
    const std::string opposite = combined(to, instruction, with, to.let("xor i1 " + value + ", true"));
    const std::string first = combined(to, instruction, with, value);
    to.write(into.parts[0], kPredicate, first);
    return to.write(into.parts[1], kPredicate, opposite);
  }
  to.write(into, kPredicate, combined(to, instruction, with, value));
}

// The value that `set` writes for true: all ones, or 1.0 as a floating-point number.
std::string true_value(Type type) {
  if (!type.is_float()) return "-1";
  return type.bits == 32 ? "1065353216" : type.kind == Kind::kBfloat ? "16256" : "15360";
}

void emit_set_halves(Emitter& to, const Instruction& instruction, std::string_view order, std::string_view with,
                     Type into, Type type, bool ftz) {
  if (into.packed && into != type) to.refuse("the types are not supported");
  const Type half = into.packed ? Type{into.kind, 16, false} : Type{Kind::kBits, 16, false};
  std::string words[2];
  for (unsigned part = 0; part < 2; ++part) {
    const std::string value = combined(to, instruction, with, compared_half(to, instruction, order, type, ftz, part));
    const std::string chosen = to.let("select i1 " + value + ", i16 " + true_value(half) + ", i16 0");
    words[part] = to.let("zext i16 " + chosen + " to i32");
  }
  const std::string upper = to.let("shl i32 " + words[1] + ", 16");
  to.write(instruction.operands[0], kWord, to.let("or i32 " + words[0] + ", " + upper));
}

void emit_set(Emitter& to, const Instruction& instruction, Modifiers& modifiers) {
  const std::string_view order = take_order(to, modifiers);
  const std::string_view with = modifiers.take_any({"and", "or", "xor"});
  const bool ftz = modifiers.take("ftz");
  const Type into = modifiers.take_type(), type = modifiers.take_type();
  to.expect_operands(instruction, with.empty() ? 3 : 4, with.empty() ? 3 : 4);
  if (type.packed && into.bits == 32) return emit_set_halves(to, instruction, order, with, into, type, ftz);
  // A result of 16 bits is for halves alone.
  const bool is_half = type.is_float() && type.bits == 16;
  if ((into.bits != 32 && !(is_half && into.bits == 16)) || into.packed || type.bits < 16 || type.packed)
    to.refuse("the types are not supported");
  const std::string a = to.read(instruction.operands[1], type), b = to.read(instruction.operands[2], type);
  const std::string value = combined(to, instruction, with, compared(to, order, type, ftz, a, b));
  const std::string t = integer_type(into.bits);
  to.write(instruction.operands[0], {Kind::kBits, into.bits},
           to.let("select i1 " + value + ", " + t + " " + true_value(into) + ", " + t + " 0"));
}

void emit_selp(Emitter& to, const Instruction& instruction, Modifiers& modifiers) {
  to.expect_operands(instruction, 4, 4);
  const Type type = modifiers.take_type();
  if (type.bits < 16) to.refuse("the type is not supported");
  const std::string t = llvm_type(type);
  const std::string a = to.read(instruction.operands[1], type), b = to.read(instruction.operands[2], type);
  const std::string p = to.read(instruction.operands[3], kPredicate);
  to.write(instruction.operands[0], type, to.let("select i1 " + p + ", " + t + " " + a + ", " + t + " " + b));
}

void emit_slct(Emitter& to, const Instruction& instruction, Modifiers& modifiers) {
  to.expect_operands(instruction, 4, 4);
  const bool ftz = modifiers.take("ftz");
  const Type type = modifiers.take_type(), by = modifiers.take_type();
  if (type.bits < 16 || by.bits != 32) to.refuse("the types are not supported");
  const std::string t = llvm_type(type);
  const std::string a = to.read(instruction.operands[1], type), b = to.read(instruction.operands[2], type);
  std::string c = to.read(instruction.operands[3], by);
  if (ftz && by.is_float()) c = to.let("call float @ftz(float " + c + ")");
  const std::string first = to.let(by.is_float() ? "fcmp oge float " + c + ", 0.0" : "icmp sge i32 " + c + ", 0");
  to.write(instruction.operands[0], type, to.let("select i1 " + first + ", " + t + " " + a + ", " + t + " " + b));
}

constexpr Opcode kTable[] = {
    {"mov", emit_mov}, {"setp", emit_setp}, {"set", emit_set}, {"selp", emit_selp}, {"slct", emit_slct},
};

}  // namespace

Handler find_comparison(std::string_view opcode) { return find_in(kTable, opcode); }

}  // namespace simulator::ptx
