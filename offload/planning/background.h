// SPDX-License-Identifier: Apache-2.0
// Computes something on a thread of its own, so that the thread that launches kernels can continue.
//
// The result depends only on what was passed to start(), and the caller decides at which point in the stream of
// operations it takes the result. So decisions do not depend on the speed of this thread. Guarded by the engine's lock.
#pragma once

#include <functional>
#include <thread>
#include <utility>

#include "driver/background_thread.h"
#include "driver/check.h"

namespace thermocline {

// Runs `work` on a new thread, as try_in_background does; in the calling thread if none can be created.
std::thread start_in_background(const std::function<void()>& work);

template <class Result>
class Background {
 public:
  Background() = default;
  // Waits for a computation whose result was not taken.
  ~Background() { wait(); }
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;

  // An earlier computation is discarded when it has ended. If `work` throws, the result is Result().
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
  // Waits for the current computation.
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
