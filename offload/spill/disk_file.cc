// SPDX-License-Identifier: Apache-2.0
#include "offload/spill/disk_file.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

#include "offload/spill/own_descriptors.h"

namespace thermocline {
namespace {

// Reserves this much at a time, so that the file system is not asked for every few bytes.
constexpr Bytes kReserveStep = 256 * kMiB;
constexpr mode_t kOwnerOnly = S_IRUSR | S_IWUSR;

struct FileSystemName {
  long magic;
  const char* name;
};
// statfs(2); the ones that are not in linux/magic.h by their number.
constexpr std::array kFileSystems = {FileSystemName{EXT4_SUPER_MAGIC, "ext4"},
                                     FileSystemName{0x58465342, "xfs"},
                                     FileSystemName{BTRFS_SUPER_MAGIC, "btrfs"},
                                     FileSystemName{TMPFS_MAGIC, "tmpfs"},
                                     FileSystemName{OVERLAYFS_SUPER_MAGIC, "overlay"},
                                     FileSystemName{0x2fc12fc1, "zfs"},
                                     FileSystemName{NFS_SUPER_MAGIC, "nfs"},
                                     FileSystemName{F2FS_SUPER_MAGIC, "f2fs"},
                                     FileSystemName{0x65735546, "fuse"}};

std::string file_system_of(int file) {
  struct statfs facts {};
  if (fstatfs(file, &facts) != 0) return "unknown";
  const auto known = std::ranges::find(kFileSystems, static_cast<long>(facts.f_type), &FileSystemName::magic);
  return known == kFileSystems.end() ? "another" : known->name;
}

// Opens a file in the folder that has no name, or has lost it. -1: errno says why.
int open_nameless(const std::string& folder) {
  const int file = open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, kOwnerOnly);
  if (file >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL)) return file;
  std::string path = folder + "/thermocline-spill.XXXXXX";
  const int named = mkostemp(path.data(), O_CLOEXEC);
  if (named < 0) return named;
  if (unlink(path.c_str()) != 0) {
    const int error = errno;
    close(named);
    errno = error;
    return -1;
  }
  return named;
}

bool may_grow_to(Bytes bytes) {
  // Past this limit the kernel sends SIGXFSZ, which ends a program that does not expect it.
  rlimit limit{};
  return getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY || bytes <= limit.rlim_cur;
}

struct FreeMemory {
  void operator()(void* at) const { std::free(at); }
};

}  // namespace

std::unique_ptr<DiskFile> DiskFile::create(const std::string& folder, Access access, std::string* why) {
  struct stat facts {};
  if (stat(folder.c_str(), &facts) != 0) {
    *why = folder + ": " + std::strerror(errno) + "; create the folder: mkdir -p " + folder;
    return nullptr;
  }
  if (!S_ISDIR(facts.st_mode)) {
    *why = folder + " is not a folder; name the folder in which the file is to be";
    return nullptr;
  }
  const int file = open_nameless(folder);
  if (file < 0) {
    *why = folder + ": no file can be created there: " + std::strerror(errno);
    return nullptr;
  }
  std::unique_ptr<DiskFile> made(new DiskFile(keep_descriptor(file), folder));
  if (const int error = made->try_access(access); error != 0) {
    *why = folder + ": a file there can not be written and read: " + std::strerror(error);
    return nullptr;
  }
  return made;
}

DiskFile::DiskFile(int file, std::string folder)
    : file_(file), folder_(std::move(folder)), file_system_(file_system_of(file)) {
  struct stat facts {};
  if (fstat(file_, &facts) == 0) {
    device_ = facts.st_dev;
    number_ = facts.st_ino;
    names_ = facts.st_nlink;
  }
}

DiskFile::~DiskFile() {
  rings_.clear();
  forget_descriptor(file_);
  if (is_ours()) close(file_);
}

// A program may close descriptors that are not its own, and get the same number for its own file. That file might have
// the same inode number, but it hardly has no name.
bool DiskFile::is_ours() const {
  struct stat facts {};
  return fstat(file_, &facts) == 0 && facts.st_dev == device_ && facts.st_ino == number_ && facts.st_nlink == names_;
}

