// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "simulator/image/image.h"

namespace simulator {
namespace {

// The offset at which parameters begin in the constant bank. Not measured before 7.0, for which today's ptxas does not
// compile. From 10.0 on the offsets themselves are aligned.
std::uint32_t parameter_base(std::uint32_t architecture) {
  if (architecture < 70) return 0x140;
  if (architecture < 90) return 0x160;
  if (architecture < 100) return 0x210;
  return 0;
}

// Before 9.0, larger parameter lists begin at another offset.
constexpr std::uint32_t kFewParameterBytes = 4352, kBaseOfMany = 0x1a80;

void place(std::uint32_t base, ImageKernel* kernel) {
  std::uint32_t end = base;
  std::vector<ParameterByte> reads;
  for (ImageParameter& parameter : kernel->parameters) {
    const std::uint32_t at = (end + parameter.alignment - 1) / parameter.alignment * parameter.alignment;
    reads.resize(at - base, ParameterByte::kUnread);
    const auto first = kernel->reads.begin() + parameter.offset;
    reads.insert(reads.end(), first, first + parameter.size);
    parameter.offset = at - base;
    end = at + parameter.size;
  }
  kernel->parameter_bytes = end - base;
  kernel->reads = std::move(reads);
}

}  // namespace

void place_parameters(std::uint32_t architecture, Image* image) {
  for (ImageKernel& kernel : image->kernels) {
    place(parameter_base(architecture), &kernel);
    if (architecture >= 70 && architecture < 90 && kernel.parameter_bytes > kFewParameterBytes)
      place(kBaseOfMany, &kernel);
  }
}

}  // namespace simulator
