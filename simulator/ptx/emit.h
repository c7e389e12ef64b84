// SPDX-License-Identifier: Apache-2.0
// Translates PTX to LLVM IR, as text: one function for each function, run by one thread. Text, because tests can check
// it, and because then only one source file (compile.cc) needs LLVM's headers.
//
// Representation: a register is a stack slot of its type (integers, float, double; halves are integers), which LLVM
// turns back into values. Addresses are 64-bit integers; a generic address is an address of this process; a shared one
// is an offset in the block's shared memory. Every memory access that is not known to be inside a variable is checked
// (emit_memory.cc). Atomic operations are plain operations: a kernel that has any on
// memory that several blocks share runs on one core (independent_blocks.h).
//
// Contract: a modifier, type or operand that is not understood is an Error that names it; nothing is ignored.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "simulator/ptx/costs.h"
#include "simulator/ptx/interface.h"
#include "simulator/ptx/module.h"
#include "simulator/ptx/spans.h"

namespace simulator::ptx {

// Device addresses of the module's variables.
using VariableAddresses = std::map<std::string, std::uint64_t, std::less<>>;

// An instruction that may fail at run time, for the message.
struct Site {
  unsigned line = 0;
  std::string source;  // Module::source_of
  std::string text;
  // For a member of a span (spans.h): its offset from the span's base, and its access, as for BlockRun::access.
  std::int64_t offset = 0;
  std::uint32_t access = 0;
};

struct Emitted {
  std::string ir;
  std::vector<Site> sites;
  std::uint64_t shared_bytes = 0;  // declared statically by the kernel and everything it calls
  std::uint64_t shared_alignment = 16;
  bool needs_fibers = false;  // threads of a block wait for one another
  bool may_wait = false;      // reads what another thread may be about to write
  bool has_loops = false;
  bool uses_clusters = false;  // the blocks of a cluster run together
  bool needs_heap = false;     // allocates or frees
  bool is_ordered = false;     // blocks must run one after the other: atomics, volatile accesses
  std::size_t instructions = 0;
  std::uint64_t stack_bytes = 0;  // of local variables and registers, of all functions together
};

// Emits the kernel and everything that it may call. Throws Error. `parameters`: the place of each parameter in what a
// launch passes.
Emitted emit_kernel(const Module& module, const Function& kernel, const VariableAddresses& addresses,
                    std::span<const ParameterPlace> parameters);

// LLVM's name of the type.
std::string llvm_type(Type type);
std::string integer_type(unsigned bits);

// The modifiers of one instruction; those that are not taken by the end are refused.
class Modifiers {
 public:
  explicit Modifiers(const Instruction& instruction) : left_(instruction.modifiers) {}

  bool take(std::string_view name);
  // The first of these names that is present, else "".
  std::string_view take_any(std::initializer_list<std::string_view> names);
  // The first modifier that is a type; bits is 0 if there is none.
  Type take_type();
  // The first remaining modifier, else "".
  std::string_view take_first();
  const std::vector<std::string_view>& left() const { return left_; }

 private:
  std::vector<std::string_view> left_;
};

struct Shared;  // state of all functions of a kernel

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
  // The number of operands must be in this range.
  void expect_operands(const Instruction& instruction, std::size_t least, std::size_t most) const;

  // A new name; `let` also writes "name = text".
  std::string fresh();
  std::string let(const std::string& text);
  void line(const std::string& text);
  std::string new_label();
  void begin(const std::string& label);  // begins a basic block; the code before it falls through
  void jump(const std::string& label);   // ends a basic block
  void end_with(const std::string& text) {
    line(text);
    is_open_ = false;
  }

  // The operand's value with this type; a register must have its size, or may be larger if `may_be_wider`.
  std::string read(const Operand& operand, Type type, bool may_be_wider = false);
  // The operand's value as an integer of this many bits.
  std::string read_bits(const Operand& operand, unsigned bits, bool may_be_wider = false);
  void write(const Operand& operand, Type type, const std::string& value, bool may_be_wider = false);
  Type register_type(const Operand& operand) const;
  std::string special(const Operand& operand, unsigned bits);  // emit_special.cc

  std::string as_bits(Type type, const std::string& value);    // to the integer of the same size
  std::string from_bits(Type type, const std::string& value);  // and back
  // `.ftz`: a subnormal number of 16 or 32 bits becomes zero with its sign; others are unchanged.
  std::string flushed(Type type, const std::string& value);

  // Calls a helper; `result` and `arguments` include their types: "float" and "float %1, i32 2".
  std::string call(const std::string& result, const std::string& name, const std::string& arguments);
  void call_void(const std::string& name, const std::string& arguments);
  // A field of the context that does not change while the thread runs.
  std::string context_field(std::size_t offset, unsigned bits);
  unsigned site(const Instruction& instruction);

