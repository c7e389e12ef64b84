// SPDX-License-Identifier: Apache-2.0
// A file that is there as a whole or as it was before: what is written goes beside it and takes its place at the end.
// What is no plain file (a pipe, /dev/stdout, /dev/full) is written as it comes; "-" is stdout. A write that fails, on
// a full disk say, is told by finish(). Ctrl-C leaves nothing behind.
#pragma once

#include <cstdio>
#include <memory>
#include <string>
#include <string_view>

namespace thermocline {

// Who read stdout has gone (`| head`), and wants no more.
bool reader_is_gone();

// A file that a signal removes while this lives: what is half written, by whomever. "" is none.
class RemovedOnSignal {
 public:
  explicit RemovedOnSignal(std::string path);
  ~RemovedOnSignal();
  RemovedOnSignal(const RemovedOnSignal&) = delete;
  RemovedOnSignal& operator=(const RemovedOnSignal&) = delete;

 private:
  std::string path_;
};

class OutputFile {
 public:
  // Null, and said why, where it can not be written.
  static std::unique_ptr<OutputFile> open(const std::string& path);
  ~OutputFile();

  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void write(std::string_view text) { std::fwrite(text.data(), 1, text.size(), file_); }
  std::FILE* file() const { return file_; }
  // False, and said why, when not all of it could be written; then what was there before still is.
  bool finish();

 private:
  OutputFile(std::string path, std::string beside, std::FILE* file);

  std::string path_;
  std::string beside_;  // empty: path_ itself is written
  std::FILE* file_;
  RemovedOnSignal removed_;
};

}  // namespace thermocline
