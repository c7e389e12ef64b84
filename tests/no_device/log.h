// SPDX-License-Identifier: Apache-2.0
// Appends a line to the file that NO_DEVICE_LOG names, unbuffered, because the process may end at any time. Does not
// allocate.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace no_device {

void* exported(const char* name);  // refusals.cc

inline void write_line(const char* what, const char* name, const char* more = "") {
  static const int file = [] {
    const char* const path = std::getenv("NO_DEVICE_LOG");
    return path == nullptr ? -1 : open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  }();
  if (file < 0) return;
  char line[256];
  const int length = std::snprintf(line, sizeof line, "%s '%s'%s\n", what, name, more);
  static_cast<void>(!write(file, line, std::min(sizeof line - 1, static_cast<std::size_t>(length))));
}

}  // namespace no_device
