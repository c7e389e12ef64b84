// SPDX-License-Identifier: Apache-2.0
#include "hooks/runtime/device_lease.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <thread>

#include "driver/page_size.h"
#include "hooks/interpose/cuda_api.h"
#include "hooks/interpose/log.h"
#include "hooks/interpose/real_table.h"
#include "hooks/runtime/engines.h"
#include "hooks/runtime/runtime.h"

namespace thermocline {
namespace {

constexpr std::chrono::milliseconds kBetweenLooks{5};
// The shortest time between two requests: programs retry sooner than others can have given anything back.
constexpr std::uint64_t kBetweenRequestsNs = 1'000'000;
// A request counts as demand for this long.
constexpr std::uint64_t kRequestNs = 500'000'000;
// How long it counts that another process was seen to have the time slice.
constexpr std::uint64_t kLookCountsNs = 1'000'000'000;
// An operation that waits for its turn asks every millisecond.
constexpr std::uint64_t kWaitCountsNs = 50'000'000;

std::array<std::atomic<DeviceLease*>, EngineSet::kMost> leases{};

std::uint64_t now_ns() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
}

// Empty if the driver does not tell it.
std::string uuid_of(int device) {
  using Get = CUresult(CUDAAPI*)(CUuuid*, CUdevice);
  void* found = real_symbol("cuDeviceGetUuid_v2");
  if (found == nullptr) found = real_symbol("cuDeviceGetUuid");
  CUuuid uuid{};
  if (found == nullptr || reinterpret_cast<Get>(found)(&uuid, device) != CUDA_SUCCESS) return "";
  std::string text;
  for (const char byte : uuid.bytes) {
    std::array<char, 3> digits{};
    std::snprintf(digits.data(), digits.size(), "%02x", static_cast<unsigned char>(byte));
    text += digits.data();
  }
  return text;
}

// Null: the device cannot be shared; that has been logged.
DeviceLease* begin_lease(const Settings& settings, const DeviceFacts& facts) {
  if (static_cast<std::size_t>(facts.device) >= leases.size()) return nullptr;
  std::string why, remark;
  // file-hierarchy(7): created at login, accessible to the user only.
  const DeviceLease::Places places{.other_folder = "/run/user/" + std::to_string(geteuid()),
                                   .device = uuid_of(facts.device)};
  std::unique_ptr<DeviceLease> lease = DeviceLease::begin(settings, facts.total_memory, places, &why, &remark);
  if (!remark.empty()) log_line(LogLevel::kWarning, "device %d: %s", facts.device, remark.c_str());
  if (lease == nullptr) {
    log_line(LogLevel::kWarning, "device %d can not be shared: %s%s", facts.device, why.c_str(),
             settings.strict ? "" : "; the budget is what is free there now");
    return nullptr;
  }
  leases[static_cast<std::size_t>(facts.device)].store(lease.get());
  return lease.release();
}

}  // namespace

std::unique_ptr<DeviceLease> DeviceLease::begin(const Settings& settings, Bytes device_bytes, const Places& places,
                                                std::string* why, std::string* remark) {
  if (places.device.empty()) {
    *why = "the driver does not identify the device";
    return nullptr;
  }
  // A small part of a tiny device is a page all the same.
  const bool is_part = settings.share_minimum.is_percent();
  const Bytes wished = std::max(settings.share_minimum.resolve(device_bytes), is_part ? kDefaultPageBytes : Bytes{0});
  std::unique_ptr<LeaseLedger> ledger = LeaseLedger::open(
      places.folder,
      {.device = places.device, .device_bytes = device_bytes, .minimum = wished, .weight = settings.share_weight}, why,
      places.other_folder);
  if (ledger == nullptr) return nullptr;
  const Bytes minimum = ledger->minimum();
  const auto longest_slice = std::chrono::duration_cast<std::chrono::nanoseconds>(settings.share_slice).count();
  std::unique_ptr<DeviceLease> lease(
      new DeviceLease(std::move(ledger), places.longest_wait_ns, static_cast<std::uint64_t>(longest_slice)));
  if (wished < kDefaultPageBytes) {
    *why = "share_minimum = " + human_bytes(wished) + " is less than a page; give " + human_bytes(kDefaultPageBytes) +
           " or more, or a percentage, which is rounded up to one";
    return nullptr;
  }
  if (minimum < kDefaultPageBytes) {
    *why = "the minimum shares of the processes before it take all of the device";
    return nullptr;
  }
  if (minimum < wished) {
    *remark = "share_minimum = " + human_bytes(wished) + " is more than the device has beyond the minimums of the " +
              "processes before it and a reserve: " + human_bytes(minimum);
  }
  return lease->wait_for_minimum(why) ? std::move(lease) : nullptr;
}

