// SPDX-License-Identifier: Apache-2.0
#include "driver/mapping_waits.h"

#include <pthread.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <new>
#include <optional>
#include <system_error>
#include <thread>

#include "driver/locks.h"
#include "driver/nvtx_memory.h"
#include "driver/owned.h"

namespace thermocline {
namespace {

// A call that takes this long has waited for the blocked stream.
constexpr std::chrono::milliseconds kLongest{20};
// A slow call may be due to a busy machine that did not run the thread: the next attempt allows twice the time.
constexpr int kAttempts = 4;

// The program's signal handlers do not run on threads that it does not know.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_{};
};

// A stream that waits for a value until it is released, or gives up.
class BlockedStream {
 public:
  // `word`: pinned, for as long as the stream may be blocked.
  BlockedStream(const Driver& driver, void* word, std::chrono::milliseconds longest)
      : driver_(&driver), word_(new (word) std::atomic<std::uint32_t>(0)) {
    StreamHandle stream{};
    if (!driver.create_stream(&stream).ok()) return;
    stream_ = StreamOwner(driver, stream);
    // Done before the stream is blocked: without a thread, nobody would release it in time.
    try {
      const SignalsBlocked blocked;
      timer_ = std::thread([this, longest] { give_up(longest); });
    } catch (const std::system_error&) {
      return;
    }
    is_blocked_ = driver.wait_for_value(stream, word, 1).ok();
  }
  ~BlockedStream() {
    if (!timer_.joinable()) return;
    *word_ = 1;
    timer_.join();
    const WaitsInPlace nothing_else_runs_there;
    static_cast<void>(driver_->synchronize_stream(stream_.get()));
  }
  BlockedStream(const BlockedStream&) = delete;
  BlockedStream& operator=(const BlockedStream&) = delete;

  bool is_blocked() const { return is_blocked_; }
  bool gave_up() const { return gave_up_; }

 private:
  void give_up(std::chrono::milliseconds longest) {
    const auto end = std::chrono::steady_clock::now() + longest;
    while (*word_ == 0) {
      std::this_thread::sleep_for(std::chrono::microseconds(200));
      if (std::chrono::steady_clock::now() < end) continue;
      gave_up_ = true;
      *word_ = 1;
    }
  }

  const Driver* driver_;
  std::atomic<std::uint32_t>* word_;
  StreamOwner stream_;
  bool is_blocked_ = false;
  std::atomic<bool> gave_up_{false};
  std::thread timer_;
};

// Maps, gives access and unmaps at `at` while a stream is blocked. If a call waits, the stream is not blocked after it.
MappingInFlight attempt(const Driver& driver, const DeviceFacts& facts, DeviceAddress at, PageHandle page, void* word,
                        std::chrono::milliseconds longest) {
  const Bytes bytes = facts.page_bytes;
  MappingInFlight found;
  const BlockedStream stream(driver, word, longest);
  if (!stream.is_blocked()) return found;
  const auto note = [&](Status status, const char* call, WaitingCalls waiting) {
    if (status.ok() && stream.gave_up() && found.call == nullptr) {
      found.call = call;
      found.waiting = waiting;
    }
    return status.ok();
  };
  if (!note(driver.map(at, bytes, page), "cuMemMap", WaitingCalls::kAll)) return {};
  const bool has_access = note(driver.set_access(at, bytes, facts.device), "cuMemSetAccess", WaitingCalls::kAll);
  const bool is_unmapped = note(driver.unmap(at, bytes), "cuMemUnmap", WaitingCalls::kUnmap);
  if (!has_access || !is_unmapped) return {};
  found.finding = found.call == nullptr ? Finding::kWorks : Finding::kFails;
  return found;
}

}  // namespace

MappingInFlight probe_mapping_in_flight(const Driver& driver, const DeviceFacts& facts, bool annotate) {
  MappingInFlight found;
  DeviceAddress at;
  PageHandle page{};
  if (!facts.has_virtual_memory) return found;
  const RelaxedCapture relaxed(driver);
  if (!driver.reserve(facts.page_bytes, facts.page_bytes, &at).ok()) return found;
  const ReservationOwner addresses(driver, at, facts.page_bytes);
  std::optional<NvtxMemory> annotation;
  if (annotate) annotation.emplace("thermocline: a trial", at, facts.page_bytes);
  // Never freed: freeing pinned memory may wait for all work of the device, which may wait for this thread.
  void* word = nullptr;
  if (!driver.allocate_host(sizeof(std::atomic<std::uint32_t>), &word).ok()) return found;
  if (!driver.create_page(facts.page_bytes, facts.device, &page).ok()) return found;
  for (int i = 0; i < kAttempts; ++i) {
    found = attempt(driver, facts, at, page, word, kLongest * (1 << i));
    if (found.finding != Finding::kFails) break;
  }
  static_cast<void>(driver.destroy_page(page));
  return found;
}

}  // namespace thermocline
