// SPDX-License-Identifier: Apache-2.0
#include "tests/trace/trace_file.h"

#include <gtest/gtest.h>
#include <unistd.h>
#include <zlib.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

namespace thermocline::test {
namespace {

std::string new_path() {
  static int count = 0;
  const std::string name = "thermocline_trace_" + std::to_string(getpid()) + "_" + std::to_string(count++);
  return (std::filesystem::temp_directory_path() / name).string();
}

std::string list(const std::vector<int>& ids) {
  std::string out = "[";
  for (const int id : ids) out += (out.size() > 1 ? "," : "") + std::to_string(id);
  return out + "]";
}

std::string on_stream(int stream) { return stream == 0 ? "}" : ",\"s\":" + std::to_string(stream) + "}"; }

}  // namespace

TraceFile::TraceFile(const std::vector<std::string>& lines) : path_(new_path()) {
  gzFile file = gzopen(path_.c_str(), "wb");
  for (const std::string& line : lines) {
    gzwrite(file, line.data(), static_cast<unsigned>(line.size()));
    gzputc(file, '\n');
  }
  gzclose(file);
}

TraceFile TraceFile::of_bytes(const std::string& bytes) {
  TraceFile file;
  file.path_ = new_path();
  std::ofstream(file.path_, std::ios::binary) << bytes;
  return file;
}

TraceFile::~TraceFile() {
  if (!path_.empty()) std::filesystem::remove(path_);
}

std::string TraceFile::bytes() const {
  std::ifstream file(path_, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

Trace read_valid(const TraceFile& file) {
  Trace trace;
  TraceError error;
  EXPECT_TRUE(read_trace(file.path(), &trace, &error)) << error.text();
  trace.validate();
  return trace;
}

std::string read_error(const TraceFile& file) {
  Trace trace;
  TraceError error;
  EXPECT_FALSE(read_trace(file.path(), &trace, &error));
  EXPECT_TRUE(error.text().starts_with(file.path() + ":")) << error.text();
  return error.text().substr(file.path().size() + 1);
}

std::string alloc(int id, long long bytes, int stream) {
  return R"({"e":"alloc","b":)" + std::to_string(id) + ",\"n\":" + std::to_string(bytes) + on_stream(stream);
}

std::string release(int id, int stream) { return R"({"e":"free","b":)" + std::to_string(id) + on_stream(stream); }

std::string op(const std::string& name, const std::vector<int>& reads, const std::vector<int>& writes, double us,
               int stream) {
  std::ostringstream out;
  out << R"({"e":"op","k":")" << name << R"(","r":)" << list(reads) << ",\"w\":" << list(writes) << ",\"us\":" << us
      << on_stream(stream);
  return out.str();
}

std::string step(int index) { return R"({"e":"step","i":)" + std::to_string(index) + "}"; }

}  // namespace thermocline::test
