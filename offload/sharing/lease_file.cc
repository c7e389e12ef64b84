// SPDX-License-Identifier: Apache-2.0
#include "offload/sharing/lease_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <ctime>

#include "allocator/ledger_file.h"

namespace thermocline {
namespace {

constexpr std::uint64_t kMagic = 0x324C444C4D434854;  // "THCMLDL2"
constexpr std::uint64_t kMagicBefore = 0x314C444C4D434854;
constexpr std::size_t kRecords = LeaseLedger::kRecords;

struct File {
  std::uint64_t magic;
  std::array<std::uint64_t, 15> reserved;
  std::array<StoredLease, kRecords> records;
};
static_assert(sizeof(File) == 128 + kRecords * sizeof(StoredLease), "No padding.");

constexpr int kMostReadings = 100;
constexpr int kMostTries = 200;
constexpr int kTriesToBegin = 20;
constexpr long kTryNs = 1'000'000;

off_t place_of(std::size_t at) { return static_cast<off_t>(offsetof(File, records) + at * sizeof(StoredLease)); }

bool is_lived_in(int file, std::size_t at) { return is_byte_locked(file, place_of(at)); }

// FNV-1a (http://www.isthe.com/chongo/tech/comp/fnv/), by words. Never that of a record of zeros.
std::uint64_t check_of(const StoredLease& record) {
  std::array<std::uint64_t, offsetof(StoredLease, check) / sizeof(std::uint64_t)> words{};
  std::memcpy(words.data(), &record, sizeof words);
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const std::uint64_t word : words) hash = (hash ^ word) * 0x100000001b3;
  return hash | 1;
}

bool is_empty(const StoredLease& record) {
  static constexpr StoredLease kEmpty{};
  return std::memcmp(&record, &kEmpty, sizeof record) == 0;
}

LeaseRecord record_of(const StoredLease& stored) {
  return {.pid = stored.pid,
          .command = {stored.command.data(), strnlen(stored.command.data(), stored.command.size())},
          .weight = stored.weight,
          .device_bytes = stored.device_bytes,
          .reserve = stored.reserve,
          .minimum = stored.minimum,
          .demand = stored.demand,
          .lease = stored.lease,
          .in_use = stored.in_use,
          .active_until_ns = stored.active_until_ns,
          .slice = {.looked_ns = stored.looked_ns,
                    .marked_until_ns = stored.marked_until_ns,
                    .begun_ns = stored.slice_begun_ns,
                    .until_ns = stored.slice_until_ns,
                    .measured_ns = stored.measured_ns,
                    .computed_permille = std::min(stored.computed_permille, 1000U),
                    .copied_permille = std::min(stored.copied_permille, 1000U)}};
}

std::uint64_t magic_of(int file) {
  std::uint64_t magic = 0;
  return pread(file, &magic, sizeof magic, 0) == static_cast<ssize_t>(sizeof magic) ? magic : 0;
}

void pause_between_tries() {
  const timespec pause{0, kTryNs};
  nanosleep(&pause, nullptr);
}

// With no magic. False: some process uses the file.
bool empty_file_of_the_version_before(int file) {
  struct flock all = byte_lock(F_WRLCK, 0);
  all.l_len = 0;
  if (fcntl(file, F_SETLK, &all) != 0) return false;
  static constexpr File kNone{};
  // Another process may have done so by now.
  const bool emptied =
      magic_of(file) != kMagicBefore || pwrite(file, &kNone, sizeof kNone, 0) == static_cast<ssize_t>(sizeof kNone);
  all.l_type = F_UNLCK;
  fcntl(file, F_SETLK, &all);
  return emptied;
}

enum class Read : std::uint8_t { kWhole, kTorn, kFailed };

Read read_living(int file, std::size_t self, std::vector<LivingLease>* out) {
  out->clear();
  std::array<StoredLease, kRecords> all;
  if (pread(file, all.data(), sizeof all, place_of(0)) != static_cast<ssize_t>(sizeof all)) return Read::kFailed;
  for (std::size_t at = 0; at < kRecords; ++at) {
    if (is_empty(all[at]) || (at != self && !is_lived_in(file, at))) continue;
    if (all[at].check != check_of(all[at])) return Read::kTorn;
    out->push_back({at, record_of(all[at]), all[at].claim});
  }
  return Read::kWhole;
}

}  // namespace

