// SPDX-License-Identifier: Apache-2.0
// The bytes of a file, mapped into memory. Empty for an empty file, and for one that can not be mapped.
#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace thermocline {

class MappedFile {
 public:
  // Null on failure; errno has the reason.
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
