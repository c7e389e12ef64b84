// SPDX-License-Identifier: Apache-2.0
// Driver functions that a program was given and that functions.h does not know: a driver newer than the table. They
// work as without the library, and what they do to its memory goes unseen, so they are counted and named.
#pragma once

#include <string>
#include <string_view>

namespace thermocline {

// Each name counts once.
void count_unknown_function(std::string_view name);
// "cuA, cuB and 3 more"; empty when there are none.
std::string unknown_functions();

}  // namespace thermocline
