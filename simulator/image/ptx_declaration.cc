// SPDX-License-Identifier: Apache-2.0
#include "simulator/image/ptx_declaration.h"

#include <bit>
#include <charconv>
#include <string_view>

#include "simulator/image/decompress.h"

namespace simulator {
namespace {

bool read_number(PtxLexer& lexer, std::uint64_t* out) {
  if (!read_ptx_integer(lexer.peek(), out)) return false;
  lexer.next();
  return true;
}

// A number with an optional sign, as its 64 bits.
bool read_signed(PtxLexer& lexer, std::uint64_t* out) {
  const bool negative = lexer.accept("-");
  if (!negative) lexer.accept("+");
  if (!read_number(lexer, out)) return false;
  if (negative) *out = ~*out + 1;
  return true;
}

bool skip_parentheses(PtxLexer& lexer, bool* managed) {
  if (!lexer.accept("(")) return false;
  for (unsigned depth = 1; depth > 0;) {
    const PtxToken token = lexer.next();
    if (token.kind == PtxToken::Kind::kEnd) return false;
    if (token.is("(")) ++depth;
    if (token.is(")")) --depth;
    if (token.is(".managed")) *managed = true;
  }
  return true;
}

bool read_alignment(PtxLexer& lexer, std::uint64_t* out) {
  return read_number(lexer, out) && *out != 0 && *out <= 65536 && std::has_single_bit(*out);
}

// `.ptr .global .align 16`: describes what a pointer parameter points to, not the parameter.
bool skip_pointer(PtxLexer& lexer) {
  while (lexer.peek().kind == PtxToken::Kind::kDirective) {
    std::uint64_t alignment = 0;
    if (lexer.next().is(".align") && !read_alignment(lexer, &alignment)) return false;
  }
  return true;
}

class Initializer {
 public:
  Initializer(PtxLexer& lexer, std::uint64_t element_bytes, ImageVariable* out)
      : lexer_(lexer), element_bytes_(element_bytes), out_(out) {}

  bool read() { return lexer_.peek().is("{") ? read_list(0) : read_value(); }

 private:
  // Inner braces continue where the outer ones are: PTX compilers write arrays of arrays in full.
  bool read_list(unsigned depth) {
    if (depth > 16 || !lexer_.accept("{")) return false;
    if (lexer_.accept("}")) return true;
    do {
      if (!(lexer_.peek().is("{") ? read_list(depth + 1) : read_value())) return false;
    } while (lexer_.accept(","));
    return lexer_.accept("}");
  }

  bool read_value() {
    if (lexer_.peek().kind == PtxToken::Kind::kWord) return read_address();
    if (lexer_.peek().kind == PtxToken::Kind::kNumber && lexer_.peek().text.size() > 2 &&
        (lexer_.peek().text[1] == 'f' || lexer_.peek().text[1] == 'F' || lexer_.peek().text[1] == 'd' ||
         lexer_.peek().text[1] == 'D') &&
        lexer_.peek().text[0] == '0') {
      std::uint64_t bits = 0;
      const std::string_view digits = lexer_.next().text.substr(2);
      const auto end = digits.data() + digits.size();
      if (const auto [at, error] = std::from_chars(digits.data(), end, bits, 16); error != std::errc() || at != end)
        return false;
      append(bits);
      return true;
    }
    std::uint64_t value = 0;
    if (!read_signed(lexer_, &value)) return false;
    append(value);
    return true;
  }

  // `variable`, `variable+4`, `generic(variable)+4`: all equivalent, because there is one address space here.
  bool read_address() {
    std::string name(lexer_.next().text);
    if (lexer_.accept("(")) {
      if (lexer_.peek().kind != PtxToken::Kind::kWord) return false;
      name = lexer_.next().text;
      if (!lexer_.accept(")")) return false;
    }
    std::uint64_t addend = 0;
    if ((lexer_.peek().is("+") || lexer_.peek().is("-")) && !read_signed(lexer_, &addend)) return false;
    if (element_bytes_ != 8) return false;  // a part of an address: not written by compilers for 64-bit devices
    out_->addresses.push_back({out_->contents.size(), std::move(name), static_cast<std::int64_t>(addend)});
    append(0);
    return true;
  }

