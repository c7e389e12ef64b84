// SPDX-License-Identifier: Apache-2.0
// Whether programs that this one starts get the library, too: they do by LD_PRELOAD, which they inherit. Where
// THERMOCLINE_CHILDREN is false this library is taken out of it while the process is loaded: later, other threads may
// be reading the environment.
#pragma once

#include <string>
#include <string_view>

namespace thermocline {

// A value of LD_PRELOAD without this library, all others in their order.
std::string preload_of_others(std::string_view preload);

}  // namespace thermocline
