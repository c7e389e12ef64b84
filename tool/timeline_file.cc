// SPDX-License-Identifier: Apache-2.0
#include "tool/timeline_file.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "tool/message.h"

namespace thermocline {

bool can_be_written(const std::string& path) {
  std::FILE* const file = std::fopen(path.c_str(), "ae");
  if (file == nullptr) {
    say(path + ": can not be written: " + std::strerror(errno));
    return false;
  }
  // A regular file accepts what there is room for; whether it is complete is checked at the end.
  if (!std::filesystem::is_regular_file(path)) std::fputc('\n', file);
  if (std::fclose(file) == 0) return true;
  say(path + ": can not be written: " + std::strerror(errno));
  return false;
}

bool is_whole_timeline(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return true;
  std::FILE* const file = std::fopen(path.c_str(), "rbe");
  if (file == nullptr) return false;
  char end[2] = {};
  const bool read = std::fseek(file, -2, SEEK_END) == 0 && std::fread(end, 1, 2, file) == 2;
  std::fclose(file);
  return read && end[0] == ']' && end[1] == '\n';
}

}  // namespace thermocline
