// SPDX-License-Identifier: Apache-2.0
// Branches, calls, returns; counting and limiting the instructions of a thread.
#include <algorithm>
#include <bit>
#include <cstddef>

#include "simulator/ptx/context.h"
#include "simulator/ptx/emit.h"

namespace simulator::ptx {

// A backward jump may belong to an endless loop, or to one that waits for another thread.
void Emitter::count_backward(unsigned target) {
  if (target > at_) return;
  shared_.out.has_loops = true;
  const std::string steps = let("load i64, i64* %steps");
  const std::string at = let("getelementptr i8, i8* %ctx, i64 " + std::to_string(offsetof(ThreadContext, step_limit)));
  const std::string typed = let("bitcast i8* " + at + " to i64*");
  const std::string limit = let("load i64, i64* " + typed);
  const std::string is_over = let("icmp ugt i64 " + steps + ", " + limit);
  const std::string over = new_label(), on = new_label();
  line("br i1 " + is_over + ", label %" + over + ", label %" + on + ", !prof !1");
  is_open_ = false;
  begin(over);
  call_void("ptx_tick", "i8* %ctx, i64 " + steps);
  jump(on);
  begin(on);
}

void Emitter::emit_branch(const Instruction& instruction, const std::string& condition) {
  const unsigned target = instruction.operands[0].index;
  count_backward(target);
  const std::string label = "I" + std::to_string(target);
  if (condition.empty()) return jump(label);
  const std::string next = "I" + std::to_string(at_ + 1);
  line("br i1 " + condition + ", label %" + (instruction.guard_negated ? next : label) + ", label %" +
       (instruction.guard_negated ? label : next));
  is_open_ = false;
}

void Emitter::emit_return() {
  hand_over_counts();
  line("ret void");
  is_open_ = false;
}

namespace {

void emit_bra(Emitter& to, const Instruction& instruction, Modifiers& modifiers) {
  modifiers.take("uni");
  to.expect_operands(instruction, 1, 1);
  if (instruction.operands[0].form != Operand::Form::kLabel) to.refuse("expected a label");
  std::string condition;
  if (instruction.guard >= 0) condition = to.let("load i1, i1* %r" + std::to_string(instruction.guard));
  to.emit_branch(instruction, condition);
}

void emit_brx(Emitter& to, const Instruction& instruction, Modifiers& modifiers) {
  modifiers.take("uni");
  modifiers.take("idx");
  to.expect_operands(instruction, 2, 2);
  const auto list = to.function().branch_targets.find(instruction.operands[1].name);
  if (list == to.function().branch_targets.end() || list->second.empty()) to.refuse("there are no such branch targets");
  const std::string index = to.read_bits(instruction.operands[0], 32);
  for (const unsigned target : list->second) to.count_backward(target);
  std::string cases;
  for (std::size_t i = 0; i + 1 < list->second.size(); ++i)
    cases += " i32 " + std::to_string(i) + ", label %I" + std::to_string(list->second[i]);
  to.end_with("switch i32 " + index + ", label %I" + std::to_string(list->second.back()) + " [" + cases + " ]");
}

void emit_ret(Emitter& to, const Instruction& instruction, Modifiers& modifiers) {
  modifiers.take("uni");
  to.expect_operands(instruction, 0, 0);
  to.emit_return();
}

void emit_exit(Emitter& to, const Instruction& instruction, Modifiers&) {
  to.expect_operands(instruction, 0, 0);
  if (!to.function().is_entry) {
    to.shared().out.needs_fibers = true;
    to.hand_over_counts();
    to.call_void("ptx_exit", "i8* %ctx");
    return to.end_with("unreachable");
  }
  to.emit_return();
}

void emit_trap(Emitter& to, const Instruction& instruction, Modifiers&) {
  to.call_void("ptx_trap", "i8* %ctx, i32 " + std::to_string(to.site(instruction)));
  to.end_with("unreachable");
}

// ---- calls

struct CallParts {
  std::vector<Operand> results, arguments;
  Operand target;
  std::string_view prototype;
};

CallParts parts_of(const Emitter& to, const Instruction& instruction) {
  CallParts parts;
  std::size_t at = 0;
  const auto& operands = instruction.operands;
  if (at < operands.size() && operands[at].form == Operand::Form::kList) parts.results = operands[at++].parts;
  if (at == operands.size()) to.refuse("calls nothing");
  parts.target = operands[at++];
  if (at < operands.size() && operands[at].form == Operand::Form::kList) parts.arguments = operands[at++].parts;
  if (at < operands.size() && operands[at].form == Operand::Form::kSymbol) parts.prototype = operands[at++].name;
  if (at != operands.size()) to.refuse("a call of a form that is not supported");
  return parts;
}

const Variable& slot_of(Emitter& to, const Operand& operand) {
  if (operand.form != Operand::Form::kSymbol || !operand.is_local ||
      to.function().variables[operand.index].space != Space::kParam)
    to.refuse("an argument that is no variable in .param space");
  return to.function().variables[operand.index];
}

// Arguments and results are passed in the caller's .param variables, by address.
std::string passed(Emitter& to, const std::vector<Operand>& operands, const std::vector<Variable>& declared) {
  if (operands.size() != declared.size()) to.refuse("another number of arguments than the function has");
  std::string text;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (slot_of(to, operands[i]).bytes < declared[i].bytes) to.refuse("an argument that is too small");
    text += ", i8* %v" + std::to_string(operands[i].index);
  }
  return text;
}

void call_function(Emitter& to, const CallParts& parts, const Function& function) {
  const std::string arguments =
      passed(to, parts.results, function.results) + passed(to, parts.arguments, function.parameters);
  to.shared().need(&function);
  to.hand_over_counts();
  to.line("call void @f" + std::to_string(to.module().function_index.at(function.name)) + "(i8* %ctx" + arguments +
          ")");
}

struct Builtin {
  std::string_view name;
  std::size_t results, arguments;
};

// From the CUDA C++ Programming Guide's "Formatted Output", "Assertion" and "Dynamic Global Memory Allocation".
constexpr Builtin kBuiltins[] = {
    {"vprintf", 1, 2}, {"__assertfail", 0, 5}, {"malloc", 1, 1}, {"free", 0, 1}, {"cudaGraphSetConditional", 0, 2}};

void call_builtin(Emitter& to, const Instruction& instruction, const CallParts& parts, std::string_view name) {
  for (const Builtin& builtin : kBuiltins) {
    if (builtin.name != name) continue;
    if (parts.results.size() != builtin.results || parts.arguments.size() != builtin.arguments)
      to.refuse("another number of arguments than the function has");
    std::string arguments = "i8* %ctx, i32 " + std::to_string(to.site(instruction));
    for (const std::vector<Operand>* const list : {&parts.results, &parts.arguments}) {
      for (const Operand& operand : *list) {
        slot_of(to, operand);
        arguments += ", i8* %v" + std::to_string(operand.index);
      }
    }
    to.shared().out.is_ordered = true;
    if (name == "malloc" || name == "free") to.shared().out.needs_heap = true;
    return to.call_void("ptx_" + std::string(name), arguments);
  }
  if (name.starts_with("cudaLaunchDevice") || name.starts_with("cudaGetParameterBuffer") ||
      name.starts_with("cudaCDP") || name.starts_with("__cudaCDP") || name.starts_with("__cuda_syscall_cnp"))
    to.refuse("launches kernels from a kernel ('" + std::string(name) + "'), which is not supported");
  to.refuse("calls '" + std::string(name) + "', which is not in the module and not known");
}

void call_pointer(Emitter& to, const Instruction& instruction, const CallParts& parts) {
  const auto prototype = to.function().prototypes.find(parts.prototype);
  if (prototype == to.function().prototypes.end()) to.refuse("a call by pointer without a prototype");
  const auto& [results, parameters] = prototype->second;
  const std::string arguments = passed(to, parts.results, results) + passed(to, parts.arguments, parameters);
  const std::string pointer = to.read_bits(parts.target, 64);
  to.shared().calls_by_pointer = true;
  const std::string number = to.let("sub i64 " + pointer + ", " + std::to_string(kFunctionPointers));
  const std::string shape = std::to_string(results.size() + parameters.size());
  const std::string site = std::to_string(to.site(instruction));
  const std::string found =
      to.let("call i8* @function_of(i8* %ctx, i64 " + number + ", i64 " + shape + ", i32 " + site + ")");
  std::string type = "void (i8*";
  for (std::size_t i = 0; i < results.size() + parameters.size(); ++i) type += ", i8*";
  type += ")*";
  const std::string typed = to.let("bitcast i8* " + found + " to " + type);
  to.hand_over_counts();
  to.line("call void " + typed + "(i8* %ctx" + arguments + ")");
  // Any function of the module may be called.
  for (const Function& function : to.module().functions) {
    if (function.has_body && !function.is_entry && to.module().addressed.contains(function.name))
      to.shared().need(&function);
  }
}

void emit_call(Emitter& to, const Instruction& instruction, Modifiers& modifiers) {
  modifiers.take("uni");
  const CallParts parts = parts_of(to, instruction);
  if (parts.target.form == Operand::Form::kRegister) return call_pointer(to, instruction, parts);
  if (parts.target.form != Operand::Form::kSymbol) to.refuse("calls what is no function");
  const Function* const function = to.module().find(parts.target.name);
  if (function != nullptr && function->has_body && !function->is_entry) return call_function(to, parts, *function);
  call_builtin(to, instruction, parts, parts.target.name);
}

constexpr std::uint64_t kMostAlignment = 4096;

// Memory of the function's frame, until it returns or stackrestore. Zeros, like other local memory.
void emit_alloca(Emitter& to, const Instruction& instruction, Modifiers& modifiers) {
  to.expect_operands(instruction, 2, 3);
  const Type type = modifiers.take_type();
  std::uint64_t alignment = 16;
  if (instruction.operands.size() == 3) {
    const Operand& given = instruction.operands[2];
    if (given.form != Operand::Form::kInteger || !std::has_single_bit(given.value) || given.value > kMostAlignment)
      to.refuse("expected an alignment");
    alignment = std::max(alignment, given.value);
  }
  if (type.bits != 64) to.refuse("an address of this space has 64 bits");
  const std::string size = to.read(instruction.operands[1], type);
  const std::string top = to.let("ptrtoint i8* " + to.call("i8*", "llvm.stacksave", "") + " to i64");
  const std::string low = to.context_field(offsetof(ThreadContext, stack_low), 64);
  const std::string room =
      to.let("sub i64 " + top + ", " + to.let("add i64 " + low + ", " + std::to_string(2 * alignment)));
  const std::string is_used_up = to.let("icmp slt i64 " + room + ", 0");
  const std::string is_too_much = to.let("icmp ugt i64 " + size + ", " + room);
  const std::string is_over = to.let("or i1 " + is_used_up + ", " + is_too_much);
  const std::string over = to.new_label(), on = to.new_label();
  to.end_with("br i1 " + is_over + ", label %" + over + ", label %" + on + ", !prof !1");
  to.begin(over);
  to.call_void("ptx_stack_overflow", "i8* %ctx");
  to.end_with("unreachable");
  to.begin(on);
  const std::string at = to.let("alloca i8, i64 " + size + ", align " + std::to_string(alignment));
  to.line("call void @llvm.memset.p0i8.i64(i8* " + at + ", i8 0, i64 " + size + ", i1 false)");
  to.write(instruction.operands[0], {Kind::kBits, 64}, to.let("ptrtoint i8* " + at + " to i64"));
}

void emit_stacksave(Emitter& to, const Instruction& instruction, Modifiers& modifiers) {
  to.expect_operands(instruction, 1, 1);
  if (modifiers.take_type().bits != 64) to.refuse("an address of this space has 64 bits");
  const std::string top = to.call("i8*", "llvm.stacksave", "");
  to.write(instruction.operands[0], {Kind::kBits, 64}, to.let("ptrtoint i8* " + top + " to i64"));
}

// Accepts only values that stacksave may have returned: any other number would crash the host.
void emit_stackrestore(Emitter& to, const Instruction& instruction, Modifiers& modifiers) {
  to.expect_operands(instruction, 1, 1);
  if (modifiers.take_type().bits != 64) to.refuse("an address of this space has 64 bits");
  const std::string wanted = to.read_bits(instruction.operands[0], 64);
  const std::string top = to.let("ptrtoint i8* " + to.call("i8*", "llvm.stacksave", "") + " to i64");
  const std::string used = to.let("sub i64 " + to.let("ptrtoint i8* %base to i64") + ", " + top);
  const std::string is_inside = to.let("icmp ule i64 " + to.let("sub i64 " + wanted + ", " + top) + ", " + used);
  const std::string chosen = to.let("select i1 " + is_inside + ", i64 " + wanted + ", i64 " + top);
  to.call_void("llvm.stackrestore", "i8* " + to.let("inttoptr i64 " + chosen + " to i8*"));
}

void emit_nothing(Emitter&, const Instruction&, Modifiers& modifiers) {
  while (!modifiers.take_first().empty()) {
  }
}

constexpr Opcode kTable[] = {
    {"bra", emit_bra},
    {"brx", emit_brx},
    {"ret", emit_ret},
    {"exit", emit_exit},
    {"trap", emit_trap},
    {"call", emit_call},
    {"alloca", emit_alloca},
    {"stacksave", emit_stacksave},
    {"stackrestore", emit_stackrestore},
    {"brkpt", emit_nothing},
    {"pmevent", emit_nothing},
    {"fence", emit_nothing},
    {"membar", emit_nothing},
    {"prefetch", emit_nothing},
    {"prefetchu", emit_nothing},
    {"discard", emit_nothing},
    {"applypriority", emit_nothing},
    {"griddepcontrol", emit_nothing},
    {"setmaxnreg", emit_nothing},
};

}  // namespace

