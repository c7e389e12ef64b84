// SPDX-License-Identifier: Apache-2.0
// From PTX to LLVM IR, as text: one function a function, run by one thread. The text is what the compiler is given
// (compile.h), what tests look at, and what keeps LLVM's headers out of all but one source.
//
// How things are kept. A register is a stack slot of its type (integers, float, double; halves are integers), which
// LLVM turns into values again. Addresses are 64-bit integers; a generic address is an address of this process; a
// shared one counts from the beginning of the block's shared memory. Every access to memory that is not known to be
// inside of a variable is checked (emit_memory.cc). Atomic operations are plain: no two threads run at once.
//
// Contract: a modifier, type or operand that is not understood is an Error that names it; nothing is passed over.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "simulator/ptx/module.h"

namespace simulator::ptx {

// Addresses of the module's variables on the device.
using VariableAddresses = std::map<std::string, std::uint64_t, std::less<>>;

// An instruction that may fail while it runs, for the message.
struct Site {
  unsigned line = 0;
  unsigned source_line = 0;
  std::string text;
};

struct Emitted {
  std::string ir;
  std::vector<Site> sites;
  std::uint64_t shared_bytes = 0;  // declared statically by the kernel and what it calls
  std::uint64_t shared_alignment = 16;
  bool needs_fibers = false;  // threads of a block wait for one another
  bool may_wait = false;      // reads what another thread may be about to write
  bool has_loops = false;
  bool uses_clusters = false;  // would compute something else in a cluster of several blocks
  bool needs_heap = false;     // allocates or frees
  bool is_ordered = false;     // blocks must run one after another: atomics, volatile accesses
  std::size_t instructions = 0;
  std::uint64_t stack_bytes = 0;  // of local variables and registers, all functions together
};

// The kernel and all that it may call. Throws Error.
Emitted emit_kernel(const Module& module, const Function& kernel, const VariableAddresses& addresses);

// What LLVM calls a value of this type.
std::string llvm_type(Type type);
std::string integer_type(unsigned bits);

// Modifiers of one instruction; whatever nobody took is refused in the end.
class Modifiers {
 public:
  explicit Modifiers(const Instruction& instruction) : left_(instruction.modifiers) {}

  bool take(std::string_view name);
  // The first of these that is there, else "".
  std::string_view take_any(std::initializer_list<std::string_view> names);
  // The first type; bits is 0 where there is none.
  Type take_type();
  // Whatever comes first, else "".
  std::string_view take_first();
  const std::vector<std::string_view>& left() const { return left_; }

 private:
  std::vector<std::string_view> left_;
};

struct Shared;  // of all functions of a kernel

class Emitter {
 public:
  Emitter(const Module& module, const Function& function, Shared& shared)
      : module_(module), function_(function), shared_(shared) {}

  void run();

  // ---- for the families of instructions
  const Module& module() const { return module_; }
  const Function& function() const { return function_; }
  Shared& shared() { return shared_; }
  [[noreturn]] void refuse(const std::string& reason) const;
  // The number of operands must be one of these.
  void expect_operands(const Instruction& instruction, std::size_t least, std::size_t most) const;

  // A new name; `let` also writes "name = text".
  std::string fresh();
  std::string let(const std::string& text);
  void line(const std::string& text);
  std::string new_label();
  void begin(const std::string& label);  // a block, which the code before it runs into
  void jump(const std::string& label);   // ends a block
  void end_with(const std::string& text) {
    line(text);
    is_open_ = false;
  }

  // The operand's value as a value of this type; a register must have its size, or more where it may be wider.
  std::string read(const Operand& operand, Type type, bool may_be_wider = false);
  // As an integer of so many bits.
  std::string read_bits(const Operand& operand, unsigned bits, bool may_be_wider = false);
  void write(const Operand& operand, Type type, const std::string& value, bool may_be_wider = false);
  Type register_type(const Operand& operand) const;
  std::string special(const Operand& operand, unsigned bits);  // emit_special.cc

  std::string as_bits(Type type, const std::string& value);    // to the integer of its size
  std::string from_bits(Type type, const std::string& value);  // and back

