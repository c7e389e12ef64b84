// SPDX-License-Identifier: Apache-2.0
// Atomic operations and reductions. Only one thread runs at a time, and blocks of a kernel that has any of these run in
// order. So reading, computing and writing in sequence is atomic, and the result is always the same. Source: PTX ISA
// 9.0, 9.7.13.
#include "simulator/ptx/emit.h"

namespace simulator::ptx {
namespace {

std::string computed(Emitter& to, std::string_view op, Type type, const std::string& old, const std::string& b,
                     const std::string& c) {
  const std::string t = integer_type(type.bits);
  const auto intrinsic = [&](const std::string& name) {
    return to.call(t, "llvm." + name + "." + t, t + " " + old + ", " + t + " " + b);
  };
  if (op == "exch") return b;
  if (op == "and" || op == "or" || op == "xor") return to.let(std::string(op) + " " + t + " " + old + ", " + b);
  if (op == "min" || op == "max") return intrinsic((type.is_signed() ? "s" : "u") + std::string(op));
  if (op == "cas") {
    const std::string same = to.let("icmp eq " + t + " " + old + ", " + b);
    return to.let("select i1 " + same + ", " + t + " " + c + ", " + t + " " + old);
  }
  if (op == "inc") {
    const std::string over = to.let("icmp uge " + t + " " + old + ", " + b);
    return to.let("select i1 " + over + ", " + t + " 0, " + t + " " + to.let("add " + t + " " + old + ", 1"));
  }
  if (op == "dec") {
    const std::string none = to.let("icmp eq " + t + " " + old + ", 0");
    const std::string over = to.let("icmp ugt " + t + " " + old + ", " + b);
    const std::string wraps = to.let("or i1 " + none + ", " + over);
    return to.let("select i1 " + wraps + ", " + t + " " + b + ", " + t + " " + to.let("sub " + t + " " + old + ", 1"));
  }
  if (op == "add") return to.let("add " + t + " " + old + ", " + b);
  to.refuse("the operation is not supported");
}

// Sums of floating-point numbers; packed halves by a helper.
std::string computed_float(Emitter& to, std::string_view op, Type type, const std::string& old, const std::string& b) {
  const std::string bits = integer_type(type.bits);
  if (op == "exch") return b;
  const bool is_extreme = op == "min" || op == "max";
  if (type.packed && type.bits != 32) to.refuse("the type is not supported");
  if (op != "add" && !is_extreme) to.refuse("the operation is not supported");
  if (type.bits == 16 || type.packed) {
    const std::string name = std::string("ptx_") + std::string(op) + (type.kind == Kind::kBfloat ? "_bf16" : "_f16") +
                             (type.packed ? "x2" : "");
    return to.call(bits, name, bits + " " + old + ", " + bits + " " + b);
  }
  if (is_extreme) to.refuse("the type is not supported");
  const std::string x = to.from_bits(type, old), y = to.from_bits(type, b);
  return to.as_bits(type, to.let("fadd " + llvm_type(type) + " " + x + ", " + y));
}

// Operations with `.sys` scope on integers, between the device and host threads that run at the same time: the host's
// own atomic operations. Empty if there is none.
std::string computed_for_host(Emitter& to, std::string_view op, Type type, const std::string& pointer,
                              const std::string& b, const std::string& c) {
  if (type.bits != 32 && type.bits != 64) return {};
  const std::string t = integer_type(type.bits);
  if (op == "cas") {
    const std::string both =
        to.let("cmpxchg " + t + "* " + pointer + ", " + t + " " + b + ", " + t + " " + c + " seq_cst seq_cst");
    return to.let("extractvalue { " + t + ", i1 } " + both + ", 0");
  }
  std::string name(op);
  if (op == "exch") name = "xchg";
  if (op == "min" || op == "max") name = (type.is_signed() ? "" : "u") + name;
  if ((op == "inc" || op == "dec") && type.bits == 32)
    return to.call(t, "ptx_" + name + "_shared_with_host",
                   "i64 " + to.let("ptrtoint i32* " + pointer + " to i64") + ", i32 " + b);
  if (op == "inc" || op == "dec" || (type.is_float() && op != "exch")) return {};
  return to.let("atomicrmw " + name + " " + t + "* " + pointer + ", " + t + " " + b + " seq_cst");
}

// `.v2.f32`: each element by itself, one after the other.
void emit_vector(Emitter& to, const Instruction& instruction, Space space, std::string_view op, Type type,
                 unsigned elements, bool has_policy) {
  const bool returns = instruction.opcode == "atom";
  const std::size_t count = (returns ? 3u : 2u) + (has_policy ? 1u : 0u);
  to.expect_operands(instruction, count, count);
  const Operand& address = instruction.operands[returns ? 1 : 0];
  const Operand& values = instruction.operands[returns ? 2 : 1];
  const auto is_vector = [&](const Operand& operand) {
    return operand.form == Operand::Form::kVector && operand.parts.size() == elements;
  };
  if (!type.is_float() || elements * type.bits > 128 || op == "exch" || op == "cas")
    to.refuse("the form is not supported");
  if (!is_vector(values) || (returns && !is_vector(instruction.operands[0]))) to.refuse("a vector of another size");
  const std::string t = integer_type(type.bits);
  std::vector<std::string> given, olds;
  for (const Operand& part : values.parts) given.push_back(to.read_bits(part, type.bits));
  const std::string first = to.pointer(instruction, address, space, elements * type.bytes(), true, t);
  for (unsigned i = 0; i < elements; ++i) {
    const std::string at = to.let("getelementptr " + t + ", " + t + "* " + first + ", i32 " + std::to_string(i));
    olds.push_back(to.let("load volatile " + t + ", " + t + "* " + at));
    to.line("store volatile " + t + " " + computed_float(to, op, type, olds.back(), given[i]) + ", " + t + "* " + at);
  }
  if (!returns) return;
  for (unsigned i = 0; i < elements; ++i) to.write(instruction.operands[0].parts[i], {Kind::kBits, type.bits}, olds[i]);
}

void emit_atomic(Emitter& to, const Instruction& instruction, Modifiers& modifiers) {
  const bool returns = instruction.opcode == "atom";
  modifiers.take("async");
  modifiers.take_any({"relaxed", "acquire", "release", "acq_rel", "seq_cst"});
  const bool with_host = modifiers.take_any({"cta", "cluster", "gpu", "sys"}) == "sys";
  const Space space = take_space(modifiers);
  const std::string_view op =
      modifiers.take_any({"add", "exch", "cas", "min", "max", "inc", "dec", "and", "or", "xor"});
  modifiers.take("noftz");
  const bool has_policy = modifiers.take("L2::cache_hint");
  const std::string_view vector = modifiers.take_any({"v2", "v4", "v8"});
  const Type type = modifiers.take_type();
  if (space != Space::kShared) to.shared().out.is_ordered = true;
  if (!vector.empty())
    return emit_vector(to, instruction, space, op, type, static_cast<unsigned>(vector[1] - '0'), has_policy);
  if (op.empty() || type.bits < 16) to.refuse("the form is not supported");
  const std::size_t count = (returns ? 1u : 0u) + (op == "cas" ? 3u : 2u) + (has_policy ? 1u : 0u);
  to.expect_operands(instruction, count, count);
  const std::size_t at = returns ? 1 : 0;
  if (op == "cas" || op == "exch") to.shared().out.may_wait = true;
  const std::string t = integer_type(type.bits);
  const std::string b = to.read_bits(instruction.operands[at + 1], type.bits);
  const std::string c = op == "cas" ? to.read_bits(instruction.operands[at + 2], type.bits) : "";
  const std::string pointer = to.pointer(instruction, instruction.operands[at], space, type.bytes(), true, t);
  if (with_host) {
    const std::string found = computed_for_host(to, op, type, pointer, b, c);
    if (!found.empty()) {
      if (returns) to.write(instruction.operands[0], {Kind::kBits, type.bits}, found);
      return;
    }
  }
  const std::string old = to.let("load volatile " + t + ", " + t + "* " + pointer);
  const bool is_float = type.is_float() && op != "cas";
  const std::string value = is_float ? computed_float(to, op, type, old, b) : computed(to, op, type, old, b, c);
  to.line("store volatile " + t + " " + value + ", " + t + "* " + pointer);
  if (returns) to.write(instruction.operands[0], {Kind::kBits, type.bits}, old);
}

constexpr Opcode kTable[] = {{"atom", emit_atomic}, {"red", emit_atomic}};

}  // namespace

Handler find_atomic(std::string_view opcode) { return find_in(kTable, opcode); }

}  // namespace simulator::ptx
