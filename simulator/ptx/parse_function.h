// SPDX-License-Identifier: Apache-2.0
// Parts of the parser: tokens with their lines, parameters, and the body of a function.
#pragma once

#include <string>
#include <string_view>

#include "simulator/image/ptx_declaration.h"
#include "simulator/image/ptx_lexer.h"
#include "simulator/ptx/module.h"

namespace simulator::ptx {

class Tokens {
 public:
  explicit Tokens(std::string_view text) : text_(text), lexer_(text) {}

  PtxLexer& lexer() { return lexer_; }
  bool at_end() const { return kind() == PtxToken::Kind::kEnd; }
  PtxToken::Kind kind() const { return lexer_.peek().kind; }
  bool is(std::string_view text) const { return lexer_.peek().is(text); }
  std::string_view text() const { return lexer_.peek().text; }
  PtxToken next() { return lexer_.next(); }
  bool accept(std::string_view text) { return lexer_.accept(text); }
  void expect(std::string_view text) {
    if (!accept(text)) fail("expected '" + std::string(text) + "'");
  }
  // 1-based, of the next token. Counts on from the last call.
  unsigned line();
  [[noreturn]] void fail(const std::string& reason);

 private:
  std::string_view text_;
  PtxLexer lexer_;
  std::size_t counted_to_ = 0;
  unsigned line_ = 1;
};

Variable variable_of(const PtxDeclaration& declaration, Space space);

// `(.param .b32 a, .param .align 8 .b8 b[16])`
std::vector<Variable> read_parameters(Tokens& tokens);

// From `{` to `}`. The body may use the module's names in addition to its own.
void read_body(Tokens& tokens, const Module& module, Function* out);

}  // namespace simulator::ptx
