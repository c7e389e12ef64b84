// SPDX-License-Identifier: Apache-2.0
// Reads one JSON object (RFC 8259) without building a tree. A trace has one line per event, with few and known fields,
// so reading costs little more than looking at each byte. Why own code: the libraries were measured on the 129,236
// lines of cifar_resnet1001_b64. This reader takes 148 ns a line, nlohmann/json's SAX interface 1,070 to 1,720,
// simdjson 3.0 (DOM, each line validated) 109. But simdjson does not tell where in a line an error is, and Debian has
// no static one, which the command in wheels needs.
//
//   JsonCursor cursor(line);
//   if (cursor.enter_object())
//     for (std::string_view key; cursor.next_key(&key);) ... one read_ or skip_value() per key ...
//   if (cursor.failed() || !cursor.at_end()) ... cursor.error(), cursor.column() ...
//
// After the first error every call returns false, and the error stays.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace thermocline {

class JsonCursor {
 public:
  // `text` must outlive the cursor and the strings that it returns.
  explicit JsonCursor(std::string_view text) : text_(text) {}

  bool enter_object();
  // False at the end of the object, and on an error.
  bool next_key(std::string_view* key);
  // A string without escapes is a view of the text; one with escapes is valid until the next read_string.
  bool read_string(std::string_view* out);
  bool read_integer(std::int64_t* out);
  bool read_number(double* out);
  // An array of integers; `out` is overwritten.
  bool read_integers(std::vector<std::int64_t>* out);
  // An array of strings; `out` is overwritten.
  bool read_strings(std::vector<std::string>* out);
  bool skip_value() { return skip_value(0); }
  // True if only white space follows.
  bool at_end();

  bool failed() const { return error_ != nullptr; }
  const char* error() const { return error_; }
  std::size_t column() const { return at_ + 1; }

 private:
  bool fail(const char* error);
  void skip_space();
  bool take(char c);
  bool skip_value(int depth);
  bool skip_members(char close, int depth);
  bool unescape(std::size_t begin, std::string_view* out);
  bool unescape_one();
  bool read_code_unit(std::uint32_t* out);
  void append_utf8(std::uint32_t code);
  std::string_view number_text();

  std::string_view text_;
  std::size_t at_ = 0;
  bool first_member_ = true;
  const char* error_ = nullptr;
  std::string unescaped_;
};

}  // namespace thermocline
