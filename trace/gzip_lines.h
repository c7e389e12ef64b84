// SPDX-License-Identifier: Apache-2.0
// Reads a text file, plain or gzip-compressed, line by line. A stream that ends before its trailer, or has a wrong
// checksum, is an error.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace thermocline {

class GzipLines {
 public:
  explicit GzipLines(const std::string& path);
  ~GzipLines();

  GzipLines(const GzipLines&) = delete;
  GzipLines& operator=(const GzipLines&) = delete;

  // The line without its line feed; valid until the next call. False at the end, and on an error.
  bool next(std::string_view* line);

  // The number of the last line returned, counted from 1.
  std::size_t line_number() const { return line_number_; }
  // Empty if no error has occurred.
  const std::string& error() const { return error_; }

 private:
  struct File;
  bool fill();

  std::unique_ptr<File> file_;
  std::string data_;  // read so far; lines before begin_ have been returned
  std::size_t begin_ = 0;
  std::size_t searched_ = 0;  // [begin_, searched_) has no line feed
  bool ended_ = false;
  std::size_t line_number_ = 0;
  std::string error_;
};

}  // namespace thermocline
