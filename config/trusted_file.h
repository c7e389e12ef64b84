// SPDX-License-Identifier: Apache-2.0
// Files that rule what a program does: small plain ones that this user or root wrote, and nobody else can.
#pragma once

#include <string>

namespace thermocline {

inline constexpr std::size_t kMostSettingsBytes = std::size_t{64} << 10;

enum class FileRead { kRead, kMissing, kRefused };

// Never waits, whatever the path leads to. kRefused: `why` says what is so and what to do.
FileRead read_trusted_file(const std::string& path, std::string* content, std::string* why);

// The program has rights that its user has not (ld.so(8), secure-execution mode): neither variables nor the current
// folder say what it does.
bool is_privileged_program();
// Null in such a program, too.
const char* variable_of_process(const char* name);

}  // namespace thermocline