  void append(std::uint64_t value) {
    for (std::uint64_t i = 0; i < element_bytes_; ++i) {
      out_->contents.push_back(i < 8 ? static_cast<std::byte>(value >> (8 * i) & 0xff) : std::byte{0});
    }
  }

  PtxLexer& lexer_;
  std::uint64_t element_bytes_;
  ImageVariable* out_;
};

}  // namespace

std::uint64_t ptx_type_bytes(std::string_view type) {
  if (type == ".pred") return 1;
  if (type == ".texref" || type == ".samplerref" || type == ".surfref") return 8;
  if (type == ".f16x2" || type == ".bf16x2") return 4;
  if (type == ".bf16") return 2;
  if (type.size() < 3 || std::string_view(".busf").find(type[1]) == std::string_view::npos || type[0] != '.') return 0;
  const std::string_view bits = type.substr(2);
  if (bits == "8") return 1;
  if (bits == "16") return 2;
  if (bits == "32") return 4;
  if (bits == "64") return 8;
  if (bits == "128") return 16;
  return 0;
}

bool read_ptx_integer(const PtxToken& token, std::uint64_t* out) {
  if (token.kind != PtxToken::Kind::kNumber) return false;
  std::string_view digits = token.text;
  if (digits.ends_with('U')) digits.remove_suffix(1);
  int base = 10;
  if (digits.starts_with("0x") || digits.starts_with("0X")) {
    base = 16;
    digits.remove_prefix(2);
  } else if (digits.starts_with("0b") || digits.starts_with("0B")) {
    base = 2;
    digits.remove_prefix(2);
  } else if (digits.size() > 1 && digits[0] == '0') {
    base = 8;
  }
  const char* end = digits.data() + digits.size();
  const auto [at, error] = std::from_chars(digits.data(), end, *out, base);
  return error == std::errc() && at == end && !digits.empty();
}

bool read_ptx_declarator(PtxLexer& lexer, PtxDeclaration* out) {
  if (lexer.peek().kind != PtxToken::Kind::kWord) return false;
  out->name = lexer.next().text;
  out->bytes = out->element_bytes * out->vector;
  out->unsized = false;
  out->array = lexer.peek().is("[");
  while (lexer.accept("[")) {
    std::uint64_t count = 0;
    if (lexer.accept("]")) {
      out->unsized = true;
      out->bytes = 0;
      continue;
    }
    if (!read_number(lexer, &count) || !lexer.accept("]")) return false;
    if (__builtin_mul_overflow(out->bytes, count, &out->bytes) || out->bytes > kLargestImage * 64) return false;
  }
  return true;
}

bool read_ptx_declaration(PtxLexer& lexer, PtxDeclaration* out) {
  *out = {};
  std::uint64_t alignment = 0;
  while (lexer.peek().kind == PtxToken::Kind::kDirective) {
    const PtxToken token = lexer.next();
    if (token.is(".align")) {
      if (!read_alignment(lexer, &alignment)) return false;
    } else if (token.is(".attribute")) {
      if (!skip_parentheses(lexer, &out->managed)) return false;
    } else if (token.is(".v2") || token.is(".v4") || token.is(".v8")) {
      out->vector = static_cast<std::uint64_t>(token.text[2] - '0');
    } else if (token.is(".ptr")) {
      if (!skip_pointer(lexer)) return false;
    } else if (ptx_type_bytes(token.text) != 0) {
      out->element_bytes = ptx_type_bytes(token.text);
    } else {
      return false;
    }
  }
  if (out->element_bytes == 0) return false;
  out->alignment = alignment != 0 ? alignment : out->element_bytes * out->vector;
  return read_ptx_declarator(lexer, out);
}

bool read_ptx_initializer(PtxLexer& lexer, const PtxDeclaration& declaration, ImageVariable* out) {
  if (!Initializer(lexer, declaration.element_bytes, out).read()) return false;
  return declaration.unsized || out->contents.size() <= declaration.bytes;
}

}  // namespace simulator