  const std::string& result() const { return text_; }

  // ---- memory (emit_memory.cc)
  std::string address_of_symbol(const Operand& operand, Space* space, std::uint64_t* bytes);
  // An LLVM pointer to a value of `type` that has been checked to be accessible.
  std::string checked_address(const Instruction& instruction, const std::string& address, Space space, unsigned bytes,
                              bool writes);
  std::string pointer(const Instruction& instruction, const Operand& operand, Space space, unsigned bytes, bool writes,
                      const std::string& type);
  std::string parameter_slot(std::string_view name) const;
  // Not checked: for helpers that make their own checks.
  std::string generic_address(const Operand& operand, Space space);
  std::string shared_base();  // address of the block's shared memory
  // A generic address for an address in the cluster's shared memory. Not checked, but its block must be running.
  std::string address_in_cluster(const std::string& address);
  unsigned current_line() const { return current_ == nullptr ? 0 : current_->line; }

  // ---- control (emit_control.cc)
  void emit_return();
  void emit_branch(const Instruction& instruction, const std::string& condition);
  void count_backward(unsigned target);
  // To be called where control may leave the function for good: adds what it has counted so far to the thread's counts.
  void hand_over_counts();
  std::string steps_since_handed_over();

 private:
  void declare_slots();
  void find_leaders();
  void emit_instruction(unsigned index);
  void count_steps(unsigned from);
  void count_costs(const Costs& costs);
  void check_stack();
  void check_span(const Span& span, const std::string& base);

  const Module& module_;
  const Function& function_;
  Shared& shared_;
  std::string text_;
  unsigned next_ = 0;
  unsigned next_label_ = 0;
  std::set<unsigned> leaders_;
  std::map<unsigned, Span> spans_;  // by their first instruction
  std::set<unsigned> is_in_span_;   // instructions whose address has been checked with others
  const Instruction* current_ = nullptr;
  bool is_open_ = false;  // the basic block has not ended
  unsigned at_ = 0;
  Costs all_;  // of each instruction once: shows what the function counts at all
};

// State of one kernel's emission.
struct Shared {
  const Module& module;
  const VariableAddresses& addresses;
  std::span<const ParameterPlace> parameters;  // of the kernel
  Emitted out;
  std::vector<const Function*> pending;  // functions to be emitted, in order
  std::set<const Function*> known;
  std::set<std::string> declarations;                  // of helpers
  std::map<const void*, std::uint64_t> shared_places;  // by variable: offset in shared memory
  std::uint64_t dynamic_alignment = 16;
  bool calls_by_pointer = false;

  void need(const Function* function) {
    if (known.insert(function).second) pending.push_back(function);
  }
};

// Maps numbers to functions, for calls through pointers; a function that is not in this kernel is null.
std::string function_table(const Shared& shared);

// The state space among the modifiers, such as `.global`; generic if there is none.
Space take_space(Modifiers& modifiers);

// For opcodes that integers and floating-point numbers share (emit_float.cc).
bool is_float_instruction(const Instruction& instruction);
void emit_float_binary(Emitter& to, const Instruction& instruction, Modifiers& modifiers);
void emit_fma(Emitter& to, const Instruction& instruction, Modifiers& modifiers);
void emit_float_extreme(Emitter& to, const Instruction& instruction, Modifiers& modifiers);
void emit_float_sign(Emitter& to, const Instruction& instruction, Modifiers& modifiers);

// For cvt (emit_small_floats.cc): false if no type has fewer than 16 bits.
bool emit_cvt_of_small(Emitter& to, const Instruction& instruction, Modifiers& modifiers);

// For barrier (emit_cluster.cc).
void emit_cluster_barrier(Emitter& to, const Instruction& instruction, Modifiers& modifiers);

// For cp (emit_async.cc).
void emit_copies_arrive(Emitter& to, const Instruction& instruction, Modifiers& modifiers);
void emit_bulk_copy(Emitter& to, const Instruction& instruction, Modifiers& modifiers);

using Handler = void (*)(Emitter&, const Instruction&, Modifiers&);
struct Opcode {
  std::string_view name;
  Handler handler;
};

// One table for each family; nullptr if the family does not have the opcode.
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
Handler find_video(std::string_view opcode);
Handler find_cluster(std::string_view opcode);

template <std::size_t N>
Handler find_in(const Opcode (&table)[N], std::string_view opcode) {
  for (const Opcode& entry : table) {
    if (entry.name == opcode) return entry.handler;
  }
  return nullptr;
}

}  // namespace simulator::ptx
