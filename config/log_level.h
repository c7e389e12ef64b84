// SPDX-License-Identifier: Apache-2.0
// How much is written to stderr. Each level has what those before it have.
#pragma once

#include <cstdint>

namespace thermocline {

enum class LogLevel : std::uint8_t {
  kQuiet,    // nothing
  kError,    // what fails: out of memory, misuse, a recording that is lost, a library that can not begin under `strict`
  kWarning,  // what is done less well, or not at all, and what a user should change
  kInfo,     // what was chosen: a budget in bytes, what stays on the device
  kDebug,    // a line for each eviction, copy out and fetch, with its reason
};

}  // namespace thermocline
