// SPDX-License-Identifier: Apache-2.0
// Large transfers with io_uring: the disk works on several pieces of a transfer at a time. One thread at a time.
#pragma once

#include <memory>

#include "driver/units.h"

namespace thermocline {

class Ring {
 public:
  // Null if io_uring is forbidden (seccomp, kernel.io_uring_disabled) or not available; `error`: a value of errno.
  static std::unique_ptr<Ring> create(int* error);
  ~Ring();
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;

  // Blocks until all of it has been transferred, or no more of it will be. Returns 0, or a value of errno: then the
  // ring is not to be used again.
  int transfer(int file, bool writes, Bytes offset, void* memory, Bytes bytes);

 private:
  struct State;
  explicit Ring(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace thermocline
