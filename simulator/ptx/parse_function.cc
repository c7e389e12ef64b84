// SPDX-License-Identifier: Apache-2.0
#include "simulator/ptx/parse_function.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <unordered_map>

namespace simulator::ptx {
namespace {

constexpr unsigned kMostRegisters = 1u << 20;
constexpr unsigned kDeepestScope = 64;
constexpr std::size_t kMostOperands = 64;

// Registers, variables and labels are visible from their declaration to the end of the enclosing braces; labels in all
// of that scope.
struct Scope {
  int parent = -1;
  std::unordered_map<std::string_view, unsigned> registers;
  std::vector<std::pair<std::string_view, std::pair<unsigned, Type>>> ranges;  // `%r<10>`: prefix, count
  std::unordered_map<std::string, unsigned> variables;                         // numbers in Function::variables
  std::unordered_map<std::string_view, unsigned> labels;
};

// A label that an operand names, to be resolved when all labels are known.
struct Pending {
  unsigned instruction = 0;
  std::size_t operand = 0;
  int scope = 0;
};

class BodyParser {
 public:
  BodyParser(Tokens& tokens, const Module& module, Function* out) : tokens_(tokens), module_(module), out_(out) {}

  void run() {
    open();
    unsigned depth = 1;
    while (depth > 0) {
      if (tokens_.at_end()) tokens_.fail("the text ends inside a body");
      if (tokens_.is("{")) {
        if (++depth > kDeepestScope) tokens_.fail("braces too deep");
        open();
      } else if (tokens_.accept("}")) {
        current_ = scopes_[static_cast<std::size_t>(current_)].parent;
        --depth;
      } else {
        read_statement();
      }
    }
    find_labels();
  }

 private:
  Scope& scope() { return scopes_[static_cast<std::size_t>(current_)]; }

  void open() {
    tokens_.expect("{");
    scopes_.push_back({});
    scopes_.back().parent = current_;
    current_ = static_cast<int>(scopes_.size()) - 1;
  }

  void read_statement() {
    if (tokens_.accept(".reg")) return read_registers();
    if (tokens_.accept(".local")) return read_variable(Space::kLocal);
    if (tokens_.accept(".shared")) return read_variable(Space::kShared);
    if (tokens_.accept(".param")) return read_variable(Space::kParam);
    if (tokens_.accept(".loc")) return read_location();
    if (tokens_.accept(".pragma")) return skip_to_semicolon();
    if (tokens_.kind() == PtxToken::Kind::kDirective) tokens_.fail("directive that is not known here");
    if (tokens_.accept("@")) return read_guarded();
    if (tokens_.kind() != PtxToken::Kind::kWord) tokens_.fail("expected an instruction");
    const PtxToken word = tokens_.next();
    if (tokens_.accept(":")) return read_label(word.text);
    read_instruction(word.text, -1, false);
  }

  void skip_to_semicolon() {
    while (!tokens_.at_end() && !tokens_.accept(";")) tokens_.next();
  }

  // `.loc 1 12 3`, optionally followed by `, function_name label, inlined_at 1 2 3`.
  void read_location() {
    std::uint64_t numbers[3] = {};
    for (std::uint64_t& number : numbers) {
      if (!read_ptx_integer(tokens_.lexer().peek(), &number)) tokens_.fail("expected a number");
      tokens_.next();
    }
    source_file_ = static_cast<unsigned>(numbers[0]);
    source_line_ = static_cast<unsigned>(numbers[1]);
    while (tokens_.accept(",")) {
      while (tokens_.kind() == PtxToken::Kind::kWord || tokens_.kind() == PtxToken::Kind::kNumber) {
        // An instruction or a label may follow the numbers of the last part.
        const bool is_number = tokens_.kind() == PtxToken::Kind::kNumber;
        tokens_.next();
        if (tokens_.is("+")) {
          tokens_.next();
          continue;
        }
        if (is_number && tokens_.kind() != PtxToken::Kind::kNumber) break;
      }
    }
  }

  void read_label(std::string_view name) {
    if (tokens_.is(".branchtargets")) return read_targets(name);
    if (tokens_.accept(".callprototype")) return read_prototype(name);
    if (tokens_.is(".calltargets")) return skip_to_semicolon();
    scope().labels[name] = static_cast<unsigned>(out_->code.size());
  }

  void read_targets(std::string_view name) {
    tokens_.next();
    // Stored like an instruction's operands until all labels are known.
    target_lists_.push_back({name, {}, current_});
    do {
      if (tokens_.kind() != PtxToken::Kind::kWord) tokens_.fail("expected a label");
      target_lists_.back().labels.push_back(tokens_.next().text);
    } while (tokens_.accept(","));
    tokens_.expect(";");
  }

