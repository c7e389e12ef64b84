// SPDX-License-Identifier: Apache-2.0
// One limit of host memory for all devices of a process. Each device has a holder (HostSteps), whose bytes count here.
// Lock-free.
//
// Invariant: when `change` has granted an increase, the bytes of all holders add up to no more than the limit.
#pragma once

#include <atomic>

#include "driver/units.h"

namespace thermocline {

class HostLedger;

class HostAccount {
 public:
  // `devices`: how many the process may use.
  explicit HostAccount(Bytes limit, unsigned devices = 1) : limit_(limit), devices_(devices) {}
  HostAccount(const HostAccount&) = delete;
  HostAccount& operator=(const HostAccount&) = delete;

  // The bytes of one holder change from `from` to `to`. A decrease is always granted. False: nothing has changed.
  bool change(Bytes from, Bytes to);

  Bytes limit() const { return limit_; }
  unsigned devices() const { return devices_; }
  Bytes held() const { return held_.load(std::memory_order_relaxed); }
  // The bytes that the driver has pinned for all holders.
  Bytes pinned() const { return pinned_.load(std::memory_order_relaxed); }
  void add_pinned(Bytes bytes) { pinned_.fetch_add(bytes, std::memory_order_relaxed); }
  void remove_pinned(Bytes bytes) { pinned_.fetch_sub(bytes, std::memory_order_relaxed); }
  // The limit of a holder that has `own` bytes, as far as the others leave it.
  Bytes left_for(Bytes own) const;

 private:
  const Bytes limit_;
  const unsigned devices_;
  std::atomic<Bytes> held_{0}, pinned_{0};
};

// The limits that holders share; each must outlive its holders. Null: none.
struct SharedHostLimits {
  HostAccount* of_devices = nullptr;
  HostLedger* of_processes = nullptr;

  bool any() const { return of_devices != nullptr || of_processes != nullptr; }
  // Under both limits, or under none.
  bool change(Bytes from, Bytes to) const;
};

}  // namespace thermocline
