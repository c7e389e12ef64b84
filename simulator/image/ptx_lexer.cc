// SPDX-License-Identifier: Apache-2.0
#include "simulator/image/ptx_lexer.h"

#include <algorithm>

namespace simulator {
namespace {

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f' || c == '\v'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_word(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '$' || c == '%';
}

}  // namespace

PtxToken PtxLexer::next() {
  const PtxToken token = token_;
  advance();
  return token;
}

bool PtxLexer::accept(std::string_view text) {
  if (token_.kind == PtxToken::Kind::kEnd || !token_.is(text)) return false;
  advance();
  return true;
}

unsigned PtxLexer::line() const {
  const auto begin = text_.begin();
  return 1 + static_cast<unsigned>(std::count(begin, begin + static_cast<std::ptrdiff_t>(begin_), '\n'));
}

void PtxLexer::skip_space() {
  while (at_ < text_.size()) {
    const std::string_view rest = text_.substr(at_);
    if (is_space(rest[0])) {
      ++at_;
    } else if (rest.starts_with("//")) {
      at_ = std::min(text_.find('\n', at_), text_.size());
    } else if (rest.starts_with("/*")) {
      const std::size_t end = text_.find("*/", at_ + 2);
      at_ = end == std::string_view::npos ? text_.size() : end + 2;
    } else {
      return;
    }
  }
}

PtxToken PtxLexer::take(PtxToken::Kind kind, std::size_t length) {
  const PtxToken token{kind, text_.substr(at_, length)};
  at_ += token.text.size();
  return token;
}

void PtxLexer::advance() {
  skip_space();
  begin_ = at_;
  if (at_ == text_.size()) {
    token_ = {};
    return;
  }
  const char first = text_[at_];
  std::size_t length = 1;
  const auto extend = [&] {
    while (at_ + length < text_.size() && is_word(text_[at_ + length])) ++length;
  };
  if (first == '"') {
    const std::size_t end = text_.find('"', at_ + 1);
    token_ = take(PtxToken::Kind::kString, end == std::string_view::npos ? text_.size() - at_ : end + 1 - at_);
  } else if (first == '.') {
    extend();
    token_ = take(PtxToken::Kind::kDirective, length);
  } else if (is_word(first)) {
    extend();
    token_ = take(is_digit(first) ? PtxToken::Kind::kNumber : PtxToken::Kind::kWord, length);
  } else {
    token_ = take(PtxToken::Kind::kSign, 1);
  }
}

}  // namespace simulator