// Writes and reads one block with the permitted methods; methods that fail are not used.
int DiskFile::try_access(Access access) {
  const std::unique_ptr<void, FreeMemory> block(std::aligned_alloc(kSpillAlignment, kSpillAlignment));
  if (block == nullptr) return ENOMEM;
  std::memset(block.get(), 0x5A, kSpillAlignment);
  const int flags = fcntl(file_, F_GETFL);
  if (access.direct) direct_ = flags >= 0 && fcntl(file_, F_SETFL, flags | O_DIRECT) == 0;
  if (access.ring) {
    int error = 0;
    std::unique_ptr<Ring> ring = Ring::create(&error);
    has_rings_ = ring != nullptr;
    const MutexLock lock(mutex_);
    if (ring != nullptr) rings_.push_back(std::move(ring));
  }
  if (const int error = write(0, block.get(), kSpillAlignment); error != 0) return error;
  return read(0, block.get(), kSpillAlignment);
}

Bytes DiskFile::free_bytes() const {
  struct statvfs facts {};
  return fstatvfs(file_, &facts) == 0 ? Bytes{facts.f_bavail} * facts.f_frsize : 0;
}

std::string DiskFile::description() const {
  return folder_ + " (" + file_system_ + ", " + (is_direct() ? "O_DIRECT" : "through the page cache") + ", " +
         (has_rings() ? "io_uring" : "pread and pwrite") + ")";
}

int DiskFile::reserve(Bytes bytes) {
  if (bytes <= reserved_.load(std::memory_order_relaxed)) return 0;
  int error = EFBIG;
  for (const Bytes wanted : {round_up(bytes, kReserveStep), bytes}) {
    if (!may_grow_to(wanted)) continue;
    if (!is_ours()) return EBADF;
    error = fallocate(file_, 0, 0, static_cast<off_t>(wanted)) == 0 ? 0 : errno;
    // The file system cannot tell.
    if (error == EOPNOTSUPP || error == ENOSYS || error == EINVAL || error == EPERM) error = 0;
    if (error != 0) continue;
    reserved_.store(wanted, std::memory_order_relaxed);
    return 0;
  }
  return error;
}

int DiskFile::write(Bytes offset, const void* memory, Bytes bytes) {
  if (!may_grow_to(offset + bytes)) return EFBIG;
  return transfer(true, offset, const_cast<void*>(memory), bytes);
}

int DiskFile::read(Bytes offset, void* memory, Bytes bytes) { return transfer(false, offset, memory, bytes); }

int DiskFile::transfer(bool writes, Bytes offset, void* memory, Bytes bytes) {
  if (!is_ours()) return EBADF;
  const bool was_direct = is_direct();
  const int error = transfer_once(writes, offset, memory, bytes);
  // The file system, or the driver's memory, does not support unbuffered access.
  if (!was_direct || (error != EINVAL && error != EFAULT && error != EOPNOTSUPP)) return error;
  go_through_cache();
  return transfer_once(writes, offset, memory, bytes);
}

int DiskFile::transfer_once(bool writes, Bytes offset, void* memory, Bytes bytes) {
  try {
    if (std::unique_ptr<Ring> ring = take_ring(); ring != nullptr) {
      if (ring->transfer(file_, writes, offset, memory, bytes) == 0) {
        const MutexLock lock(mutex_);
        rings_.push_back(std::move(ring));
        return 0;
      }
    }
  } catch (const std::bad_alloc&) {  // Without a ring it goes, too, and this may be a thread of the library's own.
  }
  // The ring's error may be its own.
  return transfer_in_place(writes, offset, memory, bytes);
}

int DiskFile::transfer_in_place(bool writes, Bytes offset, void* memory, Bytes bytes) {
  char* at = static_cast<char*>(memory);
  while (bytes > 0) {
    const auto wanted = static_cast<std::size_t>(bytes);
    const auto from = static_cast<off_t>(offset);
    const ssize_t done = writes ? pwrite(file_, at, wanted, from) : pread(file_, at, wanted, from);
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return done < 0 ? errno : EIO;
    at += done;
    offset += static_cast<Bytes>(done);
    bytes -= static_cast<Bytes>(done);
  }
  return 0;
}

void DiskFile::go_through_cache() {
  const MutexLock lock(mutex_);
  const int flags = fcntl(file_, F_GETFL);
  if (flags >= 0 && fcntl(file_, F_SETFL, flags & ~O_DIRECT) == 0) direct_ = false;
}

std::unique_ptr<Ring> DiskFile::take_ring() {
  if (!has_rings()) return nullptr;
  {
    const MutexLock lock(mutex_);
    if (!rings_.empty()) {
      std::unique_ptr<Ring> ring = std::move(rings_.back());
      rings_.pop_back();
      return ring;
    }
  }
  int error = 0;
  return Ring::create(&error);
}

}  // namespace thermocline
