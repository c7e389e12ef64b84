// SPDX-License-Identifier: Apache-2.0
#include "simulator/ptx/emit.h"

#include <algorithm>
#include <cstddef>

#include "simulator/ptx/context.h"
#include "simulator/ptx/prelude.h"

namespace simulator::ptx {
namespace {

constexpr std::size_t kMostInstructions = 1u << 20;  // of a kernel with everything that it calls

Handler find_handler(std::string_view opcode) {
  for (const auto find :
       {find_arithmetic, find_float, find_logic, find_conversion, find_memory, find_atomic, find_control, find_warp,
        find_comparison, find_texture, find_matrix, find_async, find_video, find_cluster}) {
    if (const Handler handler = find(opcode); handler != nullptr) return handler;
  }
  return nullptr;
}

bool is_branch(const Instruction& instruction) { return instruction.opcode == "bra" || instruction.opcode == "brx"; }

bool ends_block(const Instruction& instruction) {
  return is_branch(instruction) || instruction.opcode == "ret" || instruction.opcode == "exit" ||
         instruction.opcode == "trap";
}

std::string written(const Instruction& instruction) {
  std::string text(instruction.opcode);
  for (const std::string_view modifier : instruction.modifiers) text += "." + std::string(modifier);
  return text;
}

std::string storage_type(Type type) {
  if (type == Type{Kind::kFloat, 32}) return "float";
  if (type == Type{Kind::kFloat, 64}) return "double";
  return integer_type(type.bits);
}

}  // namespace

std::string integer_type(unsigned bits) { return "i" + std::to_string(bits); }

std::string llvm_type(Type type) {
  if (type.packed || type.kind != Kind::kFloat) return integer_type(type.bits);
  return type.bits == 16 ? "half" : type.bits == 32 ? "float" : "double";
}

bool Modifiers::take(std::string_view name) {
  for (auto at = left_.begin(); at != left_.end(); ++at) {
    if (*at != name) continue;
    left_.erase(at);
    return true;
  }
  return false;
}

std::string_view Modifiers::take_any(std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names) {
    if (take(name)) return name;
  }
  return {};
}

Type Modifiers::take_type() {
  for (auto at = left_.begin(); at != left_.end(); ++at) {
    const Type type = type_of(*at);
    if (type.bits == 0) continue;
    left_.erase(at);
    return type;
  }
  return {};
}

std::string_view Modifiers::take_first() {
  if (left_.empty()) return {};
  const std::string_view first = left_.front();
  left_.erase(left_.begin());
  return first;
}

void Emitter::refuse(const std::string& reason) const {
  std::string text = "kernel code '" + std::string(function_.name) + "'";
  if (current_ != nullptr) text += ", PTX line " + std::to_string(current_->line) + ", '" + written(*current_) + "'";
  throw Error(text + ": " + reason);
}

void Emitter::expect_operands(const Instruction& instruction, std::size_t least, std::size_t most) const {
  const std::size_t count = instruction.operands.size();
  if (count < least || count > most) refuse("takes another number of operands");
}

std::string Emitter::fresh() { return "%t" + std::to_string(next_++); }
void Emitter::line(const std::string& text) { text_ += "  " + text + "\n"; }
std::string Emitter::new_label() { return "x" + std::to_string(next_label_++); }

std::string Emitter::let(const std::string& text) {
  std::string name = fresh();
  line(name + " = " + text);
  return name;
}

void Emitter::begin(const std::string& label) {
  if (is_open_) line("br label %" + label);
  text_ += label + ":\n";
  is_open_ = true;
}

void Emitter::jump(const std::string& label) {
  line("br label %" + label);
  is_open_ = false;
}

std::string Emitter::as_bits(Type type, const std::string& value) {
  const std::string name = llvm_type(type);
  return name[0] == 'i' ? value : let("bitcast " + name + " " + value + " to " + integer_type(type.bits));
}

std::string Emitter::from_bits(Type type, const std::string& value) {
  const std::string name = llvm_type(type);
  return name[0] == 'i' ? value : let("bitcast " + integer_type(type.bits) + " " + value + " to " + name);
}

