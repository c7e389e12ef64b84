// SPDX-License-Identifier: Apache-2.0
#include "hooks/recorder.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "hooks/log.h"

namespace thermocline {
namespace {

// What is lost when the program is killed.
constexpr std::size_t kBlockBytes = std::size_t{256} << 10;
constexpr std::uint64_t kAskEvery = 64;

// Never destroyed: hooks are called until the very end of the process.
std::atomic<Recorder*> recorder{nullptr};
// The newest, ended or not: other threads may still be in it.
Recorder* newest = nullptr;

// False: errno says why.
bool write_whole(int file, const std::string& bytes) {
  for (std::size_t done = 0; done < bytes.size();) {
    const ssize_t count = write(file, bytes.data() + done, bytes.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return false;
    done += static_cast<std::size_t>(count);
  }
  return true;
}

}  // namespace

Recorder* Recorder::get() noexcept { return recorder.load(std::memory_order_acquire); }

void Recorder::begin(const Driver& driver) {
  const char* const base = std::getenv("THERMOCLINE_RECORD");
  if (base == nullptr || *base == '\0' || get() != nullptr) return;
  const std::string path = std::string(base) + "." + std::to_string(getpid());
  // A second engine of the process goes on where the first one ended.
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (file < 0 || (lseek(file, 0, SEEK_END) == 0 && !write_whole(file, std::string(kRecordingHeader)))) {
    log_line("%s: can not be written: %s; nothing is recorded", path.c_str(), std::strerror(errno));
    if (file >= 0) close(file);
    return;
  }
  newest = new Recorder(driver, file, newest);
  recorder.store(newest, std::memory_order_release);
}

void Recorder::end(bool without_driver) noexcept {
  Recorder* const ending = recorder.exchange(nullptr);
  if (ending == nullptr) return;
  try {
    const std::lock_guard lock(ending->mutex_);
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
    log_line("the end of the recording is lost");
  }
}

void Recorder::abandon() noexcept { recorder.store(nullptr); }

std::uint64_t Recorder::token_of(const OperationInfo& info, std::span<const Touch> touches) {
  std::uint64_t token = info.kind;
  // The multiplier of 64-bit FNV-1a.
  for (const Touch& touch : touches) token = (token ^ touch.bytes) * 0x100000001B3u;
  return token;
}

std::uint64_t Recorder::id_of(const char* name) {
  const auto [at, fresh] = names_.try_emplace(name, names_.size());
  if (fresh) writer_.name(at->second, name == nullptr ? "unknown" : name);
  return at->second;
}

void Recorder::allocated(DeviceAddress address, Bytes bytes, std::optional<StreamHandle> stream) {
  const std::lock_guard lock(mutex_);
  writer_.allocate(address.value, bytes, static_cast<std::uint64_t>(stream.value_or(StreamHandle{})));
  write_if_full();
}

void Recorder::freed(DeviceAddress address, std::optional<StreamHandle> stream) {
  const std::lock_guard lock(mutex_);
  writer_.free(address.value, static_cast<std::uint64_t>(stream.value_or(StreamHandle{})));
  write_if_full();
}

void Recorder::submitting(StreamHandle stream, const OperationInfo& info, std::span<const Touch> touches) {
  const std::lock_guard lock(mutex_);
  if (durations_ != nullptr) durations_->begin(token_of(info, touches), stream);
}

void Recorder::submitted(StreamHandle stream, const OperationInfo& info, std::span<const Touch> touches) {
  const std::lock_guard lock(mutex_);
  if (durations_ != nullptr) durations_->end(stream);
  const std::uint64_t name = id_of(info.name);
  writer_.operate(name, static_cast<std::uint64_t>(stream), token_of(info, touches), touches);
  // At the end of the process the driver is not asked any more.
  if (++operations_ % kAskEvery == 0) write_durations();
  write_if_full();
}

void Recorder::step() {
  const std::lock_guard lock(mutex_);
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
  if (writer_.bytes() >= kBlockBytes) write_all();
}

void Recorder::write_all() {
  write_durations();
  if (writer_.bytes() == 0 || ended_) return;
  if (write_whole(file_, writer_.take_block())) return;
  log_line("the recording ends here: %s", std::strerror(errno));
  ended_ = true;
}

}  // namespace thermocline
