// SPDX-License-Identifier: Apache-2.0
#include "simulator/image/ptx_link.h"

#include <cstddef>
#include <map>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "simulator/image/ptx_lexer.h"

namespace simulator {
namespace {

// Names of module scope.
struct Names {
  std::set<std::string_view> all;
  std::set<std::string_view> own;  // not for other modules
};

class NameReader {
 public:
  explicit NameReader(std::string_view text) : lexer_(text) {}

  Names read() {
    while (!at_end()) read_statement();
    return std::move(names_);
  }

 private:
  bool at_end() const { return lexer_.peek().kind == PtxToken::Kind::kEnd; }

  void read_statement() {
    bool is_own = true;
    for (const PtxToken& token = lexer_.peek();
         token.is(".visible") || token.is(".weak") || token.is(".common") || token.is(".extern"); lexer_.next())
      is_own = false;
    if (lexer_.accept(".entry") || lexer_.accept(".func")) return read_function(is_own);
    if (lexer_.accept(".global") || lexer_.accept(".const") || lexer_.accept(".shared")) return read_variables(is_own);
    if (lexer_.accept(".section")) return skip_to_end_of_body();
    lexer_.next();
  }

  void read_function(bool is_own) {
    if (lexer_.peek().is("(")) {
      while (!at_end() && !lexer_.next().is(")")) {
      }
    }
    read_name(is_own);
    skip_to_end_of_body();
  }

  // `.align 4 .u32 a = 1, b[2] = {1, 2};`
  void read_variables(bool is_own) {
    while (!at_end() && lexer_.peek().kind != PtxToken::Kind::kWord) lexer_.next();
    read_name(is_own);
    unsigned depth = 0;
    while (!at_end()) {
      const PtxToken token = lexer_.next();
      if (token.is("{")) ++depth;
      if (token.is("}") && depth > 0) --depth;
      if (token.is(",") && depth == 0) read_name(is_own);
      if (token.is(";")) return;
    }
  }

  void read_name(bool is_own) {
    if (lexer_.peek().kind != PtxToken::Kind::kWord) return;
    const std::string_view name = lexer_.next().text;
    names_.all.insert(name);
    if (is_own) names_.own.insert(name);
  }

  void skip_to_end_of_body() {
    unsigned depth = 0;
    while (!at_end()) {
      const PtxToken token = lexer_.next();
      if (token.is("{")) ++depth;
      if (token.is("}") && (depth == 0 || --depth == 0)) return;
      if (token.is(";") && depth == 0) return;
    }
  }

  PtxLexer lexer_;
  Names names_;
};

// With every word in `renamed` followed by `suffix`.
std::string with_suffix(std::string_view text, const std::set<std::string_view>& renamed, const std::string& suffix) {
  std::string result;
  std::size_t copied = 0;
  for (PtxLexer lexer(text); lexer.peek().kind != PtxToken::Kind::kEnd;) {
    const PtxToken token = lexer.next();
    if (token.kind != PtxToken::Kind::kWord || !renamed.contains(token.text)) continue;
    const auto end = static_cast<std::size_t>(token.text.data() - text.data()) + token.text.size();
    result += text.substr(copied, end - copied);
    result += suffix;
    copied = end;
  }
  return result += text.substr(copied);
}

}  // namespace

std::string link_ptx(std::span<const std::string> texts) {
  std::vector<Names> names;
  std::map<std::string_view, std::size_t> files;  // with this name
  for (const std::string& text : texts) {
    names.push_back(NameReader(text).read());
    for (const std::string_view name : names.back().all) ++files[name];
  }
  std::string linked;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    std::set<std::string_view> renamed;
    for (const std::string_view name : names[i].own) {
      if (files[name] > 1) renamed.insert(name);
    }
    linked += with_suffix(texts[i], renamed, "$of_file_" + std::to_string(i)) + "\n";
  }
  return linked;
}

}  // namespace simulator
