// SPDX-License-Identifier: Apache-2.0
// Messages of the preloaded library: single lines on stderr, each beginning with "thermocline: ". Uses no allocation
// and no stdio, so it can be called anywhere. Never throws.
#pragma once

#include <atomic>
#include <string>

#include "config/log_level.h"

namespace thermocline {

__attribute__((format(printf, 2, 3))) void log_line(LogLevel level, const char* format, ...);

// kInfo until the settings have been read.
void set_log_level(LogLevel level);
bool is_logged(LogLevel level);

// Prints requested output, at any level. print_line: one line, truncated after a thousand characters, without
// allocation. print_whole_line: a line of any length. print_text: several lines, unchanged.
void print_line(const char* text);
void print_whole_line(const std::string& text);
void print_text(const std::string& text);
// Logs several lines, at a level.
void log_text(LogLevel level, const std::string& text);

}  // namespace thermocline

// Logs the line once in the life of the process.
#define THERMOCLINE_LOG_ONCE(...)                                               \
  do {                                                                          \
    static std::atomic<bool> thermocline_said{false};                           \
    if (!thermocline_said.exchange(true)) ::thermocline::log_line(__VA_ARGS__); \
  } while (false)
