// SPDX-License-Identifier: Apache-2.0
#include "config/trusted_file.h"

#include <fcntl.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace thermocline {
namespace {

// "" if the file may be trusted.
std::string why_not(const struct stat& facts) {
  if (!S_ISREG(facts.st_mode)) return "is no regular file, and not read; name one that is";
  if (facts.st_uid != geteuid() && facts.st_uid != 0) {
    return "belongs to user " + std::to_string(facts.st_uid) + ", and not read: settings are this user's (" +
           std::to_string(geteuid()) + ") or root's; remove it, or make it yours with chown";
  }
  if ((facts.st_mode & S_IWOTH) != 0) return "may be written by anybody, and is not read; run chmod o-w on it";
  if (facts.st_size > static_cast<off_t>(kMostSettingsBytes)) return "is larger than 64 KiB, and not read; shorten it";
  return "";
}

// Returns 0 or errno. If the file grows meanwhile, no more than the allowed size is read.
int read_whole(int file, std::string* content) {
  char chunk[4096];
  while (content->size() <= kMostSettingsBytes) {
    const ssize_t count = read(file, chunk, sizeof chunk);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return count < 0 ? errno : 0;
    content->append(chunk, static_cast<std::size_t>(count));
  }
  return EFBIG;
}

}  // namespace

FileRead read_trusted_file(const std::string& path, std::string* content, std::string* why) {
  // O_NONBLOCK: opening a pipe would wait for a writer.
  const int file = open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  if (file < 0 && (errno == ENOENT || errno == ENOTDIR)) return FileRead::kMissing;
  struct stat facts {};
  int error = file < 0 || fstat(file, &facts) != 0 ? errno : 0;
  if (error == 0 && (*why = why_not(facts)).empty()) error = read_whole(file, content);
  if (file >= 0) close(file);
  if (error != 0) *why = std::string("can not be read: ") + std::strerror(error);
  return why->empty() ? FileRead::kRead : FileRead::kRefused;
}

bool is_privileged_program() { return getauxval(AT_SECURE) != 0; }

const char* variable_of_process(const char* name) { return is_privileged_program() ? nullptr : std::getenv(name); }

}  // namespace thermocline
