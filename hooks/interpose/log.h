// SPDX-License-Identifier: Apache-2.0
// What the preloaded library says: single lines on stderr, each beginning "thermocline: ". No allocation and no stdio,
// so that it may be said anywhere. Never throws.
#pragma once

#include <atomic>
#include <string>

#include "config/log_level.h"

namespace thermocline {

__attribute__((format(printf, 2, 3))) void log_line(LogLevel level, const char* format, ...);

// kInfo until the settings are known.
void set_log_level(LogLevel level);
bool is_logged(LogLevel level);

// What was asked for is printed at any level: a line, cut after a thousand characters, for which nothing is allocated;
// a line of any length; several lines, as they are.
void print_line(const char* text);
void print_whole_line(const std::string& text);
void print_text(const std::string& text);
// Several lines, at a level.
void log_text(LogLevel level, const std::string& text);

}  // namespace thermocline

// Says the line once in the life of the process.
#define THERMOCLINE_LOG_ONCE(...)                                               \
  do {                                                                          \
    static std::atomic<bool> thermocline_said{false};                           \
    if (!thermocline_said.exchange(true)) ::thermocline::log_line(__VA_ARGS__); \
  } while (false)
