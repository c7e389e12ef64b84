// SPDX-License-Identifier: Apache-2.0
// Durations as users write them: a whole number of ms, s, min or h, or "off".
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "config/size.h"

namespace thermocline {

using Duration = std::chrono::milliseconds;

// "off" and 0 are Duration(0). Returns nothing when `text` is no duration; then `error` has the reason.
std::optional<Duration> parse_duration(std::string_view text, ParseError* error);
// In the largest unit that divides the duration; "off" for 0.
std::string duration_text(Duration duration);

}  // namespace thermocline
