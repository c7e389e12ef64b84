// SPDX-License-Identifier: Apache-2.0
// A C++ lexer that only recognizes comments and literals (ISO C++20, 5.7 and 5.13; line splices are not undone).
#include "tests/layers/rules.h"

namespace layers {
namespace {

class Blanker {
 public:
  explicit Blanker(std::string_view text) : text_(text), code_(text) {}

  std::string run() {
    while (at_ < text_.size()) {
      step();
    }
    return code_;
  }

 private:
  void step() {
    const std::string_view rest = text_.substr(at_);
    if (rest.starts_with("//")) {
      blank_until(text_.find('\n', at_));
    } else if (rest.starts_with("/*")) {
      const std::size_t end = text_.find("*/", at_ + 2);
      blank_until(end == std::string_view::npos ? end : end + 2);
    } else if (rest.starts_with("R\"")) {
      raw_string();
    } else if (rest.front() == '"' || (rest.front() == '\'' && !between_digits())) {
      literal(rest.front());
    } else {
      ++at_;
    }
  }

  // An apostrophe in 1'000 separates digits.
  bool between_digits() const {
    return at_ > 0 && std::string_view("0123456789abcdefABCDEF").find(text_[at_ - 1]) != std::string_view::npos;
  }

  void literal(char quote) {
    ++at_;
    while (at_ < text_.size() && text_[at_] != quote && text_[at_] != '\n') {
      blank_until(at_ + (text_[at_] == '\\' ? 2 : 1));
    }
    ++at_;
  }

  void raw_string() {
    const std::size_t open = text_.find('(', at_);
    if (open == std::string_view::npos) {
      at_ = text_.size();
      return;
    }
    const std::string close = ")" + std::string(text_.substr(at_ + 2, open - at_ - 2)) + "\"";
    const std::size_t end = text_.find(close, open);
    at_ = open;
    blank_until(end == std::string_view::npos ? end : end + close.size());
  }

  void blank_until(std::size_t end) {
    for (end = std::min(end, text_.size()); at_ < end; ++at_) {
      if (text_[at_] != '\n') {
        code_[at_] = ' ';
      }
    }
  }

  std::string_view text_;
  std::string code_;
  std::size_t at_ = 0;
};

}  // namespace

std::string code_only(std::string_view text) { return Blanker(text).run(); }

}  // namespace layers
