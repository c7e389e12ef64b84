// SPDX-License-Identifier: Apache-2.0
// Reads files that control what a program does: small regular files that this user or root wrote and nobody else can
// change.
#pragma once

#include <string>

namespace thermocline {

inline constexpr std::size_t kMostSettingsBytes = std::size_t{64} << 10;

enum class FileRead { kRead, kMissing, kRefused };

// Never blocks, whatever kind of file the path names. kRefused: `why` has the reason and what to do.
FileRead read_trusted_file(const std::string& path, std::string* content, std::string* why);

// The program has privileges that its user does not have (ld.so(8), secure-execution mode), so neither variables nor
// the current folder may control it.
bool is_privileged_program();
// Like getenv, but null in a privileged program.
const char* variable_of_process(const char* name);

}  // namespace thermocline
