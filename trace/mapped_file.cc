// SPDX-License-Identifier: Apache-2.0
#include "trace/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace thermocline {

std::unique_ptr<MappedFile> MappedFile::open(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return nullptr;
  struct stat facts {};
  std::unique_ptr<MappedFile> mapped(new MappedFile);
  if (fstat(file, &facts) == 0 && S_ISREG(facts.st_mode) && facts.st_size > 0) {
    void* const at = mmap(nullptr, static_cast<std::size_t>(facts.st_size), PROT_READ, MAP_PRIVATE, file, 0);
    if (at != MAP_FAILED) mapped->bytes_ = {static_cast<const char*>(at), static_cast<std::size_t>(facts.st_size)};
  }
  close(file);
  return mapped;
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) munmap(const_cast<char*>(bytes_.data()), bytes_.size());
}

}  // namespace thermocline
