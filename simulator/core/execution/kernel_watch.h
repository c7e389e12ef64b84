// SPDX-License-Identifier: Apache-2.0
// Sees some of the addresses that a kernel's host implementation accesses: takes access to a few pages of each of its
// buffers away while it runs, and gives it back at the first fault in each: the first page, the last, and two between
// them that `salt` chooses. What is reported was certainly accessed; what is not may have been.
//
// Contract: one at a time, while kernels run under run_guarded(), which installs the handler. Where somebody else has
// taken the handler of SIGSEGV since, nothing is watched. Only whole pages of the system inside a buffer are watched.
#pragma once

#include <atomic>
#include <span>
#include <vector>

#include "simulator/core/memory/buffers.h"

namespace simulator {

// One address that a kernel certainly accessed.
struct KernelAccess {
  Address address = 0;
  bool writes = false;
};

class KernelWatch {
 public:
  // All are readable and writable.
  KernelWatch(std::span<const Buffer> buffers, std::uint64_t salt);
  ~KernelWatch();
  KernelWatch(const KernelWatch&) = delete;
  KernelWatch& operator=(const KernelWatch&) = delete;

  static bool can_watch(const Buffer& buffer);

  std::span<const KernelAccess> accesses() const { return {accesses_.data(), count_}; }

  // In a signal handler, on any thread: true when the access may be tried again.
  static bool on_fault(Address at);

 private:
  enum class State : std::uint8_t { kClosed, kReadable, kOpen };
  struct Page {
    Address begin = 0;
    State state = State::kClosed;
    std::size_t read = 0;  // where its first read stands in accesses_
  };

  void close(const Buffer& buffer, std::uint64_t salt);
  bool open(Address at);

  static std::atomic<KernelWatch*> active_;

  std::vector<Page> pages_;
  std::vector<KernelAccess> accesses_;  // room for all: a handler must not allocate
  std::size_t count_ = 0;
  std::atomic_flag busy_;
};

}  // namespace simulator
