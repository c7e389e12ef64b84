// SPDX-License-Identifier: Apache-2.0
// A file that is either written completely or left unchanged: the output goes to a temporary file beside it, which
// replaces it at the end. A target that is not a regular file (a pipe, /dev/stdout, /dev/full) is written directly; "-"
// is stdout. A failed write, on a full disk for example, is reported by finish(). Ctrl-C leaves nothing behind.
#pragma once

#include <cstdio>
#include <memory>
#include <string>
#include <string_view>

namespace thermocline {

// True if the reader of stdout has closed it (`| head`) and so wants no more output.
bool reader_is_gone();

// A temporary file that is removed on a signal while this object lives, whatever code writes it. "": no file.
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
  // Null, after an error message, if it cannot be written.
  static std::unique_ptr<OutputFile> open(const std::string& path);
  ~OutputFile();

  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void write(std::string_view text) { std::fwrite(text.data(), 1, text.size(), file_); }
  std::FILE* file() const { return file_; }
  // False, after an error message, if not everything could be written; then the former file is unchanged.
  bool finish();

 private:
  OutputFile(std::string path, std::string beside, std::FILE* file);

  std::string path_;
  std::string beside_;  // temporary file; empty: path_ is written directly
  std::FILE* file_;
  RemovedOnSignal removed_;
};

}  // namespace thermocline
