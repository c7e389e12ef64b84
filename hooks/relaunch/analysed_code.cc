// SPDX-License-Identifier: Apache-2.0
#include "hooks/relaunch/analysed_code.h"

#include <algorithm>
#include <optional>
#include <string_view>

namespace thermocline {
namespace {

using Why = RerunRefusal::Why;

bool same_words(const PtxAccesses& a, const PtxAccesses& b) {
  return std::ranges::equal(a.words, b.words, [](const ParameterWord& x, const ParameterWord& y) {
    return x.parameter == y.parameter && x.offset == y.offset && x.reads == y.reads && x.writes == y.writes &&
           x.is_value == y.is_value;
  });
}

}  // namespace

std::unique_ptr<KernelCode> KernelCode::read(const DeviceCode::Text& text, const std::string& name, RerunRefusal* why) {
  std::string_view not_understood;
  std::optional<PtxKernel> kernel = parse_ptx_kernel(text.ptx, text.index, name, &not_understood);
  if (!kernel.has_value()) {
    // Parameters within a body are those of a call.
    const bool is_call = not_understood == "call" || not_understood.starts_with("call.") || not_understood == ".param";
    *why = is_call ? RerunRefusal{Why::kCalls, {}} : RerunRefusal{Why::kNotParsed, not_understood};
    return nullptr;
  }
  return std::unique_ptr<KernelCode>(new KernelCode(std::move(*kernel)));
}

AnalysedCode analyse_code(const DeviceCode* code, const std::string& name) {
  AnalysedCode found;
  if (code == nullptr) {
    found.unknown.why = Why::kNotSeen;
  } else if (!code->is_made_from_texts()) {
    found.unknown.why = Why::kNoPtx;
  }
  for (std::size_t i = 0; !found.unknown && i < code->texts.size(); ++i) {
    std::unique_ptr<KernelCode> kernel = KernelCode::read(code->texts[i], name, &found.unknown);
    if (kernel == nullptr) continue;
    if (kernel->accesses().unknown) {
      found.unknown = kernel->accesses().unknown;
    } else if (!found.kernels.empty() && !same_words(kernel->accesses(), found.kernels[0]->accesses())) {
      found.unknown.why = Why::kOtherTexts;
    } else {
      if (!found.refused) found.refused = kernel->proof().refused();
      found.kernels.push_back(std::move(kernel));
    }
  }
  if (found.unknown) found.refused = found.unknown;
  return found;
}

}  // namespace thermocline
