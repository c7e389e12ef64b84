// SPDX-License-Identifier: Apache-2.0
#include "tool/message.h"

#include <unistd.h>

#include <cstdio>
#include <utility>

namespace thermocline {

void say(const std::string& text) { std::fprintf(stderr, "thermocline: %s\n", text.c_str()); }

void say_all(const std::vector<Problem>& problems) {
  for (const Problem& problem : problems) say(problem.text());
}

std::string did_you_mean(const std::string& suggestion) {
  return suggestion.empty() ? "" : "; did you mean '" + suggestion + "'?";
}

Progress::Progress(std::string what) : what_(std::move(what)), is_terminal_(isatty(STDERR_FILENO) == 1) {}

Progress::~Progress() {
  // Back to the left edge, and erase the line.
  if (is_terminal_) std::fputs("\r\033[K", stderr);
}

void Progress::show(std::size_t done, std::size_t total) {
  if (is_terminal_) std::fprintf(stderr, "\r%s: step %zu of %zu", what_.c_str(), done + 1, total);
}

}  // namespace thermocline
