// SPDX-License-Identifier: Apache-2.0
// Detects some of the addresses that a kernel's host implementation accesses. While it runs, access to a few pages of
// each of its buffers is removed, and restored at the first fault in each page: the first page, the last one, and two
// in between that `salt` selects. A reported access has certainly happened; others may have happened too.
//
// Contract: one object at a time, while kernels run under run_guarded(), which installs the handler. If somebody else
// has replaced the SIGSEGV handler since, nothing is watched. Only whole system pages inside a buffer are watched.
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
  // All buffers must be readable and writable.
  KernelWatch(std::span<const Buffer> buffers, std::uint64_t salt);
  ~KernelWatch();
  KernelWatch(const KernelWatch&) = delete;
  KernelWatch& operator=(const KernelWatch&) = delete;

  static bool can_watch(const Buffer& buffer);

  std::span<const KernelAccess> accesses() const { return {accesses_.data(), count_}; }

  // Called in a signal handler, on any thread: true if the access can be repeated.
  static bool on_fault(Address at);

 private:
  enum class State : std::uint8_t { kClosed, kReadable, kOpen };
  struct Page {
    Address begin = 0;
    State state = State::kClosed;
    std::size_t read = 0;  // index in accesses_ of its first read
  };

  void close(const Buffer& buffer, std::uint64_t salt);
  bool open(Address at);

  static std::atomic<KernelWatch*> active_;

  std::vector<Page> pages_;
  std::vector<KernelAccess> accesses_;  // with all capacity reserved: a signal handler must not allocate
  std::size_t count_ = 0;
  std::atomic_flag busy_;
};

}  // namespace simulator
