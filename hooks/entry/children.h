// SPDX-License-Identifier: Apache-2.0
// Decides whether child processes get the library too, which they do by inheriting LD_PRELOAD. If THERMOCLINE_CHILDREN
// is false, this library is removed from that variable while the process is being loaded: later, other threads may be
// reading the environment.
#pragma once

#include <string>
#include <string_view>

namespace thermocline {

// The value of LD_PRELOAD without this library; the others keep their order.
std::string preload_of_others(std::string_view preload);

}  // namespace thermocline
