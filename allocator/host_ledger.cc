// SPDX-License-Identifier: Apache-2.0
#include "allocator/host_ledger.h"

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cstring>

#include "allocator/ledger_file.h"
#include "driver/check.h"

namespace thermocline {
namespace {

constexpr std::uint64_t kMagic = 0x314C484C4D434854;  // "THCMLHL1"

// The layout in the file, in the machine's own byte order.
struct Entry {
  std::uint64_t bytes;
  std::int32_t pid;  // in the process's own PID namespace; only for people to read
  std::int32_t reserved;
};
struct File {
  std::uint64_t magic;
  std::uint64_t reserved;
  std::array<Entry, HostLedger::kEntries> entries;
};
static_assert(sizeof(File) == 4096, "One page.");

off_t place_of(std::size_t entry) { return static_cast<off_t>(offsetof(File, entries) + entry * sizeof(Entry)); }

// True while the process that wrote the entry is alive.
bool is_lived_in(int file, std::size_t entry) { return is_byte_locked(file, place_of(entry)); }

// Holds the lock on the whole file while it lives.
class Locked {
 public:
  explicit Locked(int file) : file_(file) {
    struct flock lock = byte_lock(F_WRLCK, 0);
    // A holder of this lock never waits for anything. The kernel, which counts record locks by process and not by
    // thread, may still report a deadlock because of other locks of the program.
    int result = 0;
    while ((result = fcntl(file, F_SETLKW, &lock)) != 0 && (errno == EINTR || errno == EDEADLK)) sched_yield();
    holds_ = result == 0;
  }
  ~Locked() {
    struct flock lock = byte_lock(F_UNLCK, 0);
    if (holds_) fcntl(file_, F_SETLK, &lock);
  }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;
  bool holds() const { return holds_; }

 private:
  const int file_;
  bool holds_ = false;
};

bool read_all(int file, File* out) { return pread(file, out, sizeof *out, 0) == static_cast<ssize_t>(sizeof *out); }

bool write_entry(int file, std::size_t at, const Entry& entry) {
  return pwrite(file, &entry, sizeof entry, place_of(at)) == static_cast<ssize_t>(sizeof entry);
}

bool is_name(const std::string& text) {
  return text.size() <= 64 &&
         std::ranges::all_of(text, [](unsigned char c) { return std::isalnum(c) != 0 || c == '-' || c == '_'; });
}

bool prepare(int file, std::string* why) {
  const Locked locked(file);
  if (!locked.holds()) {
    *why = std::string("it can not be locked: ") + std::strerror(errno);
    return false;
  }
  return prepare_ledger_file(file, sizeof(File), kMagic, why);
}

}  // namespace

HostLedger::HostLedger(int file, Bytes limit) : file_(file), limit_(limit), pid_(getpid()) {}

std::unique_ptr<HostLedger> HostLedger::open(const std::string& folder, Bytes limit, std::string* why,
                                             const std::string& group, const std::string& other_folder) {
  if (!is_name(group)) {
    *why = "'" + group + "' is no name of letters, digits, '-' and '_'";
    return nullptr;
  }
  const std::string name = "thermocline-host." + std::to_string(geteuid()) + (group.empty() ? "" : "." + group);
  const int file = open_ledger_file(folder, other_folder, name, why);
  if (file < 0) return nullptr;
  std::unique_ptr<HostLedger> ledger(new HostLedger(file, limit));
  if (!prepare(file, why)) {
    *why = name + ": " + *why;
    return nullptr;
  }
  if (ledger->enter()) return ledger;
  *why = name + ": more than " + std::to_string(kEntries) + " processes";
  return nullptr;
}

bool HostLedger::enter() {
  const Locked locked(file_);
  if (!locked.holds()) return false;
  for (std::size_t at = 0; at < kEntries; ++at) {
    if (is_lived_in(file_, at)) continue;
    // The bytes in the entry, if any, were those of a process that has ended.
    struct flock life = byte_lock(F_WRLCK, place_of(at));
    if (!write_entry(file_, at, {0, pid_, 0}) || fcntl(file_, F_SETLK, &life) != 0) return false;
    entry_ = at;
    return true;
  }
  return false;
}

HostLedger::~HostLedger() {
  // Only while this process holds the entry's lock is the entry its own.
  if (getpid() == pid_ && entry_ < kEntries) write_entry(file_, entry_, {0, 0, 0});
  close(file_);
}

Bytes HostLedger::held_by_others() const {
  // Too large for the stacks of some threads.
  const auto all = std::make_unique<File>();
  // If the file can not be read, the limit counts as reached.
  if (!read_all(file_, all.get())) return limit_;
  Bytes held = 0;
  for (std::size_t at = 0; at < kEntries; ++at) {
    if (at != entry_ && all->entries[at].bytes > 0 && is_lived_in(file_, at)) held += all->entries[at].bytes;
  }
  return held;
}

bool HostLedger::hold(Bytes bytes) {
  const MutexLock lock(mutex_);
  return hold_locked(bytes);
}

bool HostLedger::change(Bytes from, Bytes to) {
  const MutexLock lock(mutex_);
  THERMOCLINE_CHECK(from <= held_, "What a holder has is a part of what the process has.");
  return to <= ~Bytes{0} - held_ && hold_locked(held_ - from + to);
}

bool HostLedger::hold_locked(Bytes bytes) {
  if (bytes == held_) return true;
  THERMOCLINE_CHECK(getpid() == pid_, "A ledger is used by the process that opened it.");
  const Locked locked(file_);
  if (bytes > held_) {
    if (!locked.holds()) return false;
    const Bytes others = held_by_others();
    if (others > limit_ || bytes > limit_ - others) return false;
  }
  if (!write_entry(file_, entry_, {bytes, pid_, 0}) && bytes > held_) return false;
  held_ = bytes;
  return true;
}

Bytes HostLedger::held() const {
  const MutexLock lock(mutex_);
  return held_;
}

Bytes HostLedger::held_by_all() const {
  const MutexLock lock(mutex_);
  const Locked locked(file_);
  return held_ + held_by_others();
}

}  // namespace thermocline
