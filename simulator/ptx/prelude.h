// SPDX-License-Identifier: Apache-2.0
// What all generated code begins and ends with: small functions that are inlined wherever they are called.
#pragma once

#include <string_view>

namespace simulator::ptx {

extern const std::string_view kPrelude;
extern const std::string_view kPostlude;

}  // namespace simulator::ptx
