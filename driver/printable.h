// SPDX-License-Identifier: Apache-2.0
// Makes text that comes from other programs safe to print: names of processes, files, kernels, keys.
#pragma once

#include <string>
#include <string_view>

namespace thermocline {

// Replaces by '?' every character that controls a terminal, ends a line, changes the writing direction or is not valid
// UTF-8. The result has at most `most_bytes` bytes and ends with a whole character.
std::string printable(std::string_view text, std::size_t most_bytes = std::string::npos);

// printable() for whole messages: line ends are kept.
std::string printable_lines(std::string_view text);

}  // namespace thermocline
