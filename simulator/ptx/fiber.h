// SPDX-License-Identifier: Apache-2.0
// Fibers: separate stacks between which one thread of the host switches.
//
// Contract: all switches happen on one thread, from the scheduler to a fiber and back. A fiber that is not finished may
// be abandoned: nothing on its stack is destroyed, so objects there must not own anything.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace simulator::ptx {

// Stacks of one size, with an inaccessible page below each. They are kept and reused.
class Stacks {
 public:
  explicit Stacks(std::size_t bytes);
  ~Stacks();
  Stacks(const Stacks&) = delete;
  Stacks& operator=(const Stacks&) = delete;

  std::size_t bytes() const { return bytes_; }
  // False: not enough memory.
  bool provide(std::size_t count);
  std::uint64_t low(std::size_t index) const { return stacks_[index]; }
  // At different offsets within a page, or all stacks would compete for a few sets of the processor's caches.
  std::uint64_t high(std::size_t index) const { return stacks_[index] + bytes_ - index % 61 * 64; }

 private:
  std::size_t bytes_;
  std::vector<std::uint64_t> stacks_;
};

class Fiber {
 public:
  using Body = void (*)(void*);
  // The body begins at the next resume().
  void prepare(std::uint64_t stack_high, Body body, void* data);
  // Switches to the fiber; returns when it pauses. The body never returns: it pauses for the last time.
  void resume();
  // Called in the fiber; returns to resume().
  void pause();

 private:
  static void start(Fiber* self);

  void* own_ = nullptr;  // saved stack pointers of both sides
  void* scheduler_ = nullptr;
  Body body_ = nullptr;
  void* data_ = nullptr;
};

}  // namespace simulator::ptx
