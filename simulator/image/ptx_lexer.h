// SPDX-License-Identifier: Apache-2.0
// Tokens of PTX text, only as detailed as the parser of declarations needs. Comments and white space are skipped.
// Source: PTX ISA 9.0, chapter 4 (Syntax).
#pragma once

#include <cstdint>
#include <string_view>

namespace simulator {

struct PtxToken {
  enum class Kind : std::uint8_t { kEnd, kDirective, kWord, kNumber, kString, kSign };
  Kind kind = Kind::kEnd;
  std::string_view text;  // view of the source; a directive with its dot, a string with its quotes

  bool is(std::string_view other) const { return kind != Kind::kString && text == other; }
};

class PtxLexer {
 public:
  // `text` must outlive the lexer and its tokens.
  explicit PtxLexer(std::string_view text) : text_(text) { advance(); }

  const PtxToken& peek() const { return token_; }
  PtxToken next();
  bool accept(std::string_view text);
  // 1-based line of the token that peek() shows.
  unsigned line() const;

 private:
  void advance();
  void skip_space();
  PtxToken take(PtxToken::Kind kind, std::size_t length);

  std::string_view text_;
  std::size_t at_ = 0;
  std::size_t begin_ = 0;  // of token_
  PtxToken token_;
};

}  // namespace simulator