std::string lease_file_name(const std::string& device) {
  return "thermocline-device." + std::to_string(geteuid()) + "." + device;
}

// A file of the version before that no process uses is begun anew; the locks of both versions are on its bytes. Of several
// processes that begin, one has them all for a moment, in which no other gets one.
bool prepare_lease_file(int file, std::string* why) {
  for (int i = 0; i < kTriesToBegin; ++i) {
    if (prepare_ledger_file(file, sizeof(File), kMagic, why)) return true;
    if (magic_of(file) == kMagicBefore && !empty_file_of_the_version_before(file)) pause_between_tries();
  }
  return false;
}

std::optional<std::size_t> take_lease_record(int file) {
  for (int i = 0; i < kTriesToBegin; ++i, pause_between_tries()) {
    for (std::size_t at = 0; at < kRecords; ++at) {
      struct flock life = byte_lock(F_WRLCK, place_of(at));
      if (fcntl(file, F_SETLK, &life) != 0) continue;
      // A value left by the former holder would count from here on.
      if (erase_lease(file, at)) return at;
      return std::nullopt;
    }
  }
  return std::nullopt;
}

bool lock_entry(int file) {
  for (int i = 0; i < kMostTries; ++i) {
    struct flock lock = byte_lock(F_WRLCK, 0);
    if (fcntl(file, F_SETLK, &lock) == 0) return true;
    pause_between_tries();
  }
  return false;
}

void unlock_entry(int file) {
  struct flock lock = byte_lock(F_UNLCK, 0);
  fcntl(file, F_SETLK, &lock);
}

bool write_lease(int file, std::size_t at, const LeaseRecord& record, Bytes claim) {
  StoredLease stored{};
  stored.lease = record.lease;
  stored.claim = claim;
  stored.minimum = record.minimum;
  stored.reserve = record.reserve;
  stored.demand = record.demand;
  stored.in_use = record.in_use;
  stored.active_until_ns = record.active_until_ns;
  stored.device_bytes = record.device_bytes;
  stored.looked_ns = record.slice.looked_ns;
  stored.marked_until_ns = record.slice.marked_until_ns;
  stored.slice_begun_ns = record.slice.begun_ns;
  stored.slice_until_ns = record.slice.until_ns;
  stored.measured_ns = record.slice.measured_ns;
  stored.computed_permille = record.slice.computed_permille;
  stored.copied_permille = record.slice.copied_permille;
  stored.weight = record.weight;
  stored.pid = record.pid;
  std::memcpy(stored.command.data(), record.command.data(), std::min(record.command.size(), stored.command.size()));
  stored.check = check_of(stored);
  const bool written = pwrite(file, &stored, sizeof stored, place_of(at)) == static_cast<ssize_t>(sizeof stored);
  // If two processes write and then read, one sees the other. An exchange: the thread sanitizer knows no fences.
  static std::atomic<int> fence{0};
  fence.exchange(0, std::memory_order_seq_cst);
  return written;
}

bool erase_lease(int file, std::size_t at) {
  const StoredLease empty{};
  return pwrite(file, &empty, sizeof empty, place_of(at)) == static_cast<ssize_t>(sizeof empty);
}

std::optional<std::vector<LivingLease>> living_leases(int file, std::size_t self) {
  std::vector<LivingLease> all;
  for (int i = 0; i < kMostReadings; ++i) {
    const Read read = read_living(file, self, &all);
    if (read == Read::kWhole) return all;
    if (read == Read::kFailed) return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace thermocline
