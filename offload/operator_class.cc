// SPDX-License-Identifier: Apache-2.0
#include "offload/operator_class.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>

namespace thermocline {
namespace {

// Until an operation's duration has been measured, it is estimated as the bytes it accesses at about the rate of device
// memory, plus a launch. A plan needs the order of things more than their times (a quarter of noise costs less than 1
// %: G10, MICRO 2023, sensitivity runs).
constexpr double kGuessedBytesPerNs = 1500;
// O(n^3) operators of recorded training steps do about 100 operations for each byte (the median over the matrix
// multiplications and convolutions of bench/traces); devices do 10 to 15 in the time in which a byte is read (fp32).
constexpr double kGuessedCubicFactor = 8;
constexpr std::uint64_t kGuessedLaunchNs = 4000;

constexpr std::array<const char*, kOperatorClasses> kNames = {
    "other", "matrix_multiply", "convolution", "attention", "normalisation", "elementwise", "copy", "tables",
};

struct KnownPattern {
  std::string_view pattern;  // in lower case
  OperatorClass what;
};

// Names of kernels in cuBLAS, cuDNN, CUTLASS, FlashAttention, Triton and PyTorch, and of PyTorch's operators in traces.
// From the special to the general: an implicit GEMM is a convolution, and a softmax within an attention kernel is
// attention.
constexpr KnownPattern kTable[] = {
    // Kernels that write the pointers that a grouped or batched GEMM reads from memory: PyTorch (GroupMMCommon.cuh),
    // vLLM and SGLang (CUTLASS MoE), MAGMA (set_pointer.cu, and copies of such tables with offsets).
    {"prepare_grouped_gemm_data", OperatorClass::kTables},
    {"get_group_gemm_starts", OperatorClass::kTables},
    {"set_pointer", OperatorClass::kTables},
    {"displace_pointers", OperatorClass::kTables},
    {"flash_", OperatorClass::kAttention},
    {"fmha", OperatorClass::kAttention},
    {"attention", OperatorClass::kAttention},
    {"layer_norm", OperatorClass::kNormalisation},
    {"layernorm", OperatorClass::kNormalisation},
    {"batch_norm", OperatorClass::kNormalisation},
    {"batchnorm", OperatorClass::kNormalisation},
    {"bn_fw", OperatorClass::kNormalisation},
    {"bn_bw", OperatorClass::kNormalisation},
    {"group_norm", OperatorClass::kNormalisation},
    {"groupnorm", OperatorClass::kNormalisation},
    {"rmsnorm", OperatorClass::kNormalisation},
    {"rms_norm", OperatorClass::kNormalisation},
    {"softmax", OperatorClass::kNormalisation},
    {"convolution", OperatorClass::kConvolution},
    {"conv1d", OperatorClass::kConvolution},
    {"conv2d", OperatorClass::kConvolution},
    {"conv3d", OperatorClass::kConvolution},
    {"implicit_", OperatorClass::kConvolution},
    {"fprop", OperatorClass::kConvolution},
    {"dgrad", OperatorClass::kConvolution},
    {"wgrad", OperatorClass::kConvolution},
    {"winograd", OperatorClass::kConvolution},
    {"gemm", OperatorClass::kMatrixMultiply},
    {"matmul", OperatorClass::kMatrixMultiply},
    {"xmma", OperatorClass::kMatrixMultiply},
    {"cutlass", OperatorClass::kMatrixMultiply},
    {"nvjet", OperatorClass::kMatrixMultiply},
    {"splitk", OperatorClass::kElementwise},
    {"addmm", OperatorClass::kMatrixMultiply},
    {"elementwise", OperatorClass::kElementwise},
    {"relu", OperatorClass::kElementwise},
    {"gelu", OperatorClass::kElementwise},
    {"dropout", OperatorClass::kElementwise},
    {"memcpy", OperatorClass::kCopy},
    {"copy", OperatorClass::kCopy},
    {"transpose", OperatorClass::kCopy},
    {"im2col", OperatorClass::kCopy},
};

// Whole names that are too short to be searched for within others.
constexpr KnownPattern kWholeNames[] = {
    {"mm", OperatorClass::kMatrixMultiply},
    {"bmm", OperatorClass::kMatrixMultiply},
    {"baddbmm", OperatorClass::kMatrixMultiply},
    {"clone", OperatorClass::kCopy},
};

char small(char letter) { return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter; }

std::string in_small(std::string_view text) {
  std::string result;
  std::transform(text.begin(), text.end(), std::back_inserter(result), small);
  return result;
}

// The pieces between stars must occur in the name in their order, each after the one before.
bool contains(std::string_view name, std::string_view pattern) {
  std::size_t from = 0;
  while (!pattern.empty()) {
    const std::size_t star = pattern.find('*');
    const std::string_view piece = pattern.substr(0, star);
    const std::size_t found = name.find(piece, from);
    if (found == std::string_view::npos) return false;
    from = found + piece.size();
    pattern = star == std::string_view::npos ? std::string_view() : pattern.substr(star + 1);
  }
  return true;
}

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\n");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\n") - first + 1);
}

}  // namespace

std::uint64_t guessed_nanoseconds(Bytes bytes, OperatorClass what) {
  const double factor = is_cubic(what) ? kGuessedCubicFactor : 1;
  return kGuessedLaunchNs + static_cast<std::uint64_t>(factor * static_cast<double>(bytes) / kGuessedBytesPerNs);
}

const char* name_of(OperatorClass what) { return kNames[static_cast<std::size_t>(what)]; }

bool operator_class_of(std::string_view name, OperatorClass* out) {
  const auto found = std::find(kNames.begin(), kNames.end(), name);
  if (found == kNames.end()) return false;
  *out = static_cast<OperatorClass>(found - kNames.begin());
  return true;
}

OperatorClass classify_operator(std::string_view name, const std::vector<OperatorRule>& rules) {
  const std::string known = in_small(name);
  for (const OperatorRule& rule : rules) {
    if (contains(known, in_small(rule.pattern))) return rule.what;
  }
  for (const KnownPattern& whole : kWholeNames) {
    if (known == whole.pattern) return whole.what;
  }
  for (const KnownPattern& part : kTable) {
    if (contains(known, part.pattern)) return part.what;
  }
  return OperatorClass::kOther;
}

bool parse_operator_rules(std::string_view text, std::vector<OperatorRule>* out, std::string* wrong) {
  out->clear();
  while (!trimmed(text).empty()) {
    const std::size_t comma = text.find(',');
    const std::string_view entry = trimmed(text.substr(0, comma));
    text = comma == std::string_view::npos ? std::string_view() : text.substr(comma + 1);
    if (entry.empty()) continue;
    // A mangled name may contain anything but a comma; the class follows the last '='.
    const std::size_t equals = entry.rfind('=');
    OperatorRule rule;
    const bool right = equals != std::string_view::npos && equals > 0 &&
                       operator_class_of(trimmed(entry.substr(equals + 1)), &rule.what);
    if (!right || trimmed(entry.substr(0, equals)).empty()) {
      *wrong = entry;
      return false;
    }
    rule.pattern = trimmed(entry.substr(0, equals));
    out->push_back(std::move(rule));
  }
  return true;
}

std::string text_of(const std::vector<OperatorRule>& rules) {
  std::string text;
  for (const OperatorRule& rule : rules) {
    if (!text.empty()) text += ", ";
    text += rule.pattern + "=" + name_of(rule.what);
  }
  return text;
}

}  // namespace thermocline
