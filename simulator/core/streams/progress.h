// SPDX-License-Identifier: Apache-2.0
// The thread that executes pending work when the host has been silent: a program may wait for a flag that a host
// function sets, without ever calling the driver. Effects then happen early; times and order on the time line stay what
// they would have been.
//
// The thread is created with the first work, holds the machine's lock whenever it reads any state, and ends in stop().
// In a forked child it does not exist and is not created again.
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

  // All functions except stop() must be called with the lock held.
  void sign_of_life() { ++signs_; }
  std::uint64_t signs() const { return signs_; }
  void work_added();
  void forked();

  // Called without the lock. Waits for the thread, unless it is the calling one.
  void stop();

 private:
  void loop();

  std::mutex& lock_;
  const std::function<bool()> pending_;
  const std::function<void()> run_;
  std::condition_variable wake_;
  std::thread* thread_ = nullptr;  // a pointer, because a forked child must not destroy a thread that it does not have
  bool gone_ = false;              // this is a forked child
  bool waiting_ = false;           // for work
  bool stopping_ = false;
  std::uint64_t signs_ = 0;
};

}  // namespace simulator
