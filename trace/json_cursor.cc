// SPDX-License-Identifier: Apache-2.0
#include "trace/json_cursor.h"

#include <charconv>
#include <cstring>

namespace thermocline {
namespace {

constexpr int kDeepest = 64;

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

}  // namespace

bool JsonCursor::fail(const char* error) {
  if (error_ == nullptr) error_ = error;
  return false;
}

void JsonCursor::skip_space() {
  while (at_ < text_.size() && is_space(text_[at_])) ++at_;
}

bool JsonCursor::take(char c) {
  skip_space();
  if (failed() || at_ == text_.size() || text_[at_] != c) return false;
  ++at_;
  return true;
}

bool JsonCursor::enter_object() {
  first_member_ = true;
  return take('{') || fail("expected an object");
}

bool JsonCursor::next_key(std::string_view* key) {
  if (failed() || take('}')) return false;
  if (!first_member_ && !take(',')) return fail("expected ',' or '}'");
  first_member_ = false;
  if (!read_string(key)) return fail("expected a key");
  return take(':') || fail("expected ':'");
}

bool JsonCursor::read_string(std::string_view* out) {
  if (!take('"')) return fail("expected a string");
  const std::size_t begin = at_;
  for (; at_ < text_.size(); ++at_) {
    const char c = text_[at_];
    if (c == '"') {
      *out = text_.substr(begin, at_++ - begin);
      return true;
    }
    if (c == '\\') return unescape(begin, out);
    if (static_cast<unsigned char>(c) < 0x20) return fail("control character in a string");
  }
  return fail("the line ends within a string");
}

bool JsonCursor::unescape(std::size_t begin, std::string_view* out) {
  unescaped_.assign(text_.substr(begin, at_ - begin));
  while (at_ < text_.size()) {
    const char c = text_[at_++];
    if (c == '"') {
      *out = unescaped_;
      return true;
    }
    if (static_cast<unsigned char>(c) < 0x20) return fail("control character in a string");
    if (c != '\\') {
      unescaped_ += c;
    } else if (!unescape_one()) {
      return false;
    }
  }
  return fail("the line ends within a string");
}

bool JsonCursor::unescape_one() {
  static constexpr char kLetters[] = "\"\\/bfnrt";
  static constexpr char kMeant[] = "\"\\/\b\f\n\r\t";
  if (at_ == text_.size()) return fail("the line ends within a string");
  const char c = text_[at_++];
  if (const char* letter = c == '\0' ? nullptr : std::strchr(kLetters, c)) {
    unescaped_ += kMeant[letter - kLetters];
    return true;
  }
  std::uint32_t code = 0;
  if (c != 'u' || !read_code_unit(&code)) return fail("unknown escape in a string");
  if (code >= 0xD800 && code < 0xDC00) {
    std::uint32_t low = 0;
    if (text_.substr(at_, 2) != "\\u") return fail("half of a surrogate pair in a string");
    at_ += 2;
    if (!read_code_unit(&low) || low < 0xDC00 || low > 0xDFFF) return fail("half of a surrogate pair in a string");
    code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
  }
  append_utf8(code);
  return true;
}

bool JsonCursor::read_code_unit(std::uint32_t* out) {
  const std::string_view digits = text_.substr(at_, 4);
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), *out, 16);
  at_ += digits.size();
  return digits.size() == 4 && error == std::errc() && end == digits.data() + 4;
}

void JsonCursor::append_utf8(std::uint32_t code) {
  const auto put = [this](std::uint32_t byte) { unescaped_ += static_cast<char>(byte); };
  if (code < 0x80) {
    put(code);
    return;
  }
  if (code < 0x800) {
    put(0xC0 | (code >> 6));
  } else if (code < 0x10000) {
    put(0xE0 | (code >> 12));
    put(0x80 | ((code >> 6) & 0x3F));
  } else {
    put(0xF0 | (code >> 18));
    put(0x80 | ((code >> 12) & 0x3F));
    put(0x80 | ((code >> 6) & 0x3F));
  }
  put(0x80 | (code & 0x3F));
}

// The characters of a number in JSON's syntax, or an empty string.
std::string_view JsonCursor::number_text() {
  skip_space();
  std::size_t i = at_;
  const auto digits = [&] {
    const std::size_t begin = i;
    while (i < text_.size() && is_digit(text_[i])) ++i;
    return i - begin;
  };
  if (i < text_.size() && text_[i] == '-') ++i;
  const bool leading_zero = i < text_.size() && text_[i] == '0';
  if (const std::size_t n = digits(); n == 0 || (leading_zero && n > 1)) return {};
  if (i < text_.size() && text_[i] == '.') {
    ++i;
    if (digits() == 0) return {};
  }
  if (i < text_.size() && (text_[i] == 'e' || text_[i] == 'E')) {
    ++i;
    if (i < text_.size() && (text_[i] == '+' || text_[i] == '-')) ++i;
    if (digits() == 0) return {};
  }
  return text_.substr(at_, i - at_);
}

bool JsonCursor::read_integer(std::int64_t* out) {
  if (failed()) return false;
  const std::string_view text = number_text();
  if (text.empty()) return fail("expected a whole number");
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *out);
  if (error == std::errc::result_out_of_range) return fail("number too large");
  if (error != std::errc() || end != text.data() + text.size()) return fail("expected a whole number");
  at_ += text.size();
  return true;
}

bool JsonCursor::read_number(double* out) {
  if (failed()) return false;
  const std::string_view text = number_text();
  if (text.empty()) return fail("expected a number");
  if (std::from_chars(text.data(), text.data() + text.size(), *out).ec != std::errc()) return fail("number too large");
  at_ += text.size();
  return true;
}

bool JsonCursor::read_integers(std::vector<std::int64_t>* out) {
  out->clear();
  if (!take('[')) return fail("expected an array");
  if (take(']')) return true;
  do {
    if (!read_integer(&out->emplace_back())) return false;
  } while (take(','));
  return take(']') || fail("expected ',' or ']'");
}

bool JsonCursor::read_strings(std::vector<std::string>* out) {
  out->clear();
  if (!take('[')) return fail("expected an array");
  if (take(']')) return true;
  do {
    std::string_view text;
    if (!read_string(&text)) return false;
    out->emplace_back(text);
  } while (take(','));
  return take(']') || fail("expected ',' or ']'");
}

bool JsonCursor::skip_value(int depth) {
  if (failed()) return false;
  if (depth > kDeepest) return fail("nested too deeply");
  skip_space();
  if (at_ == text_.size()) return fail("the line ends early");
  std::string_view text;
  switch (text_[at_]) {
    case '"':
      return read_string(&text);
    case '{':
      return skip_members('}', depth);
    case '[':
      return skip_members(']', depth);
    default:
      break;
  }
  for (const std::string_view word : {"true", "false", "null"}) {
    if (text_.substr(at_, word.size()) != word) continue;
    at_ += word.size();
    return true;
  }
  text = number_text();
  at_ += text.size();
  return !text.empty() || fail("expected a value");
}

bool JsonCursor::skip_members(char close, int depth) {
  ++at_;
  if (take(close)) return true;
  do {
    std::string_view key;
    if (close == '}' && (!read_string(&key) || !take(':'))) return fail("expected a key and ':'");
    if (!skip_value(depth + 1)) return false;
  } while (take(','));
  return take(close) || fail("expected ',' or the end of a list");
}

bool JsonCursor::at_end() {
  skip_space();
  return !failed() && (at_ == text_.size() || fail("more after the object"));
}

}  // namespace thermocline
