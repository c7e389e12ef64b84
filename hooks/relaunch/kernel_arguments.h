// SPDX-License-Identifier: Apache-2.0
// What a kernel does with each of its parameters, as it is told to people: what its code shows, and beside it what its
// prototype says, on which nothing relies.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "hooks/relaunch/analysed_code.h"

namespace thermocline {

struct KernelArgument {
  enum class Access : std::uint8_t { kUnknown, kNone, kRead, kWritten, kBoth };

  unsigned parameter = 0, offset = 0;  // eight bytes of it that are a pointer
  Access by_code = Access::kUnknown;
  Access by_prototype = Access::kUnknown;  // kRead: const; kBoth: not

  bool operator==(const KernelArgument&) const = default;
};

// Pointers among its parameters, in order. `name`: as the driver has it.
std::vector<KernelArgument> arguments_of(const AnalysedCode& code, std::string_view name);

// `"arguments": [...]`.
std::string arguments_json(const std::vector<KernelArgument>& arguments);

}  // namespace thermocline
