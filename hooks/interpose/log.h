// SPDX-License-Identifier: Apache-2.0
// What the preloaded library says: single lines on stderr, each beginning "thermocline: ". No allocation and no stdio,
// so that it may be said anywhere. Never throws.
#pragma once

#include <atomic>
#include <string>

namespace thermocline {

__attribute__((format(printf, 1, 2))) void log_line(const char* format, ...);

// The log level "quiet" silences log_line; what was asked for is printed all the same.
void silence_log();
void print_line(const char* text);
// Several lines, as they are.
void print_text(const std::string& text);
// The same, silenced like log_line.
void log_text(const std::string& text);

}  // namespace thermocline

// Says the line once in the life of the process.
#define THERMOCLINE_LOG_ONCE(...)                                               \
  do {                                                                          \
    static std::atomic<bool> thermocline_said{false};                           \
    if (!thermocline_said.exchange(true)) ::thermocline::log_line(__VA_ARGS__); \
  } while (false)
