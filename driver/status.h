// SPDX-License-Identifier: Apache-2.0
// The result of a driver call, as CUDA's own number (CUresult), so that hooks can return it to the program unchanged.
#pragma once

namespace thermocline {

class [[nodiscard]] Status {
 public:
  constexpr Status() = default;
  // `code` is a CUresult.
  constexpr explicit Status(int code) : code_(code) {}

  static constexpr Status invalid_value() { return Status(1); }
  static constexpr Status out_of_memory() { return Status(2); }
  static constexpr Status operating_system() { return Status(304); }
  static constexpr Status not_found() { return Status(500); }
  static constexpr Status not_ready() { return Status(600); }
  static constexpr Status not_supported() { return Status(801); }

  constexpr bool ok() const { return code_ == 0; }
  constexpr bool is_out_of_memory() const { return code_ == 2; }
  constexpr int code() const { return code_; }
  friend constexpr bool operator==(Status, Status) = default;

 private:
  int code_ = 0;
};

}  // namespace thermocline
