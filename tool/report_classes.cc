// SPDX-License-Identifier: Apache-2.0
#include "tool/report_classes.h"

#include <algorithm>
#include <array>

#include "offload/operator_class.h"

namespace thermocline {
namespace {

constexpr std::array kFiner = {"dropout",   "concatenation", "activation", "pooling",
                               "optimizer", "reduction",     "embedding",  "loss"};
enum Finer : int { kDropout, kConcatenation, kActivation, kPooling, kOptimizer, kReduction, kEmbedding, kLoss };

constexpr int kBefore = 1, kFinerBegin = kBefore + kOperatorClasses;
constexpr int kElementwise = kBefore + static_cast<int>(OperatorClass::kElementwise);
constexpr int kCopy = kBefore + static_cast<int>(OperatorClass::kCopy);

struct Pattern {
  std::string_view part;
  int what;
};
// Patterns of PyTorch's operators and kernels, in lower case; the first one that the name contains counts. They are
// tried before the engine's classes.
constexpr Pattern kBeforeTheEngine[] = {
    {"dropout", kFinerBegin + kDropout},        {"bernoulli", kFinerBegin + kDropout},
    {"pool", kFinerBegin + kPooling},           {"embedding", kFinerBegin + kEmbedding},
    {"addcmul", kFinerBegin + kOptimizer},      {"addcdiv", kFinerBegin + kOptimizer},
    {"lerp", kFinerBegin + kOptimizer},         {"foreach", kFinerBegin + kOptimizer},
    {"adam", kFinerBegin + kOptimizer},         {"sgd", kFinerBegin + kOptimizer},
    {"multi_tensor", kFinerBegin + kOptimizer}, {"relu", kFinerBegin + kActivation},
    {"gelu", kFinerBegin + kActivation},        {"silu", kFinerBegin + kActivation},
    {"sigmoid", kFinerBegin + kActivation},     {"tanh", kFinerBegin + kActivation},
    {"threshold", kFinerBegin + kActivation},   {"hardswish", kFinerBegin + kActivation},
    {"softplus", kFinerBegin + kActivation},    {"loss", kFinerBegin + kLoss},
    {"cross_entropy", kFinerBegin + kLoss},
};
// Tried after them: short names that must match completely.
constexpr Pattern kWhole[] = {
    {"cat", kFinerBegin + kConcatenation},
    {"stack", kFinerBegin + kConcatenation},
    {"sum", kFinerBegin + kReduction},
    {"mean", kFinerBegin + kReduction},
    {"max", kFinerBegin + kReduction},
    {"norm", kFinerBegin + kReduction},
    {"upload", kCopy},
    {"add", kElementwise},
    {"sub", kElementwise},
    {"mul", kElementwise},
    {"div", kElementwise},
    {"neg", kElementwise},
    {"sqrt", kElementwise},
    {"rsqrt", kElementwise},
    {"exp", kElementwise},
    {"log", kElementwise},
    {"pow", kElementwise},
    {"where", kElementwise},
    {"masked_fill", kElementwise},
    {"fill", kElementwise},
    {"zero", kElementwise},
    {"ones_like", kElementwise},
    {"zeros_like", kElementwise},
    {"zeros", kElementwise},
    {"ones", kElementwise},
    {"reciprocal", kElementwise},
    {"slice_backward", kCopy},
    {"select_backward", kCopy},
    {"upsample_nearest3d", kElementwise},
    {"upsample_nearest2d", kElementwise},
};

std::string in_small(std::string_view text) {
  std::string result(text);
  std::ranges::transform(result, result.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  return result;
}

}  // namespace

std::vector<std::string> report_class_names() {
  std::vector<std::string> names = {"there from the beginning"};
  for (int i = 0; i < kOperatorClasses; ++i) {
    std::string name = name_of(static_cast<OperatorClass>(i));
    std::ranges::replace(name, '_', ' ');
    names.push_back(name);
  }
  names.insert(names.end(), kFiner.begin(), kFiner.end());
  return names;
}

int report_class(std::string_view operator_name) {
  const std::string name = in_small(operator_name);
  for (const Pattern& pattern : kBeforeTheEngine) {
    if (name.find(pattern.part) != std::string::npos) return pattern.what;
  }
  const OperatorClass known = classify_operator(operator_name, {});
  if (known != OperatorClass::kOther) return kBefore + static_cast<int>(known);
  // PyTorch's names of operators that change their argument end with an underscore.
  const std::string_view stem = std::string_view(name).substr(0, name.ends_with('_') ? name.size() - 1 : name.size());
  for (const Pattern& whole : kWhole) {
    if (stem == whole.part) return whole.what;
  }
  return kBefore;
}

}  // namespace thermocline
