// SPDX-License-Identifier: Apache-2.0
// A problem with the settings: where it is, what is wrong, and what was probably meant. The preloaded library prints
// the line and keeps the previous value; tools reject the settings.
#pragma once

#include <string>

namespace thermocline {

struct Problem {
  std::string source = {};  // file path or variable name
  int line = 0;             // 0: the source has no lines, or the problem concerns the whole file
  int column = 0;
  std::string key = {};  // the option, or ""
  std::string message = {};
  std::string suggestion = {};  // a name or value, or ""

  // "thermocline.toml:3:1: unknown key 'bugdet'; did you mean 'budget'?"
  std::string text() const;
};

}  // namespace thermocline
