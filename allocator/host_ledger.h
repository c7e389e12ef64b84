// SPDX-License-Identifier: Apache-2.0
// A ledger of the pinned host memory that all processes of one user on this machine hold, so that one limit can apply
// to all of them together. It is a small file in shared memory, <folder>/thermocline-host.<user>, mode 0600, with one
// entry for each process. Processes that name a group share a separate file, with a dot and the group's name appended.
//
// Record locks (fcntl(2), F_SETLK) make the ledger survive a process that is killed. The kernel releases them when
// their holder ends or executes another program, children do not inherit them, and PID namespaces do not affect them.
// The first byte of the file is locked while somebody reads or writes entries; the byte of each entry is locked while
// its process lives. An entry whose byte is not locked counts as zero, so the memory of a killed process becomes
// available to the others.
//
// Invariant: when `hold` has granted an increase, the entries of living processes add up to no more than the limit of
// the process that made the call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "allocator/lock_levels.h"

#include "driver/locks.h"
#include "driver/units.h"

namespace thermocline {

inline constexpr const char* kHostLedgerFolder = "/dev/shm";

// At most one object in a process: closing a file releases all of the process's locks on it.
class HostLedger {
 public:
  static constexpr std::size_t kEntries = 255;

  // `limit`: for all processes together, as this process sees it. `group`: "", or letters, digits, '-' and '_'.
  // `other_folder`: private to this user, for the case that another user has taken the name. On failure the result is
  // null and `why` has the reason.
  static std::unique_ptr<HostLedger> open(const std::string& folder, Bytes limit, std::string* why,
                                          const std::string& group = "", const std::string& other_folder = "");
  // Releases this process's entry. In the child of a fork, which has no entry, it changes nothing.
  ~HostLedger();
  HostLedger(const HostLedger&) = delete;
  HostLedger& operator=(const HostLedger&) = delete;

  // Sets what this process holds to `bytes`. A decrease is always granted; an increase only while all processes
  // together stay within the limit. False: nothing has changed.
  bool hold(Bytes bytes);
  // hold() for one of several holders in the process (one for each device): its bytes change from `from` to
  // `to`.
  bool change(Bytes from, Bytes to);

  Bytes limit() const { return limit_; }
  Bytes held() const;
  // Bytes held by all living processes, this one included.
  Bytes held_by_all() const;

 private:
  HostLedger(int file, Bytes limit);
  bool enter();
  bool hold_locked(Bytes bytes) THERMOCLINE_REQUIRES(mutex_);
  Bytes held_by_others() const;

  const int file_;
  const Bytes limit_;
  const int pid_;
  std::size_t entry_ = kEntries;  // index of this process's entry
  // Also of the file: record locks belong to the process, not to the thread.
  mutable Mutex mutex_{"ledger of pinned memory", lock_level::kHostLedger};
  Bytes held_ THERMOCLINE_GUARDED_BY(mutex_) = 0;
};

}  // namespace thermocline
