// SPDX-License-Identifier: Apache-2.0
#include "offload/sharing/lease_ledger.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cerrno>

#include <algorithm>

#include "allocator/ledger_file.h"
#include "offload/sharing/lease_file.h"

namespace thermocline {
namespace {

// The program's name, as ps shows it.
std::string own_command() {
  std::string name = program_invocation_short_name == nullptr ? "" : program_invocation_short_name;
  std::ranges::replace_if(
      name, [](unsigned char c) { return c < 0x20 || c == 0x7f; }, '?');
  return name;
}

// All processes use the same device, so the smallest value contradicts no other.
Bytes capacity_of(const std::vector<LivingLease>& all) {
  Bytes device = ~Bytes{0}, reserved = 0;
  for (const LivingLease& one : all) {
    device = std::min(device, one.record.device_bytes);
    reserved += one.record.reserve;
  }
  return all.empty() ? 0 : device - std::min(device, reserved);
}

Sharer sharer_of(const LeaseRecord& record, std::uint64_t now_ns) {
  return {.minimum = record.minimum,
          .weight = record.weight,
          .demand = record.demand,
          .lease = record.lease,
          .is_active = record.active_until_ns >= now_ns};
}

}  // namespace

LeaseLedger::LeaseLedger(int file, const Wish& wish) : file_(file), pid_(getpid()) {
  struct stat facts {};
  if (fstat(file, &facts) == 0) {
    device_ = facts.st_dev;
    inode_ = facts.st_ino;
  }
  own_ = {.pid = pid_,
          .command = own_command(),
          .weight = wish.weight,
          .device_bytes = wish.device_bytes,
          .reserve = reserve_of_process(wish.device_bytes),
          .minimum = wish.minimum};
}

std::unique_ptr<LeaseLedger> LeaseLedger::open(const std::string& folder, const Wish& wish, std::string* why,
                                               const std::string& other_folder) {
  const std::string name = lease_file_name(wish.device);
  const int file = open_ledger_file(folder, other_folder, name, why);
  if (file < 0) return nullptr;
  std::unique_ptr<LeaseLedger> ledger(new LeaseLedger(file, wish));
  if (prepare_lease_file(file, why) && ledger->enter(why)) return ledger;
  *why = name + ": " + *why;
  return nullptr;
}

bool LeaseLedger::enter(std::string* why) {
  const std::optional<std::size_t> at = take_lease_record(file_);
  if (!at.has_value()) {
    *why = "there are " + std::to_string(kRecords) + " processes already, or its file can not be locked";
    return false;
  }
  at_ = *at;
  const bool is_alone = lock_entry(file_);
  const Bytes wished = own_.minimum;
  bool entered = write(0);
  if (const auto all = living_leases(file_, at_); entered && all.has_value()) {
    std::vector<Sharer> others;
    for (const LivingLease& one : *all) {
      if (one.at != at_) others.push_back(sharer_of(one.record, 0));
    }
    own_.minimum = admitted_minimum(capacity_of(*all), others, wished);
    entered = write(0);
  } else {
    entered = false;
  }
  if (is_alone) unlock_entry(file_);
  if (!entered) *why = "it can not be written and read";
  return entered;
}

LeaseLedger::~LeaseLedger() {
  if (getpid() == pid_ && at_ < kRecords && is_there_) {
    own_.lease = 0;
    // A process that reads the record while its lock is being released reads zeros.
    if (write(0)) erase_lease(file_, at_);
  }
  if (is_there_) close(file_);
}

// The descriptor may belong to another file by now, which must not be written to.
bool LeaseLedger::write(Bytes claim) {
  struct stat facts {};
  if (!is_there_ || getpid() != pid_) return false;
  if (fstat(file_, &facts) != 0 || facts.st_dev != device_ || facts.st_ino != inode_ || facts.st_nlink == 0) {
    is_there_ = false;
    return false;
  }
  return write_lease(file_, at_, own_, claim);
}

void LeaseLedger::tell(Bytes demand, Bytes in_use, std::uint64_t active_until_ns) {
  if (demand == own_.demand && in_use == own_.in_use && active_until_ns == own_.active_until_ns) return;
  own_.demand = demand;
  own_.in_use = in_use;
  own_.active_until_ns = active_until_ns;
  static_cast<void>(write(0));
}

void LeaseLedger::tell(const SliceRecord& slice) {
  if (slice == own_.slice) return;
  own_.slice = slice;
  static_cast<void>(write(0));
}

bool LeaseLedger::look(std::uint64_t now_ns, LeaseView* out) const {
  const auto all = is_there_ ? living_leases(file_, at_) : std::nullopt;
  if (!all.has_value()) return false;
  *out = {.capacity = capacity_of(*all), .sharers = {}, .slices = {}, .self = 0};
  bool has_own = false;
  for (const LivingLease& one : *all) {
    if (one.at == at_) {
      out->self = out->sharers.size();
      has_own = true;
    }
    out->sharers.push_back(sharer_of(one.record, now_ns));
    out->slices.push_back(
        {.is_active = out->sharers.back().is_active, .weight = one.record.weight, .record = one.record.slice});
  }
  rest_out_of_turn(out->slices, now_ns, out->sharers);
  return has_own;
}

bool LeaseView::lacks_memory() const {
  Bytes wanted = 0;
  for (std::size_t i = 0; i < sharers.size(); ++i) {
    wanted += slices[i].is_active ? std::max(sharers[i].minimum, sharers[i].demand) : sharers[i].minimum;
  }
  return wanted > capacity;
}

bool LeaseLedger::fits() const {
  const auto all = living_leases(file_, at_);
  if (!all.has_value()) return false;
  Bytes taken = 0;
  for (const LivingLease& one : *all) {
    // A process may have a part of its own minimum before it has all of it.
    taken += std::max({one.record.lease, one.claim, one.at == at_ ? 0 : one.record.minimum});
  }
  return taken <= capacity_of(*all);
}

bool LeaseLedger::raise(Bytes lease) {
  if (lease <= own_.lease) return true;
  if (!write(lease)) return false;
  const Bytes before = own_.lease;
  if (fits()) {
    own_.lease = lease;
    if (write(0)) return true;
  }
  own_.lease = before;
  static_cast<void>(write(0));
  return false;
}

void LeaseLedger::lower(Bytes lease) {
  if (lease >= own_.lease) return;
  own_.lease = lease;
  static_cast<void>(write(0));
}

std::vector<SharedDevice> shared_devices(const std::string& folder) {
  std::vector<SharedDevice> found;
  const std::string prefix = lease_file_name("");
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(opendir(folder.c_str()), &closedir);
  while (const dirent* const entry = entries == nullptr ? nullptr : readdir(entries.get())) {
    const std::string name = entry->d_name;
    if (!name.starts_with(prefix)) continue;
    std::string path = folder + "/";
    path += name;
    const int file = ::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (file < 0) continue;
    SharedDevice one{name.substr(prefix.size()), {}};
    if (const auto all = living_leases(file, LeaseLedger::kRecords); all.has_value()) {
      for (const LivingLease& lease : *all) one.processes.push_back(lease.record);
    }
    close(file);
    if (!one.processes.empty()) found.push_back(std::move(one));
  }
  std::ranges::sort(found, {}, &SharedDevice::device);
  return found;
}

}  // namespace thermocline
