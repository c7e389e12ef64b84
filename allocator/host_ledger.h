// SPDX-License-Identifier: Apache-2.0
// What the processes of one user on this machine hold of pinned host memory together, so that one limit can stand for
// all of them: a small file in shared memory, <folder>/thermocline-host.<user>, mode 0600, with an entry for each.
// Processes that name a group share a file of their own, with a dot and that name behind it.
//
// Record locks (fcntl(2), F_SETLK) do what has to survive a process that is killed. The kernel takes them back when
// their holder ends or becomes another program, no child inherits them, and PID namespaces do not matter to them. The
// first byte is locked by whoever reads or writes entries; the byte of each entry as long as its process lives. An
// entry whose byte nobody has locked holds nothing: what a killed process held is given back by those that remain.
//
// Invariant: when `hold` has granted more, the entries of living processes add up to no more than the limit of whoever
// was granted.
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

// One at a time in a process: closing a file gives up all of the process's locks on it.
class HostLedger {
 public:
  static constexpr std::size_t kEntries = 255;

  // `limit`: of all processes together, as this one sees it; `group`: "" or letters, digits, '-' and '_'. Null where
  // the file can not be had; `why` says it. `other_folder`: this user's alone, for where another user took the name.
  static std::unique_ptr<HostLedger> open(const std::string& folder, Bytes limit, std::string* why,
                                          const std::string& group = "", const std::string& other_folder = "");
  // Holds nothing any more. In the child of a fork, which has no entry, nothing changes.
  ~HostLedger();
  HostLedger(const HostLedger&) = delete;
  HostLedger& operator=(const HostLedger&) = delete;

  // From now on this process holds `bytes`. Less is always granted; more, while all together hold no more than the
  // limit. False: nothing has changed.
  bool hold(Bytes bytes);

  Bytes limit() const { return limit_; }
  Bytes held() const;
  // By all living processes, this one included.
  Bytes held_by_all() const;

 private:
  HostLedger(int file, Bytes limit);
  bool enter();
  Bytes held_by_others() const;

  const int file_;
  const Bytes limit_;
  const int pid_;
  std::size_t entry_ = kEntries;  // ours
  mutable Mutex mutex_{"ledger of pinned memory",
                       lock_level::kHostLedger};  // guards held_; the file's locks are the process's, not the thread's
  Bytes held_ = 0;
};

}  // namespace thermocline
