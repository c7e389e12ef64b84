// SPDX-License-Identifier: Apache-2.0
// A ledger in which the processes of one user that share a device write what they hold, for each other to read: a small
// file in shared memory, <folder>/thermocline-device.<user>.<device>, mode 0600, with one record for each process.
//
// A record counts while its process holds a record lock (fcntl(2)) on its first byte. The kernel releases the lock when
// the process ends, however it ends, and children do not inherit it. No process waits for another. To raise its lease a
// process writes the claim, then reads all records, and takes the claim back if all claims and unused minimums together
// exceed the device. If two processes claim at once, at least one sees the other's claim. So a process that is stopped
// at any point keeps what it has written, and stops nobody else.
//
// Invariant: the leases and unused minimums of living processes, plus their reserves for the driver, exceed the device
// at most by the reserves of processes that entered later.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "driver/units.h"
#include "offload/sharing/lease_policy.h"
#include "offload/sharing/slice_policy.h"

namespace thermocline {

inline constexpr const char* kLeaseLedgerFolder = "/dev/shm";

// The record of a process.
struct LeaseRecord {
  int pid = 0;  // in its own PID namespace
  std::string command;
  unsigned weight = 1;
  Bytes device_bytes = 0;
  Bytes reserve = 0;
  Bytes minimum = 0;
  Bytes demand = 0;
  Bytes lease = 0;
  Bytes in_use = 0;
  std::uint64_t active_until_ns = 0;  // CLOCK_MONOTONIC
  SliceRecord slice{};
};

// The state of one device, as one process sees it.
struct LeaseView {
  Bytes capacity = 0;  // of the device, without what is reserved for the driver
  // A process that waits for its time slice is not active here.
  std::vector<Sharer> sharers;
  std::vector<SliceSharer> slices;  // of the same processes
  std::size_t self = 0;

  // The active processes, also those that wait for their slices, want more than there is.
  bool lacks_memory() const;
};

// At most one object for each device in a process: closing a file releases all of the process's locks on it. Not
// thread-safe.
class LeaseLedger {
 public:
  static constexpr std::size_t kRecords = 31;

  struct Wish {
    std::string device;  // its UUID
    Bytes device_bytes = 0;
    Bytes minimum = 0;
    unsigned weight = 1;
  };
  // Enters with a lease of 0 and as much of the minimum as those of others allow (minimum()). `other_folder`: as for
  // HostLedger::open. On failure the result is null and `why` has the reason.
  static std::unique_ptr<LeaseLedger> open(const std::string& folder, const Wish& wish, std::string* why,
                                           const std::string& other_folder = "");
  // Removes this process's record. In a forked child, which has none, it changes nothing.
  ~LeaseLedger();
  LeaseLedger(const LeaseLedger&) = delete;
  LeaseLedger& operator=(const LeaseLedger&) = delete;

  Bytes lease() const { return own_.lease; }
  Bytes minimum() const { return own_.minimum; }
  const LeaseRecord& own() const { return own_; }
  // False, for good: the file does not belong to this process any more (the program closed it, or somebody removed
  // it).
  bool is_there() const { return is_there_; }

  void tell(Bytes demand, Bytes in_use, std::uint64_t active_until_ns);
  void tell(const SliceRecord& slice);
  // Reads all living processes. False: the file cannot be read now.
  bool look(std::uint64_t now_ns, LeaseView* out) const;
  // False: the lease would be too large beside those of others; nothing has changed.
  bool raise(Bytes lease);
  void lower(Bytes lease);

 private:
  LeaseLedger(int file, const Wish& wish);
  bool enter(std::string* why);
  bool write(Bytes claim);
  bool fits() const;

  const int file_;
  const pid_t pid_;
  dev_t device_ = 0;
  ino_t inode_ = 0;
  std::size_t at_ = kRecords;  // of this process's record
  bool is_there_ = true;
  LeaseRecord own_;
};

// For display: a device, and which process holds how much of it.
struct SharedDevice {
  std::string device;  // its UUID
  std::vector<LeaseRecord> processes;
};
// All ledgers of this user in the folder that have living processes.
std::vector<SharedDevice> shared_devices(const std::string& folder);

}  // namespace thermocline
