// SPDX-License-Identifier: Apache-2.0
// A TOML file as a flat list of keys with their places. The only user of toml++
// (https://marzer.github.io/tomlplusplus/), compiled without its exceptions, so that nothing of it is seen outside.
#pragma once

#include <string>
#include <vector>

#include "config/problem.h"

namespace thermocline {

struct TomlEntry {
  enum class Kind { kString, kInteger, kBool, kOther };

  std::string key = {};  // dotted path
  Kind kind = Kind::kOther;
  std::string text = {};  // the value; for kOther the name of its type
  int line = 0;
  int column = 0;
};

enum class TomlResult { kRead, kMissing, kFailed };

// kFailed: a problem was appended (unreadable, or a syntax error). kMissing appends nothing.
TomlResult read_toml(const std::string& path, std::vector<TomlEntry>* entries, std::vector<Problem>* problems);

}  // namespace thermocline