std::string Emitter::flushed(Type type, const std::string& value) {
  if (type == Type{Kind::kFloat, 32}) return let("call float @ftz(float " + value + ")");
  if (type.bits != 16) return value;
  const std::string exponent = type.kind == Kind::kBfloat ? "32640" : "31744";
  return from_bits(type, let("call i16 @ftz_half(i16 " + as_bits(type, value) + ", i16 " + exponent + ")"));
}

Type Emitter::register_type(const Operand& operand) const {
  if (operand.form != Operand::Form::kRegister) refuse("expected a register");
  if (!operand.part.empty())
    refuse("a part of a register, '" + std::string(function_.registers[operand.index].name) + "." +
           std::string(operand.part) + "', where none can be");
  return function_.registers[operand.index].type;
}

std::string Emitter::read_bits(const Operand& operand, unsigned bits, bool may_be_wider) {
  return read(operand, {Kind::kBits, static_cast<std::uint16_t>(bits)}, may_be_wider);
}

namespace {

// The bits of a numeric literal, as a value of this type.
std::uint64_t bits_of(const Operand& operand, Type type) {
  if (operand.form == Operand::Form::kInteger) return operand.value;
  double value = 0;
  float single = 0;
  const auto low = static_cast<std::uint32_t>(operand.value);
  __builtin_memcpy(&single, &low, sizeof single);
  __builtin_memcpy(&value, &operand.value, sizeof value);
  if (type.bits == 64) {
    if (operand.is_single) value = static_cast<double>(single);
    std::uint64_t bits = 0;
    __builtin_memcpy(&bits, &value, sizeof bits);
    return operand.is_single ? bits : operand.value;
  }
  if (operand.is_single) return low;
  single = static_cast<float>(value);
  std::uint32_t bits = 0;
  __builtin_memcpy(&bits, &single, sizeof bits);
  return bits;
}

std::string number(std::uint64_t value, unsigned bits) {
  if (bits < 64) value &= (std::uint64_t{1} << bits) - 1;
  return bits == 1 ? (value != 0 ? "true" : "false") : std::to_string(value);
}

}  // namespace

std::string Emitter::read(const Operand& operand, Type type, bool may_be_wider) {
  const std::string wanted = llvm_type(type);
  switch (operand.form) {
    case Operand::Form::kInteger:
    case Operand::Form::kFloat: {
      const bool is_number = operand.form == Operand::Form::kFloat;
      if (is_number && type.bits != 32 && type.bits != 64) refuse("a floating-point number where none can be");
      if (!is_number && type.is_float() && !type.packed) refuse("an integer where a floating-point number must be");
      const std::string bits = number(bits_of(operand, type), type.bits);
      if (wanted[0] == 'i') return bits;
      return let("bitcast " + integer_type(type.bits) + " " + bits + " to " + wanted);
    }
    case Operand::Form::kRegister: {
      const Type stored = register_type(operand);
      const std::string storage = storage_type(stored);
      std::string value = let("load " + storage + ", " + storage + "* %r" + std::to_string(operand.index));
      if (operand.is_negated) {
        if (stored.bits != 1) refuse("'!' before what is no predicate");
        return let("xor i1 " + value + ", true");
      }
      if (storage == wanted) return value;
      if (storage[0] != 'i') value = let("bitcast " + storage + " " + value + " to " + integer_type(stored.bits));
      if (stored.bits != type.bits) {
        if (stored.bits < type.bits || !may_be_wider || stored.bits == 1 || type.bits == 1)
          refuse("register " +
                 std::string(operand.name.empty() ? function_.registers[operand.index].name : operand.name) +
                 " has another size");
        value = let("trunc " + integer_type(stored.bits) + " " + value + " to " + integer_type(type.bits));
      }
      return from_bits(type, value);
    }
    case Operand::Form::kSpecial:
      if (type.bits == 1 && operand.name == "%is_explicit_cluster")
        return let("trunc i32 " + special(operand, 32) + " to i1");
      if (type.is_float() || type.bits < 16) refuse("a special register where none can be");
      return special(operand, type.bits);
    default:
      refuse("an operand of a kind that is not supported here");
  }
}

