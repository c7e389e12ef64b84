// SPDX-License-Identifier: Apache-2.0
// Writes when each operation ran, in the trace event format that Perfetto (ui.perfetto.dev) and chrome://tracing read:
// one row for computing, one for each direction of the link, device time in microseconds. The format allows the closing
// bracket to be missing, so the file is usable whenever its program ends.
#pragma once

#include <cstdio>
#include <memory>
#include <string>

#include "simulator/core/streams/operation.h"

namespace simulator {

struct Operation;

class TimelineFile {
 public:
  // Null if `path` is empty. A file that can not be written is reported once on stderr.
  static std::unique_ptr<TimelineFile> open(const std::string& path, DeviceId devices = 1);

  void ran(const Operation& operation);

 private:
  struct Close {
    void operator()(std::FILE* file) const;
  };
  explicit TimelineFile(std::FILE* file, DeviceId devices);

  std::unique_ptr<std::FILE, Close> file_;
};

}  // namespace simulator
