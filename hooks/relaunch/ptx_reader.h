// SPDX-License-Identifier: Apache-2.0
// Reads PTX text piece by piece: words, signs, declarations of variables. Comments are skipped.
#pragma once

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <system_error>

namespace thermocline {

class PtxReader {
 public:
  explicit PtxReader(std::string_view text, std::size_t at = 0) : text_(text), at_(at) {}

  bool is_at_end() const { return at_ >= text_.size(); }
  std::size_t position() const { return at_; }

 protected:
  void skip();
  bool accept(char c);
  // Reads letters and digits, and dots if `dots`.
  std::string_view word(bool dots);
  // Reads ".align 4 .b8 name[16][2]". `bytes`: its size; 0 if it is not supported, PtxKernel::kOfTheLaunch for dynamic
  // shared memory.
  bool read_variable(std::string_view* name, std::uint64_t* bytes);

  static bool is_of_name(char c);
  template <class T>
  static bool number(std::string_view text, T* out) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *out);
    return error == std::errc() && end == text.data() + text.size();
  }

  std::string_view text_;
  std::size_t at_;
};

}  // namespace thermocline