void Emitter::write(const Operand& operand, Type type, const std::string& value, bool may_be_wider) {
  if (operand.form == Operand::Form::kSink) return;
  const Type stored = register_type(operand);
  const std::string storage = storage_type(stored);
  std::string given = value;
  if (llvm_type(type) != storage) {
    given = as_bits(type, given);
    if (stored.bits != type.bits) {
      if (stored.bits < type.bits || !may_be_wider || type.bits == 1) refuse("the destination has another size");
      const char* const extend = type.is_signed() ? "sext " : "zext ";
      given = let(extend + integer_type(type.bits) + " " + given + " to " + integer_type(stored.bits));
    }
    if (storage[0] != 'i') given = let("bitcast " + integer_type(stored.bits) + " " + given + " to " + storage);
  }
  line("store " + storage + " " + given + ", " + storage + "* %r" + std::to_string(operand.index));
}

namespace {

std::string types_only(const std::string& arguments) {
  std::string types;
  for (std::size_t at = 0; at < arguments.size();) {
    const std::size_t end = std::min(arguments.find(", ", at), arguments.size());
    types += (types.empty() ? "" : ", ") + arguments.substr(at, arguments.find(' ', at) - at);
    at = end + 2;
  }
  return types;
}

}  // namespace

std::string Emitter::call(const std::string& result, const std::string& name, const std::string& arguments) {
  shared_.declarations.insert("declare " + result + " @" + name + "(" + types_only(arguments) + ")\n");
  return let("call " + result + " @" + name + "(" + arguments + ")");
}

void Emitter::call_void(const std::string& name, const std::string& arguments) {
  shared_.declarations.insert("declare void @" + name + "(" + types_only(arguments) + ")\n");
  line("call void @" + name + "(" + arguments + ")");
}

std::string Emitter::context_field(std::size_t offset, unsigned bits) {
  const std::string type = integer_type(bits);
  const std::string at = let("getelementptr i8, i8* %ctx, i64 " + std::to_string(offset));
  const std::string typed = let("bitcast i8* " + at + " to " + type + "*");
  return let("load " + type + ", " + type + "* " + typed + ", !invariant.load !0");
}

unsigned Emitter::site(const Instruction& instruction) {
  shared_.out.sites.push_back({instruction.line, module_.source_of(function_, instruction), written(instruction)});
  return static_cast<unsigned>(shared_.out.sites.size() - 1);
}

namespace {

struct Counter {
  std::string_view slot;
  std::uint32_t Costs::*cost;
  std::size_t offset;  // in the thread's context
};

constexpr Counter kCounters[] = {
    {"%flops", &Costs::flops, offsetof(ThreadContext, counts.flops)},
    {"%doubles", &Costs::doubles, offsetof(ThreadContext, counts.doubles)},
    {"%tensor", &Costs::tensor_flops, offsetof(ThreadContext, counts.tensor_flops)},
    {"%accessed", &Costs::accessed, offsetof(ThreadContext, counts.accessed)},
};

// Visits the counters that are not zero.
template <typename Visit>
void for_counters(const Costs& costs, Visit visit) {
  for (const Counter& counter : kCounters) {
    if (costs.*counter.cost != 0) visit(counter);
  }
}

}  // namespace

void Emitter::declare_slots() {
  for (std::size_t i = 0; i < function_.registers.size(); ++i) {
    const std::string storage = storage_type(function_.registers[i].type);
    const std::string name = "%r" + std::to_string(i);
    line(name + " = alloca " + storage);
    line("store " + storage + (storage[0] == 'i' ? " 0" : " 0.0") + ", " + storage + "* " + name);
  }
  shared_.out.stack_bytes += 8 * function_.registers.size();
  for (std::size_t i = 0; i < function_.variables.size(); ++i) {
    const Variable& variable = function_.variables[i];
    if (variable.space == Space::kShared) continue;
    if (variable.bytes > (1u << 20)) refuse("variable '" + variable.name + "' is larger than a stack");
    shared_.out.stack_bytes += variable.bytes;
    const std::string type = "[" + std::to_string(std::max<std::uint64_t>(variable.bytes, 1)) + " x i8]";
    const std::string at =
        let("alloca " + type + ", align " + std::to_string(std::max<std::uint64_t>(variable.alignment, 16)));
    line("%v" + std::to_string(i) + " = bitcast " + type + "* " + at + " to i8*");
    if (variable.space == Space::kLocal)
      line("call void @llvm.memset.p0i8.i64(i8* %v" + std::to_string(i) + ", i8 0, i64 " +
           std::to_string(variable.bytes) + ", i1 false)");
  }
  line("%steps = alloca i64");
  line("store i64 0, i64* %steps");
  line("%handed = alloca i64");
  line("store i64 0, i64* %handed");
  for_counters(all_, [&](const Counter& counter) {
    line(std::string(counter.slot) + " = alloca i64");
    line("store i64 0, i64* " + std::string(counter.slot));
  });
  line("%copied = alloca i128");
  line("%matrix = alloca [64 x i32], align 16");
  line("%words = bitcast [64 x i32]* %matrix to i8*");
  line("%carry = alloca i1");
  line("store i1 false, i1* %carry");
  // Where allocations by alloca begin.
  if (std::ranges::any_of(function_.code, [](const Instruction& of) { return of.opcode == "stackrestore"; }))
    line("%base = bitcast i8* " + call("i8*", "llvm.stacksave", "") + " to i8*");
}

