// SPDX-License-Identifier: Apache-2.0
// A file's bytes without reading them. Empty where the file is, or is none that can be mapped.
#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace thermocline {

class MappedFile {
 public:
  // Null: errno says why.
  static std::unique_ptr<MappedFile> open(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  std::string_view bytes() const { return bytes_; }

 private:
  MappedFile() = default;
  std::string_view bytes_;
};

}  // namespace thermocline