bool DeviceLease::wait_for_minimum(std::string* why) {
  const std::uint64_t until = now_ns() + longest_wait_ns_;
  const MutexLock lock(mutex_);
  while (ledger_->lease() < ledger_->minimum()) {
    const std::uint64_t now = now_ns();
    active_until_ns_ = now + ActivityWatch::kLeastRestNs;
    tell(now);
    if (ledger_->raise(next(now)) && ledger_->lease() >= ledger_->minimum()) break;
    if (now >= until || !ledger_->is_there()) {
      *why = "other processes have not given back its minimum (one that is stopped does not)";
      return false;
    }
    std::this_thread::sleep_for(kBetweenLooks);
  }
  return true;
}

void DeviceLease::tell(std::uint64_t now_ns) {
  const bool asks = wanted_ > 0 && now_ns - wanted_at_ns_ < kRequestNs;
  if (!asks) wanted_ = 0;
  if (ledger_ == nullptr) return;
  ledger_->tell(std::max(demand_, wanted_), in_use_, active_until_ns_);
}

Bytes DeviceLease::next(std::uint64_t now_ns) const {
  LeaseView view;
  if (ledger_ == nullptr || !ledger_->look(now_ns, &view)) return lease();
  return next_lease(view.capacity, view.sharers, view.self);
}

Bytes DeviceLease::budget() const {
  const MutexLock lock(mutex_);
  return lease();
}

bool DeviceLease::is_there() const {
  const MutexLock lock(mutex_);
  return ledger_ != nullptr && ledger_->is_there();
}

void DeviceLease::end() {
  const MutexLock lock(mutex_);
  if (ledger_ == nullptr) return;
  last_ = ledger_->lease();
  ledger_.reset();
  out_of_turn_at_ns_ = 0;
}

Bytes DeviceLease::raise(Bytes wanted) {
  const MutexLock lock(mutex_);
  const std::uint64_t now = now_ns();
  if (ledger_ == nullptr || wanted <= lease()) return lease();
  if (wanted <= wanted_ && now - wanted_at_ns_ < kBetweenRequestsNs) return lease();
  wanted_ = std::max(wanted, wanted_);
  wanted_at_ns_ = now;
  active_until_ns_ = std::max(active_until_ns_, now + ActivityWatch::kLeastRestNs);
  tell(now);
  static_cast<void>(ledger_->raise(next(now)));
  if (lease() >= wanted) waits_since_ns_ = 0;
  return lease();
}

Bytes DeviceLease::grow() {
  const MutexLock lock(mutex_);
  if (ledger_ != nullptr) static_cast<void>(ledger_->raise(next(now_ns())));
  return lease();
}

void DeviceLease::lowered(Bytes budget) {
  const MutexLock lock(mutex_);
  if (ledger_ != nullptr) ledger_->lower(std::max(budget, ledger_->minimum()));
}

// True for longest_wait_ns_, then false once, so that an operation is refused before the time begins again.
bool DeviceLease::may_have_later(Bytes wanted) {
  const MutexLock lock(mutex_);
  const std::uint64_t now = now_ns();
  LeaseView view;
  if (ledger_ == nullptr || !ledger_->look(now, &view) ||
      wanted > largest_lease(view.capacity, view.sharers, view.self))
    return false;
  // Others give back when it is its turn.
  const bool begins = waits_since_ns_ == 0 || now - waited_at_ns_ > longest_wait_ns_ || is_out_of_turn(now);
  if (begins) waits_since_ns_ = now;
  waited_at_ns_ = now;
  if (now - waits_since_ns_ < longest_wait_ns_) return true;
  waits_since_ns_ = 0;
  return false;
}