void Emitter::find_leaders() {
  leaders_.insert(0);
  for (std::size_t i = 0; i < function_.code.size(); ++i) {
    const Instruction& instruction = function_.code[i];
    if (is_branch(instruction)) {
      for (const Operand& operand : instruction.operands) {
        if (operand.form == Operand::Form::kLabel && instruction.opcode == "bra") leaders_.insert(operand.index);
      }
    }
    if (ends_block(instruction)) leaders_.insert(static_cast<unsigned>(i) + 1);
  }
  for (const auto& [name, targets] : function_.branch_targets) leaders_.insert(targets.begin(), targets.end());
}

// Counts all instructions of the basic block at its beginning; the costs of guarded ones are counted where these are
// executed.
void Emitter::count_steps(unsigned from) {
  const auto next = leaders_.upper_bound(from);
  const auto end = next == leaders_.end() ? static_cast<unsigned>(function_.code.size()) : *next;
  const std::string before = let("load i64, i64* %steps");
  const std::string after = let("add i64 " + before + ", " + std::to_string(end - from));
  line("store i64 " + after + ", i64* %steps");
  Costs costs;
  for (unsigned i = from; i < end; ++i) {
    if (function_.code[i].guard < 0) costs += costs_of(function_.code[i]);
  }
  count_costs(costs);
}

void Emitter::count_costs(const Costs& costs) {
  for_counters(costs, [&](const Counter& counter) {
    const std::string slot(counter.slot);
    const std::string sum =
        let("add i64 " + let("load i64, i64* " + slot) + ", " + std::to_string(costs.*counter.cost));
    line("store i64 " + sum + ", i64* " + slot);
  });
}

std::string Emitter::steps_since_handed_over() {
  return let("sub i64 " + let("load i64, i64* %steps") + ", " + let("load i64, i64* %handed"));
}

// Adds the counts since the last call to the thread's. %steps is not reset: count_backward() finds endless loops by it.
void Emitter::hand_over_counts() {
  const std::string in_context =
      let("getelementptr i8, i8* %ctx, i64 " + std::to_string(offsetof(ThreadContext, steps)));
  const std::string of_thread = let("bitcast i8* " + in_context + " to i64*");
  const std::string others = let("load i64, i64* " + of_thread);
  line("store i64 " + let("add i64 " + others + ", " + steps_since_handed_over()) + ", i64* " + of_thread);
  line("store i64 " + let("load i64, i64* %steps") + ", i64* %handed");
  for_counters(all_, [&](const Counter& counter) {
    const std::string slot(counter.slot);
    const std::string at = let("getelementptr i8, i8* %ctx, i64 " + std::to_string(counter.offset));
    const std::string typed = let("bitcast i8* " + at + " to i64*");
    const std::string before = let("load i64, i64* " + typed);
    line("store i64 " + let("add i64 " + before + ", " + let("load i64, i64* " + slot)) + ", i64* " + typed);
    line("store i64 0, i64* " + slot);
  });
}

void Emitter::emit_instruction(unsigned index) {
  const Instruction& instruction = function_.code[index];
  current_ = &instruction;
  at_ = index;
  const Handler handler = find_handler(instruction.opcode);
  if (handler == nullptr) refuse("the instruction is not supported");
  Modifiers modifiers(instruction);
  std::string behind;
  if (instruction.guard >= 0 && instruction.opcode != "bra") {
    const std::string guard = let("load i1, i1* %r" + std::to_string(instruction.guard));
    const std::string inside = new_label();
    behind = new_label();
    line("br i1 " + guard + ", label %" + (instruction.guard_negated ? behind : inside) + ", label %" +
         (instruction.guard_negated ? inside : behind));
    is_open_ = false;
    begin(inside);
    count_costs(costs_of(instruction));
  }
  handler(*this, instruction, modifiers);
  if (!modifiers.left().empty()) refuse("'." + std::string(modifiers.left().front()) + "' is not supported");
  if (!behind.empty()) begin(behind);
}