Handler find_control(std::string_view opcode) { return find_in(kTable, opcode); }

std::string function_table(const Shared& shared) {
  std::string cases, blocks;
  for (const Function* const function : shared.known) {
    if (function->is_entry) continue;
    const std::string number = std::to_string(shared.module.function_index.at(function->name));
    const std::string count = std::to_string(function->results.size() + function->parameters.size());
    std::string type = "void (i8*";
    for (std::size_t i = 0; i < function->results.size() + function->parameters.size(); ++i) type += ", i8*";
    cases += " i64 " + std::to_string(16 * std::stoull(number)) + ", label %c" + number;
    blocks += "c" + number + ":\n  %s" + number + " = icmp eq i64 %shape, " + count + "\n  br i1 %s" + number +
              ", label %y" + number + ", label %none\ny" + number + ":\n  ret i8* bitcast (" + type + ")* @f" + number +
              " to i8*)\n";
  }
  return "declare void @ptx_no_function(i8*, i32)\n"
         "define internal i8* @function_of(i8* %ctx, i64 %number, i64 %shape, i32 %site) #1 {\n"
         "  switch i64 %number, label %none [" +
         cases + " ]\n" + blocks + "none:\n  call void @ptx_no_function(i8* %ctx, i32 %site)\n  unreachable\n}\n";
}

}  // namespace simulator::ptx
