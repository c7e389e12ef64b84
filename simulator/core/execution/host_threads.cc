// SPDX-License-Identifier: Apache-2.0
#include "simulator/core/execution/host_threads.h"

#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "simulator/core/own_thread.h"

namespace simulator {
namespace {

// The caller that begins a function waits this long for its end once its thread runs: much longer than a function takes
// that sets a flag or copies a little, also on a busy machine.
constexpr std::chrono::milliseconds kMostWait{50};
// Before its thread runs, it waits up to this many times as long.
constexpr int kMostWaits = 200;

}  // namespace

struct HostCall {
  std::function<void()> function;
  void (*around)(bool begins) = nullptr;
  // Guarded by `mutex`.
  std::optional<std::chrono::steady_clock::time_point> began;
  bool ended = false;
  mutable std::mutex mutex;
  std::condition_variable end;

  void run() {
    {
      const std::lock_guard guard(mutex);
      began = std::chrono::steady_clock::now();
    }
    around(true);
    function();
    around(false);
    const std::lock_guard guard(mutex);
    ended = true;
    end.notify_all();
  }
  // With the mutex held.
  bool takes_long() const { return began && std::chrono::steady_clock::now() - *began >= kMostWait; }
};

// A thread that waits for one function after the other, until it is let go.
struct HostThreads::Worker {
  std::mutex mutex;
  std::condition_variable changed;
  std::shared_ptr<HostCall> next;
  bool let_go = false;

  void loop() {
    std::unique_lock guard(mutex);
    for (;;) {
      changed.wait(guard, [this] { return next != nullptr || let_go; });
      if (next == nullptr) return;
      const std::shared_ptr<HostCall> call = std::exchange(next, nullptr);
      guard.unlock();
      call->run();
      guard.lock();
    }
  }
  void give(std::shared_ptr<HostCall> call) {
    const std::lock_guard guard(mutex);
    next = std::move(call);
    changed.notify_one();
  }
  void end() {
    const std::lock_guard guard(mutex);
    let_go = true;
    changed.notify_one();
  }
};

HostThreads::~HostThreads() {
  if (process_ != getpid()) forget_thread_of_parent();
  if (idle_ != nullptr) idle_->end();
}

// In a forked child its locks may never be released, so it cannot even be destroyed.
void HostThreads::forget_thread_of_parent() {
  if (idle_ != nullptr) static_cast<void>(new std::shared_ptr<Worker>(std::move(idle_)));
  idle_ = nullptr;
}

std::shared_ptr<HostCall> HostThreads::begin(std::function<void()> function, void (*around)(bool begins)) {
  auto call = std::make_shared<HostCall>();
  call->function = std::move(function);
  call->around = around;
  if (process_ != getpid()) forget_thread_of_parent();
  if (idle_ == nullptr) {
    auto worker = std::make_shared<Worker>();
    try {
      with_signals_left_to_the_program([&] { return std::thread([worker] { worker->loop(); }); }).detach();
    } catch (const std::system_error&) {
      call->run();
      return call;
    }
    idle_ = std::move(worker);
    process_ = getpid();
  }
  idle_->give(call);
  std::unique_lock guard(call->mutex);
  for (int waits = 0; waits < kMostWaits && !call->takes_long(); ++waits) {
    if (call->end.wait_for(guard, kMostWait, [&] { return call->ended; })) return call;
  }
  // The function may take any time. Its thread ends with it.
  guard.unlock();
  idle_->end();
  idle_.reset();
  return call;
}

bool HostThreads::has_ended(const HostCall& call) {
  const std::lock_guard guard(call.mutex);
  return call.ended;
}

}  // namespace simulator
