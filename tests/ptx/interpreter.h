// SPDX-License-Identifier: Apache-2.0
// Executes lines of PTX on registers, one after the other, by the table in rules.h. It shares no code with the
// simulator, nor with the generator of the programs.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace ptx_test {

using Registers = std::map<std::string, std::uint64_t>;  // by name: the bits

// Lines such as `@!%p1 add.s32 %r1, %r2, 0x10;`. Throws std::runtime_error for an unknown one.
void interpret(const std::string& text, Registers* registers);

}  // namespace ptx_test
