// SPDX-License-Identifier: Apache-2.0
// Reads a TOML file as a flat list of keys with their positions.
#pragma once

#include <string>
#include <vector>

#include "config/problem.h"

namespace thermocline {

struct TomlEntry {
  enum class Kind { kString, kInteger, kBool, kOther };

  std::string key = {};  // dotted path
  Kind kind = Kind::kOther;
  std::string text = {};  // the value; for kOther the name of its TOML type
  int line = 0;
  int column = 0;
};

enum class TomlResult { kRead, kMissing, kFailed };

// kFailed: a problem was appended (unreadable file, or a syntax error). kMissing: nothing was appended.
TomlResult read_toml(const std::string& path, std::vector<TomlEntry>* entries, std::vector<Problem>* problems);

}  // namespace thermocline
