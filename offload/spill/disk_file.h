// SPDX-License-Identifier: Apache-2.0
// A file without a name in a user's folder: it is gone when its process ends, however it ends. It is accessed past
// the page cache (O_DIRECT) and with io_uring, if these are available; else through the cache, and with pread and
// pwrite.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "driver/locks.h"
#include "driver/units.h"
#include "offload/lock_levels.h"
#include "offload/spill/ring.h"
#include "offload/spill/spill_file.h"

namespace thermocline {

class DiskFile final : public SpillFile {
 public:
  // Access methods that may be used if they are available.
  struct Access {
    bool direct = true;
    bool ring = true;
  };

  // Null: `why` says why the folder cannot be used.
  static std::unique_ptr<DiskFile> create(const std::string& folder, Access access, std::string* why);
  ~DiskFile() override;

  int write(Bytes offset, const void* memory, Bytes bytes) override;
  int read(Bytes offset, void* memory, Bytes bytes) override;
  int reserve(Bytes bytes) override;
  std::string description() const override;

  bool is_direct() const { return direct_.load(std::memory_order_relaxed); }
  bool has_rings() const { return has_rings_.load(std::memory_order_relaxed); }
  const std::string& file_system() const { return file_system_; }
  // The bytes that the file system has left for this user.
  Bytes free_bytes() const;
  int descriptor() const { return file_; }

 private:
  DiskFile(int file, std::string folder);
  bool is_ours() const;
  int transfer(bool writes, Bytes offset, void* memory, Bytes bytes);
  int transfer_once(bool writes, Bytes offset, void* memory, Bytes bytes);
  int transfer_in_place(bool writes, Bytes offset, void* memory, Bytes bytes);
  void go_through_cache();
  int try_access(Access access);
  std::unique_ptr<Ring> take_ring();

  const int file_;
  const std::string folder_;
  std::string file_system_;
  dev_t device_{};
  ino_t number_{};
  nlink_t names_{};
  std::atomic<bool> direct_{false}, has_rings_{false};
  std::atomic<Bytes> reserved_{0};
  Mutex mutex_{"spill file", lock_level::kSpillFile};  // held briefly
  // Unused rings; each serves one transfer at a time.
  std::vector<std::unique_ptr<Ring>> rings_ THERMOCLINE_GUARDED_BY(mutex_);
};

// A default limit leaves one part in this many of a file system's free space to others: programs that write logs and
// checkpoints stop when a disk is full.
inline constexpr unsigned kKeptFreeOnDisk = 10;
inline constexpr Bytes spill_limit_for(Bytes free_bytes) { return free_bytes - free_bytes / kKeptFreeOnDisk; }

}  // namespace thermocline
