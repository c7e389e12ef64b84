// SPDX-License-Identifier: Apache-2.0
// What the command says to people: one line each, on stderr.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "config/problem.h"

namespace thermocline {

// "thermocline: TEXT"
void say(const std::string& text);
void say_all(const std::vector<Problem>& problems);

// "; did you mean 'x'?", or "" for no suggestion.
std::string did_you_mean(const std::string& suggestion);

// Where long work stands, on a terminal and nowhere else; gone when the object is.
class Progress {
 public:
  explicit Progress(std::string what);
  ~Progress();

  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void show(std::size_t done, std::size_t total);

 private:
  std::string what_;
  bool is_terminal_;
};

}  // namespace thermocline
