// SPDX-License-Identifier: Apache-2.0
// Recreates the event waits that a recorded program must have made between its streams. A trace gives program order
// only. A correct program made each operator wait for operators of other streams that wrote what it uses, or used what
// it writes, and made each free wait for the uses on all other streams. A replay with exactly these waits leaves the
// streams as independent as they can have been.
//
// For each pair of streams the newest operation known to be ordered is stored, so that no wait is made twice.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "driver/driver.h"
#include "driver/owned.h"
#include "driver/status.h"

namespace thermocline {

class ProgramOrder {
 public:
  // `streams` and `buffers` give the meaning of the numbers in the other calls.
  ProgramOrder(const Driver& driver, std::vector<StreamHandle> streams, std::size_t buffers);

  // Called before `stream` uses or frees the buffer.
  Status before_use(std::uint32_t stream, std::uint32_t buffer, bool writes);
  Status before_free(std::uint32_t stream, std::uint32_t buffer) { return before_use(stream, buffer, true); }

  // `stream` was given the buffer; other streams must wait for that point before they use it.
  void allocated(std::uint32_t stream, std::uint32_t buffer);
  // An operation was submitted; a call of used() for each of its buffers must follow.
  void submitted(std::uint32_t stream) { ++submitted_[stream]; }
  void used(std::uint32_t stream, std::uint32_t buffer, bool writes);
  // The buffer with number `from` has number `to` from now on.
  void renamed(std::uint32_t from, std::uint32_t to);

 private:
  struct Use {
    std::uint32_t stream;
    std::uint64_t ordinal;
  };
  struct History {
    Use last_write{};
    std::vector<Use> reads;  // since the last write: the newest of each stream
  };

  Status wait(std::uint32_t waiter, const Use& use);

  const Driver& driver_;
  std::vector<StreamHandle> streams_;
  std::vector<EventOwner> events_;       // per stream, created on first use
  std::vector<std::uint64_t> recorded_;  // per stream: operations and allocations before its event
  std::vector<std::uint64_t> submitted_;
  std::vector<std::vector<std::uint64_t>> known_;  // [waiter][stream]: newest operation ordered before
  std::vector<History> histories_;                 // per buffer; empty for a single stream
};

}  // namespace thermocline