void Emitter::run() {
  shared_.out.instructions += function_.code.size();
  if (shared_.out.instructions > kMostInstructions) refuse("the kernel has too many instructions");
  for (const Register& of : function_.registers) {
    if (of.type.bits == 0) refuse("a register without a type");
  }
  if (function_.is_entry) {
    text_ += "define void @kernel(i8* noalias %ctx) #1 {\n";
  } else {
    text_ += "define internal void @f" + std::to_string(module_.function_index.at(function_.name)) + "(i8* %ctx";
    for (std::size_t i = 0; i < function_.results.size(); ++i) text_ += ", i8* %q" + std::to_string(i);
    for (std::size_t i = 0; i < function_.parameters.size(); ++i) text_ += ", i8* %p" + std::to_string(i);
    text_ += ") #1 {\n";
  }
  for (const Instruction& instruction : function_.code) all_ += costs_of(instruction);
  text_ += "entry:\n";
  is_open_ = true;
  declare_slots();
  if (!function_.is_entry) check_stack();
  find_leaders();
  spans_ = find_spans(function_);
  for (const auto& [first, span] : spans_) {
    for (const SpanMember& member : span.members) is_in_span_.insert(member.instruction);
  }
  for (unsigned index = 0; index < function_.code.size(); ++index) {
    if (leaders_.contains(index)) {
      begin("I" + std::to_string(index));
      count_steps(index);
    }
    emit_instruction(index);
  }
  current_ = nullptr;
  // A label may follow the last instruction.
  begin("I" + std::to_string(function_.code.size()));
  emit_return();
  text_ += "}\n\n";
}

// A recursive function must not overflow its stack undetected.
void Emitter::check_stack() {
  const std::string frame = let("call i8* @llvm.frameaddress.p0i8(i32 0)");
  const std::string at = let("ptrtoint i8* " + frame + " to i64");
  const std::string low = context_field(offsetof(ThreadContext, stack_low), 64);
  const std::string is_low = let("icmp ult i64 " + at + ", " + low);
  const std::string over = new_label(), on = new_label();
  line("br i1 " + is_low + ", label %" + over + ", label %" + on + ", !prof !1");
  is_open_ = false;
  begin(over);
  call_void("ptx_stack_overflow", "i8* %ctx");
  line("unreachable");
  is_open_ = false;
  begin(on);
}

Emitted emit_kernel(const Module& module, const Function& kernel, const VariableAddresses& addresses,
                    std::span<const ParameterPlace> parameters) {
  const auto is_as_large = [](const Variable& declared, const ParameterPlace& place) {
    return declared.bytes <= place.bytes;
  };
  if (!std::ranges::equal(kernel.parameters, parameters, is_as_large))
    throw Error("its PTX does not have the parameters that its compiled code has");
  if (!kernel.unsupported.empty())
    throw Error("kernel code '" + std::string(kernel.name) + "': " + std::string(kernel.unsupported) +
                " is not supported");
  Shared shared{module, addresses, parameters, {}, {}, {}, {}, {}, 16, false};
  shared.need(&kernel);
  std::string code;
  for (std::size_t i = 0; i < shared.pending.size(); ++i) {
    Emitter emitter(module, *shared.pending[i], shared);
    emitter.run();
    code += emitter.result();
  }
  // A loop that waits for another thread of its block ends only if that thread runs meanwhile.
  if (shared.out.may_wait && shared.out.has_loops) shared.out.needs_fibers = true;
  std::string table;
  if (shared.calls_by_pointer) table = function_table(shared);
  std::string declarations;
  for (const std::string& declaration : shared.declarations) declarations += declaration;
  shared.out.ir = std::string(kPrelude) + declarations + table + "\n" + code + std::string(kPostlude);
  return std::move(shared.out);
}

}  // namespace simulator::ptx
