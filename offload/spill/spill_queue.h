// SPDX-License-Identifier: Apache-2.0
// Carries out transfers between host memory and a file in the background: on a few threads of its own, reads first.
// Data that was read is compared with the checksum of the data that was written.
//
// begin() never blocks, nor do queries of a transfer's state. Thread-safe.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <thread>
#include <vector>

#include "driver/locks.h"
#include "driver/units.h"
#include "offload/lock_levels.h"
#include "offload/spill/spill_file.h"

namespace thermocline {

// The data read differs from the data written.
inline constexpr int kWrongChecksum = -1;

struct SpillTransfer {
  enum class State : std::uint8_t { kPending, kDone, kFailed };

  bool writes = false;
  Bytes offset = 0;
  void* memory = nullptr;  // must stay while the transfer is pending; not to be written to if `writes`
  Bytes bytes = 0;
  std::uint64_t checksum = 0;  // of a read: the expected one; of a write: the result
  int error = 0;               // if failed: a value of errno, or kWrongChecksum
  std::atomic<State> state{State::kPending};

  bool is_pending() const { return state.load(std::memory_order_acquire) == State::kPending; }
  bool is_done() const { return state.load(std::memory_order_acquire) == State::kDone; }
};

class SpillQueue {
 public:
  // `in_place`: begin() carries out transfers in the caller's thread, so that the same calls give the same results at
  // the same time. This is also done if no thread can be created.
  SpillQueue(std::shared_ptr<SpillFile> file, bool in_place) : file_(std::move(file)), in_place_(in_place) {}
  // Waits for transfers that have begun.
  ~SpillQueue();
  SpillQueue(const SpillQueue&) = delete;
  SpillQueue& operator=(const SpillQueue&) = delete;

  void begin(std::shared_ptr<SpillTransfer> transfer);
  // Blocks until the transfer is not pending. Must be called without locks, or within a WaitsInPlace.
  void wait(const SpillTransfer& transfer);

  SpillFile& file() { return *file_; }

 private:
  static constexpr std::size_t kThreads = 3;
  static constexpr std::size_t kMostWriting = kThreads - 1;  // a read never waits for a write to end

  void work();
  void carry_out(SpillTransfer& transfer);
  std::shared_ptr<SpillTransfer> next() THERMOCLINE_REQUIRES(mutex_);

  const std::shared_ptr<SpillFile> file_;
  bool in_place_;
  Mutex mutex_{"spill queue", lock_level::kSpillQueue};
  std::condition_variable_any has_work_, has_ended_;
  std::deque<std::shared_ptr<SpillTransfer>> reads_ THERMOCLINE_GUARDED_BY(mutex_);
  std::deque<std::shared_ptr<SpillTransfer>> writes_ THERMOCLINE_GUARDED_BY(mutex_);
  std::size_t writing_ THERMOCLINE_GUARDED_BY(mutex_) = 0;
  bool ends_ THERMOCLINE_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;  // created at the first transfer, by the caller
};

}  // namespace thermocline
