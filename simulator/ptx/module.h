// SPDX-License-Identifier: Apache-2.0
// The syntax tree of PTX text: variables, functions, instructions with their operands. Names are views of the source,
// which must outlive the module.
//
// Invariants: an operand's register, variable or label exists in the function that contains the instruction. Which
// modifiers, types and operands an opcode accepts is checked by the emitter (emit.h).
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace simulator::ptx {

// The text is not PTX, or not supported: one sentence that names the line.
class Error : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

enum class Kind : std::uint8_t { kBits, kUnsigned, kSigned, kFloat, kBfloat, kPredicate };

// A scalar, or two packed in one word: halves in 32 bits, floats in 64.
struct Type {
  Kind kind = Kind::kBits;
  std::uint16_t bits = 0;
  bool packed = false;

  bool is_float() const { return kind == Kind::kFloat || kind == Kind::kBfloat; }
  bool is_signed() const { return kind == Kind::kSigned; }
  unsigned bytes() const { return bits / 8u; }
  bool operator==(const Type&) const = default;
};

// `.u32` without the dot; bits is 0 if the name is not a type.
Type type_of(std::string_view name);

// kShared is the block's own shared memory, kSharedCluster that of all blocks of its cluster.
enum class Space : std::uint8_t { kGeneric, kGlobal, kConst, kShared, kSharedCluster, kLocal, kParam };

struct Register {
  std::string_view name;
  Type type;
};

struct Variable {
  std::string name;
  Space space = Space::kGlobal;
  std::uint64_t bytes = 0;
  std::uint64_t alignment = 1;
  bool is_external = false;  // `.extern .shared x[]`: begins where the block's dynamic shared memory begins
};

struct Operand {
  enum class Form : std::uint8_t {
    kRegister,  // `index`; a predicate may be negated
    kInteger,   // `value`
    kFloat,     // `value` has the bits of a double, or of a float if is_single
    kSymbol,    // `name`: a variable or a function; `value` is added. is_local: `index` is a variable of the body
    kSpecial,   // `name`: %tid.x
    kAddress,   // [base + value]: `parts[0]` is a register, a symbol or an integer
    kVector,    // {parts}
    kList,      // (parts), of calls
    kPair,      // %p1|%p2
    kSink,      // _
    kLabel,     // `index`: an instruction's number
  };
  Form form = Form::kSink;
  bool is_negated = false;
  bool is_single = false;
  bool is_local = false;
  unsigned index = 0;
  std::uint64_t value = 0;
  std::string_view name;
  std::string_view part;  // of a register, in video instructions: `b0` of `%r1.b0`
  std::vector<Operand> parts;
};

struct Instruction {
  std::string_view opcode;
  std::vector<std::string_view> modifiers;  // without dots
  std::vector<Operand> operands;
  int guard = -1;  // register of the predicate; -1: none
  bool guard_negated = false;
  unsigned line = 0;
  unsigned source_file = 0, source_line = 0;  // of `.loc`; line 0: not given
};

struct Function {
  std::string_view name;
  std::size_t of_text = 0;  // in Module::files
  bool is_entry = false;
  bool has_body = false;
  std::uint32_t cluster[3] = {};     // the size that `.reqnctapercluster` asks for; zeros: none
  std::string_view unsupported;      // a directive that is not supported
  std::vector<Variable> results;     // .param
  std::vector<Variable> parameters;  // .param
  std::vector<Register> registers;
  std::vector<Variable> variables;  // .local, .shared and .param of the body
  std::vector<Instruction> code;
  std::map<std::string_view, std::pair<std::vector<Variable>, std::vector<Variable>>>
      prototypes;                                                    // results, parameters
  std::map<std::string_view, std::vector<unsigned>> branch_targets;  // of brx.idx: numbers of instructions
};

struct Module {
  std::string text;
  std::vector<Function> functions;
  std::vector<Variable> variables;  // of module scope
  // For each linked text, which begins with `.version`: file names by number, from its `.file` directives.
  std::vector<std::map<std::uint64_t, std::string_view>> files{1};
  std::map<std::string_view, unsigned> function_index;
  std::map<std::string, unsigned, std::less<>> variable_index;
  std::set<std::string, std::less<>> addressed;  // functions whose address is taken by code or a variable

  // The place of the instruction in the source code; "": not given.
  std::string source_of(const Function& function, const Instruction& instruction) const;
  const Function* find(std::string_view name) const {
    const auto found = function_index.find(name);
    return found == function_index.end() ? nullptr : &functions[found->second];
  }
};

}  // namespace simulator::ptx
