// SPDX-License-Identifier: Apache-2.0
// What the library could do less well, or not at all: each kind is counted (Counter), shown with the statistics, and
// said once when the program ends.
//
// Driver functions that a program was given and that functions.h does not know: a driver newer than the table. They
// work as without the library, and what they do to its memory goes unseen, so they are counted and named.
#pragma once

#include <string>
#include <string_view>

#include "offload/engine/engine.h"

namespace thermocline {

void add_fallbacks(EngineStatistics* statistics);
// "fallbacks: 3 launches whose ...; 2 ..."; empty when there are none.
std::string fallbacks_text(const EngineStatistics& statistics);

// Each name counts once.
void count_unknown_function(std::string_view name);
// "cuA, cuB and 3 more"; empty when there are none.
std::string unknown_functions();

}  // namespace thermocline
