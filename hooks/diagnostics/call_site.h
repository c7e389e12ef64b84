// SPDX-License-Identifier: Apache-2.0
// The call site of something done to a buffer: thread, stream, operation number and call stack. Recorded only if misuse
// is watched (misuse.h).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "driver/driver.h"

namespace thermocline {

struct CallSite {
  static constexpr std::size_t kFrames = 8;

  int thread = 0;
  std::uint64_t operation = 0;
  std::optional<StreamHandle> stream;
  std::array<void*, kFrames> frames{};  // return addresses outside the library, innermost first; then null
};

// `operation`: its number in the process.
CallSite call_site(std::uint64_t operation, std::optional<StreamHandle> stream);
// Several lines, the first of which begins with `title`.
std::string text_of(const CallSite& site, const char* title);

}  // namespace thermocline
