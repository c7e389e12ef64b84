// SPDX-License-Identifier: Apache-2.0
// Fallbacks: what the library did in a slower or less complete way. Each kind is counted (Counter), shown with the
// statistics, and reported once when the program ends.
//
// Also: driver functions that a program looked up and that functions.h does not list, because the driver is newer than
// that table, and later variants of functions that it lists. They work as without the library, but their effects on
// memory are not seen, so they are counted and named.
#pragma once

#include <string>
#include <string_view>

#include "offload/engine/engine.h"

namespace thermocline {

void add_fallbacks(EngineStatistics* statistics);
// "fallbacks: 3 launches whose ...; 2 ..."; empty when there are none.
std::string fallbacks_text(const EngineStatistics& statistics);

// Each name is counted once.
void count_unknown_function(std::string_view name);
// "cuA, cuB and 3 more"; empty when there are none.
std::string unknown_functions();

}  // namespace thermocline
