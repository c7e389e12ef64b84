// SPDX-License-Identifier: Apache-2.0
// The beginning and end of all generated code: small functions that are inlined at every call.
#pragma once

#include <string_view>

namespace simulator::ptx {

extern const std::string_view kPrelude;
extern const std::string_view kPostlude;

}  // namespace simulator::ptx
