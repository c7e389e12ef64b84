// SPDX-License-Identifier: Apache-2.0
// Bytes as a file that readers can open by a path.
#pragma once

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>
#include <string_view>

#include "driver/check.h"

namespace thermocline::fuzz {

class MemoryFile {
 public:
  explicit MemoryFile(std::string_view bytes) : file_(memfd_create("input", MFD_CLOEXEC)) {
    THERMOCLINE_CHECK(file_ >= 0 && fchmod(file_, 0600) == 0, "there is memory for a file");
    for (std::size_t done = 0; done < bytes.size();) {
      const ssize_t count = write(file_, bytes.data() + done, bytes.size() - done);
      THERMOCLINE_CHECK(count > 0, "the file takes what is written");
      done += static_cast<std::size_t>(count);
    }
  }
  ~MemoryFile() { close(file_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  std::string path() const { return "/proc/self/fd/" + std::to_string(file_); }

 private:
  int file_;
};

}  // namespace thermocline::fuzz