Bytes DeviceLease::share() {
  const MutexLock lock(mutex_);
  LeaseView view;
  if (ledger_ == nullptr || !ledger_->look(now_ns(), &view)) return lease();
  return fair_share(view.capacity, view.sharers, view.self);
}

Bytes DeviceLease::look(const Engine::BudgetUse& use) {
  const MutexLock lock(mutex_);
  const std::uint64_t now = now_ns();
  demand_ = use.demand;
  in_use_ = use.in_use;
  times_ = use.times;
  active_until_ns_ = std::max(active_until_ns_, watch_.look(now, use.activity, use.works));
  // It is not at rest while it waits.
  if (waited_for_turn_ns_ + kWaitCountsNs > now)
    active_until_ns_ = std::max(active_until_ns_, now + ActivityWatch::kLeastRestNs);
  tell(now);
  look_for_slice(now);
  return next(now);
}

Bytes DeviceLease::look_while_busy() {
  const MutexLock lock(mutex_);
  const std::uint64_t now = now_ns();
  active_until_ns_ = std::max(active_until_ns_, now + ActivityWatch::kLeastRestNs);
  tell(now);
  look_for_slice(now);
  return next(now);
}

// An operation of several engines would wait for one device's slice while it has another's.
void DeviceLease::look_for_slice(std::uint64_t now_ns) {
  const EngineSet* const engines = Runtime::get().engines();
  if (takes_slices_ && ledger_ != nullptr && engines != nullptr && engines->size() > 1) {
    ledger_->tell(SliceRecord());
    out_of_turn_at_ns_ = 0;
    return;
  }
  LeaseView view;
  if (!takes_slices_ || ledger_ == nullptr || !ledger_->look(now_ns, &view)) {
    out_of_turn_at_ns_ = 0;
    return;
  }
  ledger_->tell(slices_.look(now_ns, times_, view.slices, view.self, view.lacks_memory()));
  out_of_turn_at_ns_ = slices_.is_out_of_turn() ? now_ns : 0;
}

// Nobody waits for a look that does not come: the process ends, or the thread that looks could not be created.
bool DeviceLease::is_out_of_turn(std::uint64_t now_ns) const {
  const std::uint64_t since_ns = out_of_turn_at_ns_;
  return since_ns != 0 && since_ns + kLookCountsNs > now_ns;
}

bool DeviceLease::waits_for_turn() {
  if (out_of_turn_at_ns_ == 0) return false;
  const std::uint64_t now = now_ns();
  if (!is_out_of_turn(now)) return false;
  waited_for_turn_ns_ = now;
  return true;
}

bool share_device(const Settings& settings, const DeviceFacts& facts, EngineOptions* options) {
  if (!settings.budget.is_shared() || settings.audit) return true;
  DeviceLease* const lease = begin_lease(settings, facts);
  if (lease == nullptr) return !settings.strict;
  if (options->soft_limit) {
    THERMOCLINE_LOG_ONCE(LogLevel::kWarning, "soft_limit has no effect with budget = \"shared\"");
  }
  options->budget_source = lease;
  options->budget_bytes = lease->budget();
  options->soft_limit = false;
  return true;
}

void end_lease(int device) {
  if (static_cast<std::size_t>(device) >= leases.size()) return;
  if (DeviceLease* const lease = leases[static_cast<std::size_t>(device)].exchange(nullptr)) lease->end();
}

DeviceLease* lease_of(int device) {
  return static_cast<std::size_t>(device) < leases.size() ? leases[static_cast<std::size_t>(device)].load() : nullptr;
}

bool any_waits_for_turn() {
  return std::ranges::any_of(leases, [](const auto& one) {
    DeviceLease* const lease = one.load();
    return lease != nullptr && lease->waits_for_turn();
  });
}

// The leases are not ended: a thread of the parent may have held their locks.
void abandon_leases() {
  for (auto& lease : leases) lease.store(nullptr);
}

}  // namespace thermocline
