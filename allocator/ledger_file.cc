// SPDX-License-Identifier: Apache-2.0
#include "allocator/ledger_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace thermocline {
namespace {

// Rejects a file of another user, and a second name (hard link) of another file.
bool is_own_file(int file) {
  struct stat facts {};
  return fstat(file, &facts) == 0 && S_ISREG(facts.st_mode) && facts.st_uid == geteuid() && facts.st_nlink == 1;
}

bool is_own_folder(const std::string& folder) {
  struct stat facts {};
  return !folder.empty() && lstat(folder.c_str(), &facts) == 0 && S_ISDIR(facts.st_mode) && facts.st_uid == geteuid() &&
         (facts.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

}  // namespace

int open_ledger_file(const std::string& folder, const std::string& other_folder, const std::string& name,
                     std::string* why) {
  const std::string path = folder + "/" + name;
  const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0600);
  const int error = errno;
  if (file >= 0 && is_own_file(file)) return file;
  if (file >= 0) close(file);
  const bool is_taken = file >= 0 || error == ELOOP || error == EACCES || error == EISDIR || error == ENXIO;
  if (is_taken && is_own_folder(other_folder)) return open_ledger_file(other_folder, "", name, why);
  *why = path + ": " + (is_taken ? "it is no ledger of this user; remove it, as root" : std::strerror(error));
  return -1;
}

bool prepare_ledger_file(int file, std::size_t bytes, std::uint64_t magic, std::string* why) {
  if (const int error = posix_fallocate(file, 0, static_cast<off_t>(bytes)); error != 0) {
    *why = std::strerror(error);
    return false;
  }
  std::uint64_t found = 0;
  if (pread(file, &found, sizeof found, 0) == static_cast<ssize_t>(sizeof found)) {
    if (found == 0 && pwrite(file, &magic, sizeof magic, 0) == static_cast<ssize_t>(sizeof magic)) return true;
    if (found == magic) return true;
  }
  *why = "it is no ledger of this version";
  return false;
}

struct flock byte_lock(short type, off_t at) {
  struct flock lock {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = at;
  lock.l_len = 1;
  return lock;
}

bool is_byte_locked(int file, off_t at) {
  struct flock lock = byte_lock(F_WRLCK, at);
  return fcntl(file, F_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}

}  // namespace thermocline
