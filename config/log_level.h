// SPDX-License-Identifier: Apache-2.0
// How much is written to stderr. Each level includes the levels before it.
#pragma once

#include <cstdint>

namespace thermocline {

enum class LogLevel : std::uint8_t {
  kQuiet,    // nothing
  kError,    // failures: out of memory, misuse, a recording that is lost, a library that can not start under `strict`
  kWarning,  // degraded or disabled features, and what a user should change
  kInfo,     // choices made: the budget in bytes, allocations that stay on the device
  kDebug,    // a line for each eviction, copy out and fetch, with its reason
};

}  // namespace thermocline
