// SPDX-License-Identifier: Apache-2.0
#include "hooks/diagnostics/recorder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <utility>

#include "config/rank.h"
#include "config/trusted_file.h"
#include "driver/locks.h"
#include "hooks/interpose/lock_levels.h"
#include "hooks/interpose/log.h"
#include "hooks/interpose/process_lifetime.h"
#include "hooks/runtime/tags.h"

namespace thermocline {
namespace {

// If the program is killed, at most this many bytes of events are lost, and at most the events of this much time,
// provided that it keeps launching.
constexpr std::size_t kBlockBytes = std::size_t{256} << 10;
constexpr std::chrono::milliseconds kBlockTime{250};
// A part has at least this many blocks, however low the limit.
constexpr std::uint64_t kBlocksOfALimit = 16;
constexpr std::uint64_t kLeastLimit = std::uint64_t{64} << 10;
constexpr std::uint64_t kAskEvery = 64;

// Holds the recorder's lock, and knows whether this thread holds it.
class Writing {
 public:
  explicit Writing(Mutex& mutex) : mutex_(mutex) {
    is_writing = true;
    std::atomic_signal_fence(std::memory_order_seq_cst);
    mutex_.lock();
  }
  ~Writing() {
    mutex_.unlock();
    std::atomic_signal_fence(std::memory_order_seq_cst);
    is_writing = false;
  }
  Writing(const Writing&) = delete;
  Writing& operator=(const Writing&) = delete;

  static bool now() { return is_writing; }

