// SPDX-License-Identifier: Apache-2.0
// How a kernel uses each of its parameters, for display: what its code shows, and what its prototype says. Nothing
// relies on the prototype.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "hooks/relaunch/analysed_code.h"

namespace thermocline {

struct KernelArgument {
  enum class Access : std::uint8_t { kUnknown, kNone, kRead, kWritten, kBoth };

  unsigned parameter = 0, offset = 0;  // eight bytes of the parameter that are a pointer
  Access by_code = Access::kUnknown;
  Access by_prototype = Access::kUnknown;  // kRead: const; kBoth: not

  bool operator==(const KernelArgument&) const = default;
};

// The pointers among the kernel's parameters, in order. `name`: the name in the driver.
std::vector<KernelArgument> arguments_of(const AnalysedCode& code, std::string_view name);

// `"arguments": [...]`.
std::string arguments_json(const std::vector<KernelArgument>& arguments);

}  // namespace thermocline
