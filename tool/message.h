// SPDX-License-Identifier: Apache-2.0
// The command's messages to its user: one line each, on stderr.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include "config/load.h"
#include "config/problem.h"

namespace thermocline {

// "thermocline: TEXT"
void say(const std::string& text);
void say_all(const std::vector<Problem>& problems);
// Prints the errors and the remarks about the settings.
void say_all(const LoadedSettings& loaded);

// "; did you mean 'x'?", or "" for no suggestion.
std::string did_you_mean(const std::string& suggestion);

// The text as a word of a command line for display: quoted if a shell would change it, on one line.
std::string shell_word(const std::string& text);

// "; about 12 s left", extrapolated from the time for `done` of `total`; "" while there is too little to go by.
std::string time_left(double seconds, std::size_t done, std::size_t total);

// Shows the progress of long work and when it may end; only on a terminal. The line is erased when the object is
// destroyed.
class Progress {
 public:
  explicit Progress(std::string what);
  ~Progress();

  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // `done` steps have been completed.
  void show(std::size_t done, std::size_t total);

 private:
  std::string what_;
  bool is_terminal_;
  std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
};

}  // namespace thermocline
