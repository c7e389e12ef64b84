// SPDX-License-Identifier: Apache-2.0
// The class of an operator, according to its function's name: the basis of the first guess at its duration, until it
// has been measured (duration_meter.h). Transfers of what O(n^3) operators produce and consume can be hidden behind
// their arithmetic.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "driver/units.h"

namespace thermocline {

enum class OperatorClass : std::uint8_t {
  kOther,
  kMatrixMultiply,
  kConvolution,
  kAttention,
  kNormalisation,
  kElementwise,
  kCopy,
  kTables,  // writes addresses of its operands to memory, where other kernels find them (references.h)
};
inline constexpr int kOperatorClasses = 8;

// "matrix_multiply" and so on; see operator_class_of.
const char* name_of(OperatorClass what);
bool operator_class_of(std::string_view name, OperatorClass* out);

// True for classes whose arithmetic grows with the product of three extents, and whose traffic with that of two.
constexpr bool is_cubic(OperatorClass what) {
  return what == OperatorClass::kMatrixMultiply || what == OperatorClass::kConvolution ||
         what == OperatorClass::kAttention;
}

// Estimated duration of an operator that accesses this many bytes, until it is measured.
std::uint64_t guessed_nanoseconds(Bytes bytes, OperatorClass what);

// A rule applies to every function whose name contains the pattern, ignoring case; '*' matches any characters.
struct OperatorRule {
  std::string pattern;
  OperatorClass what = OperatorClass::kOther;
};

// The first rule that matches counts: `rules`, then those of the table in operator_class.cc; kOther if none does.
// Thread-safe.
OperatorClass classify_operator(std::string_view name, const std::vector<OperatorRule>& rules);

// "PATTERN=CLASS, ..." as in the settings file. False: `wrong` is the invalid entry.
bool parse_operator_rules(std::string_view text, std::vector<OperatorRule>* out, std::string* wrong);
std::string text_of(const std::vector<OperatorRule>& rules);

}  // namespace thermocline
