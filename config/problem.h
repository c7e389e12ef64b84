// SPDX-License-Identifier: Apache-2.0
// Something wrong with the settings: where, what, and what was probably meant. The preloaded library prints the line
// and goes on with the value that stood before; tools reject.
#pragma once

#include <string>

namespace thermocline {

struct Problem {
  std::string source = {};  // file path or variable name
  int line = 0;             // 0: the source has no lines, or the whole file is meant
  int column = 0;
  std::string key = {};  // option concerned, or ""
  std::string message = {};
  std::string suggestion = {};  // a name or value, or ""

  // "thermocline.toml:3:1: unknown key 'bugdet'; did you mean 'budget'?"
  std::string text() const;
};

}  // namespace thermocline
