// SPDX-License-Identifier: Apache-2.0
// Large transfers by io_uring: several pieces of one are with the disk at a time. One thread at a time.
#pragma once

#include <memory>

#include "driver/units.h"

namespace thermocline {

class Ring {
 public:
  // Null where it is not permitted (seccomp, kernel.io_uring_disabled) or not there; `error`: a number of errno.
  static std::unique_ptr<Ring> create(int* error);
  ~Ring();
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;

  // Blocks until all of it has been transferred, or nothing more of it will be. 0, or a number of errno; the ring is
  // not used again then.
  int transfer(int file, bool writes, Bytes offset, void* memory, Bytes bytes);

 private:
  struct State;
  explicit Ring(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace thermocline
