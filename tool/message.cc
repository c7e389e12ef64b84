// SPDX-License-Identifier: Apache-2.0
#include "tool/message.h"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <string_view>
#include <utility>

#include "driver/printable.h"

namespace thermocline {

void say(const std::string& text) { std::fprintf(stderr, "thermocline: %s\n", printable_lines(text).c_str()); }

void say_all(const std::vector<Problem>& problems) {
  for (const Problem& problem : problems) say(problem.text());
}

void say_all(const LoadedSettings& loaded) {
  for (const Problem& note : loaded.notes) say("note: " + note.text());
  say_all(loaded.problems);
}

std::string did_you_mean(const std::string& suggestion) {
  return suggestion.empty() ? "" : "; did you mean '" + suggestion + "'?";
}

std::string shell_word(const std::string& text) {
  constexpr std::string_view kPlain = "_./%+=:,@-";
  const auto is_plain = [kPlain](unsigned char c) {
    return std::isalnum(c) != 0 || c >= 0x80 || kPlain.find(static_cast<char>(c)) != std::string_view::npos;
  };
  if (!text.empty() && std::ranges::all_of(text, is_plain)) return printable(text);
  std::string quoted;
  for (const char c : text) quoted += c == '\'' ? "'\\''" : std::string(1, c);
  return "'" + printable(quoted) + "'";
}

std::string time_left(double seconds, std::size_t done, std::size_t total) {
  // Shorter work gets no forecast.
  constexpr double kSoon = 1;
  if (done == 0 || done >= total || seconds < kSoon) return "";
  const double left = seconds / static_cast<double>(done) * static_cast<double>(total - done);
  if (left < kSoon) return "";
  char text[32];
  if (left < 100) {
    std::snprintf(text, sizeof text, "; about %.0f s left", left);
  } else {
    std::snprintf(text, sizeof text, "; about %.0f min left", left / 60);
  }
  return text;
}

Progress::Progress(std::string what) : what_(std::move(what)), is_terminal_(isatty(STDERR_FILENO) == 1) {}

Progress::~Progress() {
  // Returns to the left edge and erases the line.
  if (is_terminal_) std::fputs("\r\033[K", stderr);
}

void Progress::show(std::size_t done, std::size_t total) {
  if (!is_terminal_) return;
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun_).count();
  // The remaining time is a guess, and a search may take more steps than expected.
  std::fprintf(stderr, "\r%s: step %zu of %zu%s\033[K", what_.c_str(), done + 1, std::max(total, done + 1),
               time_left(seconds, done, total).c_str());
}

}  // namespace thermocline
