// SPDX-License-Identifier: Apache-2.0
#include "simulator/core/streams/progress.h"

#include <chrono>
#include <utility>

#include "simulator/core/own_thread.h"

namespace simulator {
namespace {

constexpr std::chrono::milliseconds kSilence{5};

}  // namespace

Progress::Progress(std::mutex& lock, std::function<bool()> pending, std::function<void()> run)
    : lock_(lock), pending_(std::move(pending)), run_(std::move(run)) {}

void Progress::work_added() {
  if (stopping_) return;
  if (thread_ == nullptr) {
    thread_ = with_signals_left_to_the_program([this] { return new std::thread([this] { loop(); }); });
  } else if (waiting_) {
    wake_.notify_one();
  }
}

void Progress::forked() {
  gone_ = true;
  stopping_ = true;
}

void Progress::stop() {
  std::thread* thread = nullptr;
  {
    const std::lock_guard guard(lock_);
    if (gone_) return;
    stopping_ = true;
    thread = std::exchange(thread_, nullptr);
    wake_.notify_one();
  }
  if (thread == nullptr) return;
  if (thread->get_id() == std::this_thread::get_id()) {
    thread->detach();
  } else {
    thread->join();
  }
  delete thread;
}

void Progress::loop() {
  std::unique_lock guard(lock_);
  while (!stopping_) {
    waiting_ = true;
    wake_.wait(guard, [this] { return stopping_ || pending_(); });
    waiting_ = false;
    const std::uint64_t heard = signs_;
    wake_.wait_for(guard, kSilence, [this] { return stopping_; });
    if (!stopping_ && heard == signs_ && pending_()) run_();
  }
}

}  // namespace simulator
