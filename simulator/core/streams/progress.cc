// SPDX-License-Identifier: Apache-2.0
#include "simulator/core/streams/progress.h"

#include <chrono>
#include <csignal>
#include <utility>

namespace simulator {
namespace {

constexpr std::chrono::milliseconds kSilence{5};

// Blocks signals in this thread: the program's signals are for its own threads. Synchronous faults are not blocked.
void leave_signals_alone() {
  sigset_t all;
  sigfillset(&all);
  for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT}) sigdelset(&all, fault);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
}

}  // namespace

Progress::Progress(std::mutex& lock, std::function<bool()> pending, std::function<void()> run)
    : lock_(lock), pending_(std::move(pending)), run_(std::move(run)) {}

void Progress::work_added() {
  if (stopping_) return;
  if (thread_ == nullptr) {
    thread_ = new std::thread([this] { loop(); });
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
  leave_signals_alone();
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
