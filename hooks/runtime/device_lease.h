// SPDX-License-Identifier: Apache-2.0
// This process's lease on the memory of a device that it shares with others (budget = "shared"). It connects the
// engine, which asks for more memory and reports what it has given back, with the ledger, in which all processes write.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "config/settings.h"
#include "driver/driver.h"
#include "driver/locks.h"
#include "hooks/interpose/lock_levels.h"
#include "offload/engine/engine.h"
#include "offload/sharing/activity_watch.h"
#include "offload/sharing/budget_source.h"
#include "offload/sharing/lease_ledger.h"
#include "offload/sharing/slice_watch.h"

namespace thermocline {

class DeviceLease final : public BudgetSource {
 public:
  struct Places {
    std::string folder = kLeaseLedgerFolder;
    std::string other_folder;
    std::string device;  // its UUID
    std::uint64_t longest_wait_ns = 5'000'000'000;
  };
  // Waits until the others have given back what the minimum needs. Null: `why` has the reason, and the budget has to be
  // fixed. `remark`: something that the program should be told on success, or "".
  static std::unique_ptr<DeviceLease> begin(const Settings& settings, Bytes device_bytes, const Places& places,
                                            std::string* why, std::string* remark);

  Bytes budget() const;

  Bytes raise(Bytes wanted) override;
  Bytes grow() override;
  void lowered(Bytes budget) override;
  bool may_have_later(Bytes wanted) override;
  Bytes share() override;
  bool waits_for_turn() override;
  bool needs_times() const override { return takes_slices_; }

  // For the lease thread: writes the engine's use to the ledger, and returns the budget that it should have.
  Bytes look(const Engine::BudgetUse& use);
  // look() if the engine is busy, so that its use is not known.
  Bytes look_while_busy();
  // False: the ledger is gone, and the budget remains as it is.
  bool is_there() const;
  // Leaves everything to the others. The object remains, because the library's own thread may be using it.
  void end();

 private:
  DeviceLease(std::unique_ptr<LeaseLedger> ledger, std::uint64_t longest_wait_ns, std::uint64_t longest_slice_ns)
      : ledger_(std::move(ledger)),
        longest_wait_ns_(longest_wait_ns),
        takes_slices_(longest_slice_ns > 0),
        slices_(longest_slice_ns) {}
  Bytes lease() const THERMOCLINE_REQUIRES(mutex_) { return ledger_ == nullptr ? last_ : ledger_->lease(); }
  bool wait_for_minimum(std::string* why);
  void tell(std::uint64_t now_ns) THERMOCLINE_REQUIRES(mutex_);
  Bytes next(std::uint64_t now_ns) const THERMOCLINE_REQUIRES(mutex_);

  mutable Mutex mutex_{"lease of a device", lock_level::kLease};
  std::unique_ptr<LeaseLedger> ledger_ THERMOCLINE_GUARDED_BY(mutex_);  // null: it has ended
  Bytes last_ THERMOCLINE_GUARDED_BY(mutex_) = 0;                       // budget when it ended
  void look_for_slice(std::uint64_t now_ns) THERMOCLINE_REQUIRES(mutex_);
  bool is_out_of_turn(std::uint64_t now_ns) const;

  const std::uint64_t longest_wait_ns_;
  const bool takes_slices_;
  SliceWatch slices_ THERMOCLINE_GUARDED_BY(mutex_);
  StallTimes times_ THERMOCLINE_GUARDED_BY(mutex_);
  // Another process has the slice, as of the last look, which was at this time. 0: it is this process's turn.
  std::atomic<std::uint64_t> out_of_turn_at_ns_{0};
  std::atomic<std::uint64_t> waited_for_turn_ns_{0};  // when an operation last waited for it
  ActivityWatch watch_ THERMOCLINE_GUARDED_BY(mutex_);
  std::uint64_t active_until_ns_ THERMOCLINE_GUARDED_BY(mutex_) = 0;
  Bytes demand_ THERMOCLINE_GUARDED_BY(mutex_) = 0;
  Bytes in_use_ THERMOCLINE_GUARDED_BY(mutex_) = 0;
  Bytes wanted_ THERMOCLINE_GUARDED_BY(mutex_) = 0;  // by the latest request beyond the lease
  std::uint64_t wanted_at_ns_ THERMOCLINE_GUARDED_BY(mutex_) = 0;
  std::uint64_t waits_since_ns_ THERMOCLINE_GUARDED_BY(mutex_) = 0;  // 0: no operation waits
  std::uint64_t waited_at_ns_ THERMOCLINE_GUARDED_BY(mutex_) = 0;
};

// One lease for each device with an engine that shares its memory (budget = "shared"). Under the runtime's lock. False:
// it cannot be shared, and the settings then forbid the program to run; else the budget is fixed, and this is logged.
bool share_device(const Settings& settings, const DeviceFacts& facts, EngineOptions* options);
void end_lease(int device);
// Null: the device's budget is fixed. The device's engine must be held (HeldEngines).
DeviceLease* lease_of(int device);
// Operations wait for the time slice of a device that another process has.
bool any_waits_for_turn();
// In the child of a fork, which has none of its parent's leases.
void abandon_leases();

}  // namespace thermocline
