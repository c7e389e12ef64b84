// SPDX-License-Identifier: Apache-2.0
// Threads for the program's host functions. As on a device, a function runs on none of the program's own threads: it may
// wait for what the thread does next that makes the device go on. Most do not wait; so whoever begins one stays with it
// for a moment, and what a program observes is then as if it had run at once.
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

  // Begins the function, and waits for its end for at most 50 ms (kMostWait). `around` is called on its thread before it and, with
  // false, behind it.
  std::shared_ptr<HostCall> begin(std::function<void()> function, void (*around)(bool begins));
  static bool has_ended(const HostCall& call);

 private:
  struct Worker;

  void forget_thread_of_parent();

  std::shared_ptr<Worker> idle_;
  pid_t process_ = 0;  // whose thread that is: a forked child has none
};

}  // namespace simulator
