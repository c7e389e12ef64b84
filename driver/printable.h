// SPDX-License-Identifier: Apache-2.0
// Texts of other programs, fit to be shown: names of processes, files, kernels, keys.
#pragma once

#include <string>
#include <string_view>

namespace thermocline {

// With '?' for whatever rules a terminal, ends a line, turns the direction of writing or is no UTF-8. At most
// `most_bytes` bytes, ending with a whole character.
std::string printable(std::string_view text, std::size_t most_bytes = std::string::npos);

// The same, but lines may end. For whole messages.
std::string printable_lines(std::string_view text);

}  // namespace thermocline
