// SPDX-License-Identifier: Apache-2.0
// Works something out on a thread of its own, so that the thread that launches goes on meanwhile.
//
// What comes out depends on what was given to start() alone, and the caller decides where in the stream of operations
// it takes it: so decisions do not depend on how fast this thread was. Guarded by the engine's lock.
#pragma once

#include <functional>
#include <thread>
#include <utility>

#include "driver/check.h"

namespace thermocline {

// Starts `work`, in which no signal handler of the program's ever runs; where no thread can be had, calls it.
std::thread start_in_background(const std::function<void()>& work);

// The same; where no thread can be had, nothing is started and the result is no thread.
std::thread try_in_background(std::function<void()> work);

template <class Result>
class Background {
 public:
  Background() = default;
  // Waits for what nobody took.
  ~Background() { wait(); }
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;

  // What was begun before is given up, once it has ended. If `work` throws, the result is Result().
  template <class Work>
  void start(Work work) {
    wait();
    begun_ = true;
    result_ = {};
    thread_ = start_in_background([this, work = std::move(work)]() mutable {
      try {
        result_ = work();
      } catch (...) {
        result_ = {};
      }
    });
  }
  bool begun() const { return begun_; }
  // Waits for what was begun.
  Result take() {
    THERMOCLINE_CHECK(begun_, "A result is taken once, after it was begun.");
    wait();
    begun_ = false;
    return std::exchange(result_, {});
  }

 private:
  void wait() {
    if (thread_.joinable()) thread_.join();
  }

  std::thread thread_;
  Result result_{};
  bool begun_ = false;
};

}  // namespace thermocline
