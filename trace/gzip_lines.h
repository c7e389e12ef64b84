// SPDX-License-Identifier: Apache-2.0
// A gzip-compressed or plain text file, line by line. A stream that ends before its trailer, or whose check sum is
// wrong, is an error.
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

  // Without its line feed; valid until the next call. False at the end, and on an error.
  bool next(std::string_view* line);

  // Of the last line, from 1.
  std::size_t line_number() const { return line_number_; }
  // Empty while nothing went wrong.
  const std::string& error() const { return error_; }

 private:
  struct File;
  bool fill();

  std::unique_ptr<File> file_;
  std::string data_;  // what has been read; lines before begin_ are used up
  std::size_t begin_ = 0;
  std::size_t searched_ = 0;  // no line feed in [begin_, searched_)
  bool ended_ = false;
  std::size_t line_number_ = 0;
  std::string error_;
};

}  // namespace thermocline
