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
  // After such an error every call in the context returns the same error, and nothing that was submitted runs any more:
  // cuda.h says at these values that the process or the context has to end.
  constexpr bool loses_the_context() const {
    constexpr int kLosing[] = {226,   // contained
                               700,   // illegal address
                               702,   // launch timeout
                               710,   // assert
                               714,   // hardware stack error
                               715,   // illegal instruction
                               716,   // misaligned address
                               717,   // invalid address space
                               718,   // invalid program counter
                               719,   // launch failed
                               721,   // tensor memory leak
                               810,   // this process is terminated as a client of MPS
                               911};  // external device
    for (const int one : kLosing) {
      if (code_ == one) return true;
    }
    return false;
  }
  friend constexpr bool operator==(Status, Status) = default;

 private:
  int code_ = 0;
};

}  // namespace thermocline
