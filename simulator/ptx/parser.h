// SPDX-License-Identifier: Apache-2.0
// Parses text to a module. Source: PTX ISA 9.0, chapters 4, 5, 10 and 11.
#pragma once

#include <memory>
#include <string_view>

#include "simulator/ptx/module.h"

namespace simulator::ptx {

// Throws Error. Accepts anything with the form of an instruction; names and labels that operands use must exist.
std::unique_ptr<Module> parse(std::string_view text);

}  // namespace simulator::ptx
