// SPDX-License-Identifier: Apache-2.0
// Reads lines of PTX and does what they say to registers, one after another, by the table of rules.h. It shares nothing
// with the simulator, nor with what writes the programs.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace ptx_test {

using Registers = std::map<std::string, std::uint64_t>;  // bits by name

// Lines such as `@!%p1 add.s32 %r1, %r2, 0x10;`. Throws std::runtime_error where it does not know one.
void interpret(const std::string& text, Registers* registers);

}  // namespace ptx_test
