// SPDX-License-Identifier: Apache-2.0
#include "simulator/ptx/parser.h"

#include <algorithm>
#include <iterator>

#include "simulator/ptx/parse_function.h"

namespace simulator::ptx {
namespace {

constexpr std::uint64_t kMostBlocks = 1024;  // of a cluster, in one direction: more than any device has

class ModuleParser {
 public:
  explicit ModuleParser(Module* module) : module_(module), tokens_(module->text) {}

  void run() {
    while (!tokens_.at_end()) read_statement();
    for (const Function& function : module_->functions) {
      for (const Instruction& instruction : function.code) {
        if (instruction.opcode != "mov") continue;
        for (const Operand& operand : instruction.operands) {
          if (operand.form == Operand::Form::kSymbol && !operand.is_local) module_->addressed.emplace(operand.name);
        }
      }
    }
  }

 private:
  void read_statement() {
    is_external_ = false;
    is_weak_ = false;
    while (tokens_.is(".visible") || tokens_.is(".weak") || tokens_.is(".common") || tokens_.is(".extern")) {
      const PtxToken linkage = tokens_.next();
      is_external_ = is_external_ || linkage.is(".extern");
      is_weak_ = is_weak_ || linkage.is(".weak") || linkage.is(".common");
    }
    if (tokens_.accept(".entry")) return read_function(true);
    if (tokens_.accept(".func")) return read_function(false);
    if (tokens_.accept(".global")) return read_variables(Space::kGlobal);
    if (tokens_.accept(".const")) return read_variables(Space::kConst);
    if (tokens_.accept(".shared")) return read_variables(Space::kShared);
    if (tokens_.accept(".local")) return read_variables(Space::kLocal);
    if (tokens_.accept(".section")) return skip_section();
    if (tokens_.accept(".file")) return read_file();
    // The next text: it has files of its own.
    if (tokens_.is(".version") && !module_->functions.empty()) module_->files.emplace_back();
    tokens_.next();  // .version, .target and similar have no terminator
  }

  // `.file 1 "kernels.cu"`, behind the code that names it.
  void read_file() {
    std::uint64_t number = 0;
    if (!read_ptx_integer(tokens_.lexer().peek(), &number)) return;
    tokens_.next();
    if (tokens_.kind() != PtxToken::Kind::kString) return;
    std::string_view name = tokens_.next().text.substr(1);
    if (name.ends_with('"')) name.remove_suffix(1);
    module_->files.back()[number] = name;
  }

  void skip_section() {
    while (!tokens_.at_end() && !tokens_.is("{")) tokens_.next();
    unsigned depth = 0;
    while (!tokens_.at_end()) {
      const PtxToken token = tokens_.next();
      if (token.is("{")) ++depth;
      if (token.is("}") && --depth == 0) return;
    }
    tokens_.fail("the text ends inside a section");
  }

  void read_variables(Space space) {
    PtxDeclaration declaration;
    if (!read_ptx_declaration(tokens_.lexer(), &declaration)) tokens_.fail("a variable that is not understood");
    for (;;) {
      Variable variable = variable_of(declaration, space);
      variable.is_external = is_external_ && space == Space::kShared;
      ImageVariable ignored;  // the driver sets initial contents before anything runs
      if (tokens_.accept("=") && !read_ptx_initializer(tokens_.lexer(), declaration, &ignored))
        tokens_.fail("an initializer that is not understood");
      for (const ImageAddress& word : ignored.addresses) module_->addressed.insert(word.variable);
      const auto known = module_->variable_index.emplace(variable.name, module_->variables.size());
      if (known.second) {
        module_->variables.push_back(std::move(variable));
      } else if (!is_external_ && !(is_weak_ && defined_.contains(variable.name))) {
        module_->variables[known.first->second] = std::move(variable);  // replaces an earlier declaration
      }
      if (!is_external_) defined_.insert(module_->variables[known.first->second].name);
      if (tokens_.accept(";")) return;
      if (!tokens_.accept(",") || !read_ptx_declarator(tokens_.lexer(), &declaration))
        tokens_.fail("a variable that is not understood");
    }
  }

  void read_function(bool is_entry) {
    Function function;
    function.is_entry = is_entry;
    function.of_text = module_->files.size() - 1;
    if (tokens_.is("(")) function.results = read_parameters(tokens_);
    if (tokens_.kind() != PtxToken::Kind::kWord) tokens_.fail("a function without a name");
    function.name = tokens_.next().text;
    if (tokens_.is("(")) function.parameters = read_parameters(tokens_);
    while (!tokens_.is("{") && !tokens_.is(";")) {
      if (tokens_.at_end()) tokens_.fail("the text ends inside a declaration");
      if (tokens_.accept(".reqnctapercluster")) {
        read_cluster(&function);
      } else {
        const PtxToken token = tokens_.next();
        if (token.is(".blocksareclusters")) function.unsupported = token.text;  // the grid would count clusters
      }
    }
    if (!tokens_.accept(";")) {
      function.has_body = true;
      read_body(tokens_, *module_, &function);
    }
    const auto known = module_->function_index.emplace(function.name, module_->functions.size());
    if (known.second) {
      module_->functions.push_back(std::move(function));
    } else if (function.has_body && !(is_weak_ && module_->functions[known.first->second].has_body)) {
      module_->functions[known.first->second] = std::move(function);
    }
  }

  // `2, 1, 1`
  void read_cluster(Function* function) {
    unsigned dimension = 0;
    std::fill(std::begin(function->cluster), std::end(function->cluster), 1u);
    do {
      std::uint64_t blocks = 0;
      if (!read_ptx_integer(tokens_.lexer().peek(), &blocks) || blocks == 0 || blocks > kMostBlocks || dimension == 3)
        tokens_.fail("expected a number of blocks");
      tokens_.next();
      function->cluster[dimension++] = static_cast<std::uint32_t>(blocks);
    } while (tokens_.accept(","));
  }

  Module* module_;
  Tokens tokens_;
  std::set<std::string> defined_;  // variables
  bool is_external_ = false;
  bool is_weak_ = false;
};

}  // namespace

std::string Module::source_of(const Function& function, const Instruction& instruction) const {
  if (instruction.source_line == 0) return "";
  const auto& names = files[function.of_text];
  const auto name = names.find(instruction.source_file);
  return "line " + std::to_string(instruction.source_line) + " of " +
         (name == names.end() ? "its source" : std::string(name->second));
}

std::unique_ptr<Module> parse(std::string_view text) {
  auto module = std::make_unique<Module>();
  module->text = text;
  ModuleParser(module.get()).run();
  return module;
}

}  // namespace simulator::ptx
