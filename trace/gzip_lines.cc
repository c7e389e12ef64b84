// SPDX-License-Identifier: Apache-2.0
#include "trace/gzip_lines.h"

#include <zlib.h>

#include <cerrno>
#include <cstring>

namespace thermocline {
namespace {

constexpr std::size_t kChunk = std::size_t{1} << 20;
constexpr std::size_t kLongestLine = std::size_t{64} << 20;

}  // namespace

struct GzipLines::File {
  gzFile handle;
  ~File() { gzclose_r(handle); }
};

GzipLines::GzipLines(const std::string& path) {
  errno = 0;
  gzFile handle = gzopen(path.c_str(), "rb");
  if (handle == nullptr) {
    error_ = std::string("can not be opened: ") + std::strerror(errno != 0 ? errno : ENOMEM);
    ended_ = true;
    return;
  }
  gzbuffer(handle, 1U << 18);
  file_.reset(new File{handle});
}

GzipLines::~GzipLines() = default;

// Reads one more chunk. For a stream without its end, zlib first returns all data that it can, and then Z_BUF_ERROR.
bool GzipLines::fill() {
  data_.erase(0, begin_);
  searched_ -= begin_;
  begin_ = 0;
  const std::size_t old = data_.size();
  if (old > kLongestLine) {
    error_ = "the line is longer than 64 MiB";
    ended_ = true;
    return false;
  }
  data_.resize(old + kChunk);
  const int got = gzread(file_->handle, data_.data() + old, kChunk);
  data_.resize(old + static_cast<std::size_t>(got > 0 ? got : 0));
  int code = Z_OK;
  const char* text = gzerror(file_->handle, &code);
  if (got > 0) return true;
  ended_ = true;
  if (code == Z_BUF_ERROR) {
    error_ = "the file is truncated: its compressed data ends early";
  } else if (code == Z_ERRNO) {
    error_ = std::string("can not be read: ") + std::strerror(errno);
  } else if (got < 0 || (code != Z_OK && code != Z_STREAM_END)) {
    error_ = std::string("the compressed data is damaged: ") + text;
  }
  return false;
}

bool GzipLines::next(std::string_view* line) {
  for (;;) {
    const std::size_t end = data_.find('\n', searched_);
    if (end != std::string::npos) {
      *line = std::string_view(data_).substr(begin_, end - begin_);
      begin_ = searched_ = end + 1;
      ++line_number_;
      return true;
    }
    searched_ = data_.size();
    if (ended_) break;
    fill();
  }
  if (!error_.empty() || begin_ == data_.size()) return false;
  *line = std::string_view(data_).substr(begin_);
  begin_ = searched_ = data_.size();
  ++line_number_;
  return true;
}

}  // namespace thermocline
