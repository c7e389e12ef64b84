// SPDX-License-Identifier: Apache-2.0
// What the processes of one user that share a device have written down, for each other to read: a small file in shared
// memory, <folder>/thermocline-device.<user>.<device>, mode 0600, with one record for each process.
//
// A record counts while the kernel holds a record lock (fcntl(2)) on its first byte for the process that wrote it. The
// kernel releases it when the process ends, however it ends, and children do not inherit it. Nobody waits for anybody: a
// lease is raised by writing the claim to it, then reading all records, and taking it back if all claims and unused
// minimums together exceed the device. Of two that claim at once at least one sees the other. So a process that is
// stopped at any point keeps what it has written, and stops nobody else.
//
// Invariant: the leases and unused minimums of living processes, and what they reserve for the driver, exceed the device
// only by the reserves of those that have come since.
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

namespace thermocline {

inline constexpr const char* kLeaseLedgerFolder = "/dev/shm";

// What a process has written.
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
};

// Of one device, as one process sees it.
struct LeaseView {
  Bytes capacity = 0;  // of the device, without what is reserved for the driver
  std::vector<Sharer> sharers;
  std::size_t self = 0;
};

// At most one object of a device in a process: closing a file releases all of the process's locks on it. Not
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
  // Enters with a lease of 0, and as much of the minimum as the others' leave (minimum()). `other_folder`: as for
  // HostLedger::open. On failure the result is null and `why` has the reason.
  static std::unique_ptr<LeaseLedger> open(const std::string& folder, const Wish& wish, std::string* why,
                                           const std::string& other_folder = "");
  // Takes this process's record away. In the child of a fork, which has none, it changes nothing.
  ~LeaseLedger();
  LeaseLedger(const LeaseLedger&) = delete;
  LeaseLedger& operator=(const LeaseLedger&) = delete;

  Bytes lease() const { return own_.lease; }
  Bytes minimum() const { return own_.minimum; }
  const LeaseRecord& own() const { return own_; }
  // False: the file is not this process's any more (the program closed it, or somebody removed it), and never will be
  // again.
  bool is_there() const { return is_there_; }

  void tell(Bytes demand, Bytes in_use, std::uint64_t active_until_ns);
  // All living processes. False: the file can not be read now.
  bool look(std::uint64_t now_ns, LeaseView* out) const;
  // False: it would be too much with what others have, and nothing has changed.
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

// For people: a device and who holds what of it.
struct SharedDevice {
  std::string device;  // its UUID
  std::vector<LeaseRecord> processes;
};
// Of all ledgers of this user in the folder, those with living processes.
std::vector<SharedDevice> shared_devices(const std::string& folder);

}  // namespace thermocline