  void read_prototype(std::string_view name) {
    std::vector<Variable> results, parameters;
    if (tokens_.is("(")) results = read_parameters(tokens_);
    if (tokens_.kind() == PtxToken::Kind::kWord) tokens_.next();
    if (tokens_.is("(")) parameters = read_parameters(tokens_);
    skip_to_semicolon();
    out_->prototypes[name] = {std::move(results), std::move(parameters)};
  }

  void read_registers() {
    Type type;
    while (tokens_.kind() == PtxToken::Kind::kDirective) {
      type = type_of(tokens_.text().substr(1));
      if (type.bits == 0) tokens_.fail("registers of an unknown type");
      tokens_.next();
    }
    if (type.bits == 0) tokens_.fail("registers without a type");
    do {
      if (tokens_.kind() != PtxToken::Kind::kWord) tokens_.fail("expected a register");
      const std::string_view name = tokens_.next().text;
      std::uint64_t count = 0;
      if (tokens_.accept("<")) {
        if (!read_ptx_integer(tokens_.lexer().peek(), &count) || count > kMostRegisters)
          tokens_.fail("number of registers");
        tokens_.next();
        tokens_.expect(">");
        scope().ranges.push_back({name, {static_cast<unsigned>(count), type}});
      } else {
        scope().registers[name] = add_register(name, type);
      }
    } while (tokens_.accept(","));
    tokens_.expect(";");
  }

  unsigned add_register(std::string_view name, Type type) {
    if (out_->registers.size() >= kMostRegisters) tokens_.fail("too many registers");
    out_->registers.push_back({name, type});
    return static_cast<unsigned>(out_->registers.size() - 1);
  }

  // Variables with the same name in different braces are different ones.
  void read_variable(Space space) {
    PtxDeclaration declaration;
    if (!read_ptx_declaration(tokens_.lexer(), &declaration)) tokens_.fail("a variable that is not understood");
    for (;;) {
      scope().variables[declaration.name] = static_cast<unsigned>(out_->variables.size());
      out_->variables.push_back(variable_of(declaration, space));
      if (tokens_.accept(";")) return;
      if (!tokens_.accept(",") || !read_ptx_declarator(tokens_.lexer(), &declaration))
        tokens_.fail("a variable that is not understood");
    }
  }

  // ---- instructions

  void read_guarded() {
    const bool negated = tokens_.accept("!");
    const int guard = static_cast<int>(find_register(tokens_.next().text));
    if (tokens_.kind() != PtxToken::Kind::kWord) tokens_.fail("expected an instruction");
    read_instruction(tokens_.next().text, guard, negated);
  }

  void read_instruction(std::string_view opcode, int guard, bool negated) {
    Instruction instruction;
    instruction.opcode = opcode;
    instruction.guard = guard;
    instruction.guard_negated = negated;
    instruction.line = tokens_.line();
    instruction.source_file = source_file_;
    instruction.source_line = source_line_;
    while (tokens_.kind() == PtxToken::Kind::kDirective) instruction.modifiers.push_back(read_modifier());
    const bool is_call = opcode == "call";
    if (!tokens_.is(";")) {
      do {
        if (instruction.operands.size() == kMostOperands) tokens_.fail("too many operands");
        instruction.operands.push_back(read_operand(instruction, 0, is_call));
      } while (tokens_.accept(","));
    }
    tokens_.expect(";");
    out_->code.push_back(std::move(instruction));
  }

  // `.shared::cta`, `.L2::128B`: one modifier.
  std::string_view read_modifier() {
    const std::string_view first = tokens_.next().text;
    const char* end = first.data() + first.size();
    while (tokens_.is(":") && tokens_.text().data() == end) {
      tokens_.next();
      if (!tokens_.accept(":")) tokens_.fail("expected '::'");
      end = tokens_.text().data() + tokens_.text().size();
      tokens_.next();
    }
    return {first.data() + 1, static_cast<std::size_t>(end - first.data() - 1)};
  }

  Operand read_operand(const Instruction& of, unsigned depth, bool is_call) {
    if (depth > 4) tokens_.fail("operands too deep");
    if (tokens_.accept("{")) return read_parts(of, "}", Operand::Form::kVector, depth, false);
    if (tokens_.accept("(")) return read_parts(of, ")", Operand::Form::kList, depth, is_call);
    if (tokens_.accept("[")) return read_address(of, depth);
    Operand operand;
    if (tokens_.accept("!")) {
      operand = read_operand(of, depth + 1, is_call);
      operand.is_negated = true;
      return operand;
    }
    if (tokens_.kind() == PtxToken::Kind::kNumber || tokens_.is("-") || tokens_.is("+")) return read_number();
    if (tokens_.kind() != PtxToken::Kind::kWord) tokens_.fail("expected an operand");
    return read_name(of, depth);
  }

