// SPDX-License-Identifier: Apache-2.0
// Trace files for tests: written line by line, removed at the end of the scope.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "trace/read.h"

namespace thermocline::test {

inline constexpr const char* kHeader = R"({"schema":"thermocline-trace/1","model":"made up"})";

class TraceFile {
 public:
  // Gzip-compressed, with a line feed after each line.
  explicit TraceFile(const std::vector<std::string>& lines);
  // Exactly these bytes.
  static TraceFile of_bytes(const std::string& bytes);
  ~TraceFile();

  TraceFile(TraceFile&& other) noexcept : path_(std::exchange(other.path_, "")) {}
  TraceFile& operator=(TraceFile&&) = delete;

  const std::string& path() const { return path_; }
  std::string bytes() const;

 private:
  TraceFile() = default;
  std::string path_;
};

// The trace, which must be valid; otherwise the test fails.
Trace read_valid(const TraceFile& file);
// The error, without the file's path: "3: buffer 1 is not alive".
std::string read_error(const TraceFile& file);

std::string alloc(int id, long long bytes, int stream = 0);
std::string release(int id, int stream = 0);
std::string op(const std::string& name, const std::vector<int>& reads, const std::vector<int>& writes, double us,
               int stream = 0);
std::string step(int index);

}  // namespace thermocline::test
