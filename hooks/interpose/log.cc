// SPDX-License-Identifier: Apache-2.0
#include "hooks/interpose/log.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstddef>
#include <cstdio>

#include "driver/undisturbed.h"

namespace thermocline {
namespace {

constexpr std::size_t kLongestLine = 1024;
std::atomic<LogLevel> shown{LogLevel::kInfo};

}  // namespace

void set_log_level(LogLevel level) { shown.store(level, std::memory_order_relaxed); }

bool is_logged(LogLevel level) { return level <= shown.load(std::memory_order_relaxed); }

void print_line(const char* text) {
  const Undisturbed undisturbed;
  const int saved = errno;
  char line[kLongestLine];
  const int written = std::snprintf(line, sizeof line - 1, "thermocline: %s", text);
  std::size_t length = std::min(static_cast<std::size_t>(std::max(written, 0)), sizeof line - 2);
  line[length++] = '\n';
  // If writing to stderr fails, there is nobody to tell.
  static_cast<void>(!write(STDERR_FILENO, line, length));
  errno = saved;
}

void print_whole_line(const std::string& text) { print_text("thermocline: " + text + '\n'); }

void log_text(LogLevel level, const std::string& text) {
  if (is_logged(level)) print_text(text);
}

void print_text(const std::string& text) {
  const Undisturbed undisturbed;
  const int saved = errno;
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t written = write(STDERR_FILENO, text.data() + done, text.size() - done);
    if (written <= 0) break;
    done += static_cast<std::size_t>(written);
  }
  errno = saved;
}

void log_line(LogLevel level, const char* format, ...) {
  if (!is_logged(level)) return;
  char text[kLongestLine];
  std::va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  print_line(text);
}

}  // namespace thermocline