  Operand read_parts(const Instruction& of, std::string_view end, Operand::Form form, unsigned depth, bool is_call) {
    Operand operand;
    operand.form = form;
    if (tokens_.accept(end)) return operand;
    do {
      if (operand.parts.size() == kMostOperands) tokens_.fail("too many operands");
      operand.parts.push_back(read_operand(of, depth + 1, is_call));
    } while (tokens_.accept(","));
    tokens_.expect(end);
    return operand;
  }

  Operand read_address(const Instruction& of, unsigned depth) {
    Operand operand;
    operand.form = Operand::Form::kAddress;
    operand.parts.push_back(read_operand(of, depth + 1, false));
    // A tensor's coordinates, for example: stored only for the error message.
    while (tokens_.accept(",")) operand.parts.push_back(read_operand(of, depth + 1, false));
    if (operand.parts[0].form == Operand::Form::kSymbol) std::swap(operand.value, operand.parts[0].value);
    if (tokens_.accept("+")) operand.value += read_number().value;
    if (tokens_.is("-")) operand.value += read_number().value;
    tokens_.expect("]");
    return operand;
  }

  Operand read_number() {
    Operand operand;
    const bool negative = tokens_.accept("-");
    if (!negative) tokens_.accept("+");
    const PtxToken token = tokens_.next();
    const std::string_view text = token.text;
    operand.form = Operand::Form::kInteger;
    if (text.size() > 2 && text[0] == '0' && (text[1] == 'f' || text[1] == 'F' || text[1] == 'd' || text[1] == 'D')) {
      operand.form = Operand::Form::kFloat;
      operand.is_single = text[1] == 'f' || text[1] == 'F';
      const auto [at, error] = std::from_chars(text.data() + 2, text.data() + text.size(), operand.value, 16);
      if (error != std::errc() || at != text.data() + text.size() || negative) tokens_.fail("a number that is none");
      return operand;
    }
    if (tokens_.kind() == PtxToken::Kind::kDirective && tokens_.text().data() == text.data() + text.size())
      return read_decimal(text, negative);
    if (!read_ptx_integer(token, &operand.value)) tokens_.fail("a number that is none");
    if (negative) operand.value = ~operand.value + 1;
    return operand;
  }

  // `1.5`
  Operand read_decimal(std::string_view whole, bool negative) {
    const std::string_view fraction = tokens_.next().text;
    const std::string text = std::string(whole) + std::string(fraction);
    double value = 0;
    const auto [at, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || at != text.data() + text.size()) tokens_.fail("a number that is none");
    Operand operand;
    operand.form = Operand::Form::kFloat;
    operand.value = std::bit_cast<std::uint64_t>(negative ? -value : value);
    return operand;
  }

  Operand read_name(const Instruction& of, unsigned depth) {
    const std::string_view name = tokens_.next().text;
    Operand operand;
    if (name == "WARP_SZ") {
      operand.form = Operand::Form::kInteger;
      operand.value = 32;
      return operand;
    }
    if (name == "_") {
      operand.form = Operand::Form::kSink;
    } else if (find(name, &operand.index)) {
      operand.form = Operand::Form::kRegister;
      if (tokens_.kind() == PtxToken::Kind::kDirective && tokens_.text().data() == name.data() + name.size())
        operand.part = tokens_.next().text.substr(1);
    } else if (name.starts_with('%')) {
      operand.form = Operand::Form::kSpecial;
      operand.name = name;
      if (tokens_.kind() == PtxToken::Kind::kDirective) {
        const std::string_view part = tokens_.next().text;
        operand.name = {name.data(), static_cast<std::size_t>(part.data() + part.size() - name.data())};
      }
    } else {
      read_symbol(of, name, &operand);
    }
    if (tokens_.is("|") && depth < 3) {
      tokens_.next();
      Operand pair;
      pair.form = Operand::Form::kPair;
      pair.parts = {operand, read_operand(of, depth + 1, false)};
      return pair;
    }
    return operand;
  }

  void read_symbol(const Instruction& of, std::string_view name, Operand* operand) {
    operand->name = name;
    if ((of.opcode == "bra" || of.opcode == "brx") && of.operands.size() + 1 >= (of.opcode == "brx" ? 2u : 1u)) {
      operand->form = Operand::Form::kLabel;
      if (of.opcode == "bra")
        pending_.push_back({static_cast<unsigned>(out_->code.size()), of.operands.size(), current_});
      return;
    }
    operand->form = Operand::Form::kSymbol;
    operand->is_local = find_variable(name, &operand->index);
    if (of.opcode == "call") return;  // a prototype's name may come later
    if ((tokens_.is("+") || tokens_.is("-")) && of.opcode == "mov") {
      tokens_.accept("+");
      operand->value = read_number().value;
    }
    const bool is_known = operand->is_local || module_.variable_index.contains(name) ||
                          module_.function_index.contains(name) || is_parameter(name) || name == out_->name;
    if (!is_known) tokens_.fail("'" + std::string(name) + "' is not known");
  }