  // Calls of helpers: `result` and `arguments` with their types, "float" and "float %1, i32 2".
  std::string call(const std::string& result, const std::string& name, const std::string& arguments);
  void call_void(const std::string& name, const std::string& arguments);
  // A field of the context; it does not change while the thread runs.
  std::string context_field(std::size_t offset, unsigned bits);
  unsigned site(const Instruction& instruction);

  const std::string& result() const { return text_; }

  // ---- memory (emit_memory.cc)
  std::string address_of_symbol(const Operand& operand, Space* space, std::uint64_t* bytes);
  // A pointer of LLVM's to a value of `type` that may be accessed.
  std::string pointer(const Instruction& instruction, const Operand& operand, Space space, unsigned bytes, bool writes,
                      const std::string& type);
  std::string parameter_slot(std::string_view name) const;
  // Not checked: for helpers that do.
  std::string generic_address(const Operand& operand, Space space);
  std::string shared_base();  // address of the block's shared memory
  unsigned current_line() const { return current_ == nullptr ? 0 : current_->line; }

  // ---- control (emit_control.cc)
  void emit_return();
  void emit_branch(const Instruction& instruction, const std::string& condition);
  void count_backward(unsigned target);

 private:
  void declare_slots();
  void find_leaders();
  void emit_instruction(unsigned index);
  void count_steps(unsigned from);
  void check_stack();

  const Module& module_;
  const Function& function_;
  Shared& shared_;
  std::string text_;
  unsigned next_ = 0;
  unsigned next_label_ = 0;
  std::set<unsigned> leaders_;
  const Instruction* current_ = nullptr;
  bool is_open_ = false;  // the block has not ended
  unsigned at_ = 0;
};

// State of one kernel's emission.
struct Shared {
  const Module& module;
  const VariableAddresses& addresses;
  Emitted out;
  std::vector<const Function*> pending;  // to be emitted, in order
  std::set<const Function*> known;
  std::set<std::string> declarations;                  // of helpers
  std::map<const void*, std::uint64_t> shared_places;  // of variables, in shared memory
  std::uint64_t dynamic_alignment = 16;
  bool calls_by_pointer = false;

  void need(const Function* function) {
    if (known.insert(function).second) pending.push_back(function);
  }
};

// Which function a number means, for calls by pointer; those that are not in this kernel lead to nothing.
std::string function_table(const Shared& shared);

// `.global` and the like among the modifiers; generic where there is none.
Space take_space(Modifiers& modifiers);

// Of opcodes that integers and floating-point numbers share (emit_float.cc).
bool is_float_instruction(const Instruction& instruction);
void emit_float_binary(Emitter& to, const Instruction& instruction, Modifiers& modifiers);
void emit_fma(Emitter& to, const Instruction& instruction, Modifiers& modifiers);
void emit_float_extreme(Emitter& to, const Instruction& instruction, Modifiers& modifiers);
void emit_float_sign(Emitter& to, const Instruction& instruction, Modifiers& modifiers);

// Of cp (emit_async.cc).
void emit_copies_arrive(Emitter& to, const Instruction& instruction, Modifiers& modifiers);
void emit_bulk_copy(Emitter& to, const Instruction& instruction, Modifiers& modifiers);

using Handler = void (*)(Emitter&, const Instruction&, Modifiers&);
struct Opcode {
  std::string_view name;
  Handler handler;
};

// One table a family; nullptr where the family has no such opcode.
Handler find_arithmetic(std::string_view opcode);
Handler find_float(std::string_view opcode);
Handler find_logic(std::string_view opcode);
Handler find_conversion(std::string_view opcode);
Handler find_memory(std::string_view opcode);
Handler find_atomic(std::string_view opcode);
Handler find_control(std::string_view opcode);
Handler find_warp(std::string_view opcode);
Handler find_comparison(std::string_view opcode);
Handler find_texture(std::string_view opcode);
Handler find_matrix(std::string_view opcode);
Handler find_async(std::string_view opcode);

template <std::size_t N>
Handler find_in(const Opcode (&table)[N], std::string_view opcode) {
  for (const Opcode& entry : table) {
    if (entry.name == opcode) return entry.handler;
  }
  return nullptr;
}

}  // namespace simulator::ptx
