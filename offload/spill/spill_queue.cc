// SPDX-License-Identifier: Apache-2.0
#include "offload/spill/spill_queue.h"

#include <utility>

#include "driver/background_thread.h"

namespace thermocline {

SpillQueue::~SpillQueue() {
  {
    const MutexLock lock(mutex_);
    ends_ = true;
  }
  has_work_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void SpillQueue::begin(std::shared_ptr<SpillTransfer> transfer) {
  if (!in_place_ && threads_.empty()) {
    for (std::size_t i = 0; i < kThreads; ++i) {
      std::thread thread = try_in_background([this] { work(); });
      if (thread.joinable()) threads_.push_back(std::move(thread));
    }
    // With one thread a read waits for a write; with none the caller waits.
    in_place_ = threads_.empty();
  }
  if (in_place_) return carry_out(*transfer);
  {
    const MutexLock lock(mutex_);
    (transfer->writes ? writes_ : reads_).push_back(std::move(transfer));
  }
  has_work_.notify_one();
}

void SpillQueue::wait(const SpillTransfer& transfer) {
  if (!transfer.is_pending()) return;
  about_to_wait("a transfer between host memory and the spill file");
  MutexLock lock(mutex_);
  while (transfer.is_pending()) has_ended_.wait(lock);
}

std::shared_ptr<SpillTransfer> SpillQueue::next() {
  std::deque<std::shared_ptr<SpillTransfer>>* const from = !reads_.empty()                               ? &reads_
                                                           : writes_.empty() || writing_ >= kMostWriting ? nullptr
                                                                                                         : &writes_;
  if (from == nullptr) return nullptr;
  std::shared_ptr<SpillTransfer> transfer = std::move(from->front());
  from->pop_front();
  writing_ += transfer->writes ? 1 : 0;
  return transfer;
}

void SpillQueue::work() {
  MutexLock lock(mutex_);
  for (;;) {
    std::shared_ptr<SpillTransfer> transfer = next();
    if (transfer == nullptr) {
      if (ends_ && reads_.empty() && writes_.empty()) return;
      has_work_.wait(lock);
      continue;
    }
    lock.unlock();
    carry_out(*transfer);
    lock.lock();
    writing_ -= transfer->writes ? 1 : 0;
    has_ended_.notify_all();
    has_work_.notify_all();
  }
}

void SpillQueue::carry_out(SpillTransfer& transfer) {
  int error = 0;
  if (transfer.writes) {
    transfer.checksum = file_->checksum(transfer.memory, transfer.bytes);
    error = file_->write(transfer.offset, transfer.memory, transfer.bytes);
  } else {
    error = file_->read(transfer.offset, transfer.memory, transfer.bytes);
    if (error == 0 && file_->checksum(transfer.memory, transfer.bytes) != transfer.checksum) error = kWrongChecksum;
  }
  transfer.error = error;
  transfer.state.store(error == 0 ? SpillTransfer::State::kDone : SpillTransfer::State::kFailed,
                       std::memory_order_release);
}

}  // namespace thermocline
