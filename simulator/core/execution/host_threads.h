// SPDX-License-Identifier: Apache-2.0
// Threads for the program's host functions. As on a device, a function runs on none of the program's own threads,
// because it may wait for something that the calling thread does next. Most functions do not wait, so the caller waits
// a moment for the end of the function. The program then sees the same as if the function had run at once.
//
// Not thread-safe: guarded by the machine's lock. The functions themselves run without it.
#pragma once

#include <sys/types.h>
#include <functional>
#include <memory>

namespace simulator {

// A host function that has begun.
struct HostCall;

class HostThreads {
 public:
  HostThreads() = default;
  ~HostThreads();
  HostThreads(const HostThreads&) = delete;
  HostThreads& operator=(const HostThreads&) = delete;

  // Begins the function, and waits for its end for at most 50 ms (kMostWait). `around` is called on the function's
  // thread before it and, with false, after it.
  std::shared_ptr<HostCall> begin(std::function<void()> function, void (*around)(bool begins));
  static bool has_ended(const HostCall& call);

 private:
  struct Worker;

  void forget_thread_of_parent();

  std::shared_ptr<Worker> idle_;
  pid_t process_ = 0;  // the process of that thread: a forked child has none
};

}  // namespace simulator
