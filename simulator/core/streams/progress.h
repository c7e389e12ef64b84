// SPDX-License-Identifier: Apache-2.0
// The thread that lets pending work happen when the host has been silent: a program may wait for a host function's flag
// without ever calling the driver. Effects happen early then; times and order on the time line stay what they would
// have been.
//
// The thread is made with the first work, holds the machine's lock whenever it looks at anything, and ends in stop().
// In a forked child it does not exist and is not made again.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>

namespace simulator {

class Progress {
 public:
  // `pending` and `run` are called with `lock` held.
  Progress(std::mutex& lock, std::function<bool()> pending, std::function<void()> run);

  // All but stop(): with the lock held.
  void sign_of_life() { ++signs_; }
  std::uint64_t signs() const { return signs_; }
  void work_added();
  void forked();

  // Without the lock. Waits for the thread, unless it is the one that calls.
  void stop();

 private:
  void loop();

  std::mutex& lock_;
  const std::function<bool()> pending_;
  const std::function<void()> run_;
  std::condition_variable wake_;
  std::thread* thread_ = nullptr;  // by pointer: a forked child must not destroy what it has not
  bool gone_ = false;              // in such a child
  bool waiting_ = false;           // for work
  bool stopping_ = false;
  std::uint64_t signs_ = 0;
};

}  // namespace simulator