 private:
  static constinit thread_local bool is_writing;
  Mutex& mutex_;
};

constinit thread_local bool Writing::is_writing = false;

// The newest recorder, ended or not: other threads may still be using it.
Recorder* newest = nullptr;

// False on failure; errno has the reason.
bool write_whole(int file, const std::string& bytes) {
  for (std::size_t done = 0; done < bytes.size();) {
    const ssize_t count = write(file, bytes.data() + done, bytes.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return false;
    done += static_cast<std::size_t>(count);
  }
  return true;
}

std::uint64_t number_of_this_thread() {
  static std::atomic<std::uint64_t> next{0};
  thread_local const std::uint64_t number = next.fetch_add(1, std::memory_order_relaxed);
  return number;
}

// Creates the file, or opens one of this user's that has no other name (hard link): everybody may be able to write to
// the folder, so a name there may have been placed by another user.
int open_own(const std::string& path, int flags) {
  constexpr int kFlags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY;
  const int file = open(path.c_str(), kFlags | flags, 0600);
  struct stat facts {};
  if (file < 0 ||
      (fstat(file, &facts) == 0 && S_ISREG(facts.st_mode) && facts.st_uid == geteuid() && facts.st_nlink == 1)) {
    return file;
  }
  close(file);
  errno = EEXIST;
  return -1;
}

// 0: no limit.
std::uint64_t limit() {
  const char* const text = variable_of_process("THERMOCLINE_RECORD_LIMIT");
  if (text == nullptr || *text == '\0') return 0;
  char* end = nullptr;
  const std::uint64_t bytes = std::strtoull(text, &end, 10);
  if (*end == '\0' && bytes > 0) return std::max(bytes, kLeastLimit);
  log_line(LogLevel::kWarning, "THERMOCLINE_RECORD_LIMIT: '%s' is no number of bytes; there is no limit", text);
  return 0;
}

}  // namespace

Recorder::Recorder(const Driver& driver, const Engine* engine, std::string path, int file, std::uint64_t limit,
                   Recorder* before)
    : driver_(driver),
      engine_(engine),
      durations_(std::make_unique<DurationMeter>(driver_)),
      path_(std::move(path)),
      file_(file),
      block_bytes_(limit == 0 ? kBlockBytes : std::min<std::uint64_t>(kBlockBytes, limit / kBlocksOfALimit)),
      part_bytes_(limit / 2),
      before_(before) {}

// Never destroyed: hooks are called until the end of the process.
constinit std::atomic<Recorder*> Recorder::current_{nullptr};

void Recorder::begin(const Driver& driver, const Engine* engine) {
  const char* const base = variable_of_process("THERMOCLINE_RECORD");
  if (base == nullptr || *base == '\0') return;
  if (get() != nullptr) {
    THERMOCLINE_LOG_ONCE(LogLevel::kInfo,
                         "the program uses several devices; what it does on the first of them is recorded");
    return;
  }
  const std::optional<Rank> rank = rank_of_process();
  const std::string process = (rank ? "rank" + std::to_string(rank->rank) + "-" : "") + std::to_string(getpid());
  const std::string path = std::string(base) + "." + process;
  // A second engine of the process appends to the file.
  const int file = open_own(path, 0);
  if (file < 0 || (lseek(file, 0, SEEK_END) == 0 && !write_whole(file, std::string(kRecordingHeader)))) {
    log_line(LogLevel::kError, "%s: can not be written: %s; nothing is recorded", path.c_str(), std::strerror(errno));
    if (file >= 0) close(file);
    return;
  }
  newest = new Recorder(driver, engine, path, file, limit(), newest);
  current_.store(newest, std::memory_order_release);
}

void Recorder::end(bool without_driver) noexcept {
  // This thread already holds the lock: a signal interrupted it while it was recording an event, and the signal's
  // handler ends the process.
  if (Writing::now()) {
    current_.store(nullptr);
    log_line(LogLevel::kError,
             "the process ended inside a call that was being recorded: the end of the recording is lost");
    return;
  }
  Recorder* const ending = current_.exchange(nullptr);
  if (ending == nullptr) return;
  try {
    const Writing lock(ending->mutex_);
    if (without_driver) {
      ending->abandoned_ = ending->durations_.release();
    } else {
      ending->durations_->collect();
    }
    ending->write_all();
    ending->durations_.reset();
    ending->ended_ = true;
    close(ending->file_);
  } catch (...) {
    log_line(LogLevel::kError, "the end of the recording is lost");
  }
}

void Recorder::abandon() noexcept { current_.store(nullptr); }

std::uint64_t Recorder::token_of(const OperationInfo& info, std::span<const MemoryAccess> accesses) {
  std::uint64_t token = info.kind;
  // A kernel's kind is enough: it includes the sizes of its grid. Its accesses are read from its parameters, and the
  // number of words in these that look like addresses may differ from turn to turn (offload/planning/unsteady_kinds.h).
  if (info.is_kernel() && info.kind != 0) return token;
  // The multiplier of 64-bit FNV-1a.
  for (const MemoryAccess& access : accesses) token = (token ^ access.bytes) * 0x100000001B3u;
  return token;
}

std::uint64_t Recorder::id_of(const char* name) {
  const auto [at, fresh] = names_.try_emplace(name, names_.size());
  if (fresh) writer_.name(at->second, name == nullptr ? "unknown" : name);
  return at->second;
}

void Recorder::say_thread() {
  const std::uint64_t thread = number_of_this_thread();
  if (thread == thread_) return;
  thread_ = thread;
  writer_.thread(thread);
}

void Recorder::say_tag() {
  const std::uint64_t tag = tag_of_thread();
  if (tag == tag_) return;
  tag_ = tag;
  if (told_tags_.size() <= tag) told_tags_.resize(tag + 1);
  if (tag != 0 && !told_tags_[tag]) {
    writer_.tag(tag, text_of_tag(tag));
    told_tags_[tag] = true;
  }
  writer_.tagged(tag);
}

void Recorder::allocated(DeviceAddress address, Bytes bytes, std::optional<StreamHandle> stream) {
  const Writing lock(mutex_);
  say_thread();
  say_tag();
  const auto handle = static_cast<std::uint64_t>(stream.value_or(StreamHandle{}));
  writer_.allocate(address.value, bytes, handle);
  if (part_bytes_ != 0) held_[address.value] = {bytes, handle, tag_};
  write_if_full();
}

void Recorder::freed(DeviceAddress address, std::optional<StreamHandle> stream) {
  const Writing lock(mutex_);
  say_thread();
  if (part_bytes_ != 0) held_.erase(address.value);
  writer_.free(address.value, static_cast<std::uint64_t>(stream.value_or(StreamHandle{})));
  write_if_full();
}

void Recorder::submitting(StreamHandle stream, const OperationInfo& info, std::span<const MemoryAccess> accesses) {
  const Writing lock(mutex_);
  if (durations_ != nullptr) durations_->begin(token_of(info, accesses), stream);
}

void Recorder::submitted(StreamHandle stream, const OperationInfo& info, std::span<const MemoryAccess> accesses) {
  const Writing lock(mutex_);
  if (durations_ != nullptr) durations_->end(stream);
  say_thread();
  const std::uint64_t name = id_of(info.name);
  writer_.operate(name, static_cast<std::uint64_t>(stream), token_of(info, accesses), accesses);
  // At the end of the process the driver is no longer queried.
  if (++operations_ % kAskEvery == 0) {
    write_durations();
    if (std::chrono::steady_clock::now() - newest_block_ >= kBlockTime) write_all();
  }
  write_if_full();
}

void Recorder::step() {
  const Writing lock(mutex_);
  writer_.step();
}

void Recorder::write_durations() {
  if (durations_ == nullptr) return;
  durations_->collect();
  durations_->for_each([this](std::uint64_t token, std::uint64_t nanoseconds) {
    std::uint64_t& known = written_[token];
    if (known == nanoseconds) return;
    known = nanoseconds;
    writer_.duration(token, nanoseconds);
  });
}

void Recorder::write_if_full() {
  if (writer_.bytes() >= block_bytes_) write_all();
}

// The blocks written so far become the older part; the new part begins with the current state.
void Recorder::begin_part() {
  const std::string older = path_ + std::string(kOlderPart);
  const int file = std::rename(path_.c_str(), older.c_str()) == 0 ? open_own(path_, O_EXCL) : -1;
  if (file < 0 || !write_whole(file, std::string(kRecordingHeader))) {
    log_line(LogLevel::kError, "%s: can not be written: %s; the recording ends here", path_.c_str(),
             std::strerror(errno));
    if (file >= 0) close(file);
    ended_ = true;
    return;
  }
  close(std::exchange(file_, file));
  writer_.part();
  for (const auto& [name, id] : names_) writer_.name(id, name == nullptr ? "unknown" : name);
  for (const auto& [token, nanoseconds] : written_) writer_.duration(token, nanoseconds);
  {
    told_tags_.assign(tags() + 1, true);
    for (std::size_t tag = 1; tag < told_tags_.size(); ++tag) writer_.tag(tag, text_of_tag(tag));
  }
  for (const auto& [address, held] : held_) writer_.held(address, held.bytes, held.stream, held.tag);
  writer_.thread(thread_);
  writer_.tagged(tag_);
  // The initial state does not count toward the limit: a program with many buffers gets as much room for events as any
  // other.
  ended_ = !write_block();
  written_bytes_ = 0;
}

bool Recorder::write_block() {
  const std::string block = writer_.take_block();
  written_bytes_ += block.size();
  newest_block_ = std::chrono::steady_clock::now();
  if (write_whole(file_, block)) return true;
  log_line(LogLevel::kError, "the recording ends here: %s", std::strerror(errno));
  return false;
}

void Recorder::write_all() {
  write_durations();
  if (writer_.bytes() == 0 || ended_) return;
  ended_ = !write_block();
  if (!ended_ && part_bytes_ != 0 && written_bytes_ + block_bytes_ > part_bytes_) begin_part();
}

}  // namespace thermocline