  bool is_parameter(std::string_view name) const {
    const auto named = [&](const Variable& variable) { return variable.name == name; };
    return std::any_of(out_->parameters.begin(), out_->parameters.end(), named) ||
           std::any_of(out_->results.begin(), out_->results.end(), named);
  }

  bool find_variable(std::string_view name, unsigned* index) const {
    const std::string wanted(name);
    for (int at = current_; at >= 0; at = scopes_[static_cast<std::size_t>(at)].parent) {
      const auto& variables = scopes_[static_cast<std::size_t>(at)].variables;
      if (const auto found = variables.find(wanted); found != variables.end()) {
        *index = found->second;
        return true;
      }
    }
    return false;
  }

  bool find(std::string_view name, unsigned* index) {
    for (int at = current_; at >= 0; at = scopes_[static_cast<std::size_t>(at)].parent) {
      Scope& within = scopes_[static_cast<std::size_t>(at)];
      if (const auto found = within.registers.find(name); found != within.registers.end()) {
        *index = found->second;
        return true;
      }
      if (find_in_ranges(within, name, index)) return true;
    }
    return false;
  }

  bool find_in_ranges(Scope& within, std::string_view name, unsigned* index) {
    for (const auto& [prefix, range] : within.ranges) {
      if (!name.starts_with(prefix) || name.size() == prefix.size()) continue;
      unsigned number = 0;
      const char* const end = name.data() + name.size();
      const auto [at, error] = std::from_chars(name.data() + prefix.size(), end, number);
      if (error != std::errc() || at != end || number >= range.first) continue;
      *index = add_register(name, range.second);
      within.registers[name] = *index;
      return true;
    }
    return false;
  }

  unsigned find_register(std::string_view name) {
    unsigned index = 0;
    if (!find(name, &index)) tokens_.fail("'" + std::string(name) + "' is no register");
    return index;
  }

  unsigned find_label(std::string_view name, int from) {
    for (int at = from; at >= 0; at = scopes_[static_cast<std::size_t>(at)].parent) {
      const auto& labels = scopes_[static_cast<std::size_t>(at)].labels;
      if (const auto found = labels.find(name); found != labels.end()) return found->second;
    }
    tokens_.fail("label '" + std::string(name) + "' is not known");
  }

  void find_labels() {
    for (const Pending& pending : pending_) {
      Operand& operand = out_->code[pending.instruction].operands[pending.operand];
      operand.index = find_label(operand.name, pending.scope);
    }
    for (const TargetList& list : target_lists_) {
      std::vector<unsigned>& targets = out_->branch_targets[list.name];
      for (const std::string_view label : list.labels) targets.push_back(find_label(label, list.scope));
    }
  }

  struct TargetList {
    std::string_view name;
    std::vector<std::string_view> labels;
    int scope = 0;
  };

  Tokens& tokens_;
  const Module& module_;
  Function* out_;
  std::vector<Scope> scopes_;
  int current_ = -1;
  std::vector<Pending> pending_;
  std::vector<TargetList> target_lists_;
  unsigned source_file_ = 0, source_line_ = 0;
};

}  // namespace

unsigned Tokens::line() {
  const std::string_view token = lexer_.peek().text;
  const auto at = token.empty() ? text_.size() : static_cast<std::size_t>(token.data() - text_.data());
  for (; counted_to_ < at; ++counted_to_) line_ += text_[counted_to_] == '\n' ? 1 : 0;
  return line_;
}

void Tokens::fail(const std::string& reason) { throw Error("PTX, line " + std::to_string(line()) + ": " + reason); }

Variable variable_of(const PtxDeclaration& declaration, Space space) {
  Variable variable;
  variable.name = declaration.name;
  variable.space = space;
  variable.bytes = declaration.bytes;
  variable.alignment = declaration.alignment;
  return variable;
}

std::vector<Variable> read_parameters(Tokens& tokens) {
  std::vector<Variable> result;
  tokens.expect("(");
  if (tokens.accept(")")) return result;
  do {
    PtxDeclaration declaration;
    if (tokens.is(".reg")) tokens.fail("parameters in registers are not supported");
    tokens.expect(".param");
    if (!read_ptx_declaration(tokens.lexer(), &declaration)) tokens.fail("a parameter that is not understood");
    result.push_back(variable_of(declaration, Space::kParam));
  } while (tokens.accept(","));
  tokens.expect(")");
  return result;
}

void read_body(Tokens& tokens, const Module& module, Function* out) { BodyParser(tokens, module, out).run(); }

}  // namespace simulator::ptx
