// SPDX-License-Identifier: Apache-2.0
// Stacks of their own that one thread of the host switches between.
//
// Contract: all switches happen on one thread, from the scheduler to a fiber and back. A fiber that is not finished may
// be given up: nothing on its stack is destroyed, so nothing there may own anything.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace simulator::ptx {

// Stacks of one size, with an inaccessible page below each. They are kept and used again.
class Stacks {
 public:
  explicit Stacks(std::size_t bytes);
  ~Stacks();
  Stacks(const Stacks&) = delete;
  Stacks& operator=(const Stacks&) = delete;

  std::size_t bytes() const { return bytes_; }
  // False: no room.
  bool provide(std::size_t count);
  std::uint64_t low(std::size_t index) const { return stacks_[index]; }
  // Not at the same place of each page, or all stacks would share a few lines of the processor's caches.
  std::uint64_t high(std::size_t index) const { return stacks_[index] + bytes_ - index % 61 * 64; }

 private:
  std::size_t bytes_;
  std::vector<std::uint64_t> stacks_;
};

class Fiber {
 public:
  using Body = void (*)(void*);
  // Begins at the next resume().
  void prepare(std::uint64_t stack_high, Body body, void* data);
  // To the fiber; returns when it pauses. The body never returns: it pauses for good.
  void resume();
  // From within, back to resume().
  void pause();

 private:
  static void start(Fiber* self);

  void* own_ = nullptr;  // stack pointers, where each side stands
  void* scheduler_ = nullptr;
  Body body_ = nullptr;
  void* data_ = nullptr;
};

}  // namespace simulator::ptx
