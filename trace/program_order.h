// SPDX-License-Identifier: Apache-2.0
// The event waits that a recorded program must have made between its streams. A trace gives program order only; a
// correct program made each operator wait for the operators of other streams that wrote what it uses, or used what it
// writes, and each free for every other stream's uses. With those waits and no others a replay leaves streams as free
// as they can have been.
//
// Per pair of streams the newest operation known to be ordered before is kept, so that a wait is asked for once.
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
  // `streams` and `buffers` number what the other calls name.
  ProgramOrder(const Driver& driver, std::vector<StreamHandle> streams, std::size_t buffers);

  // Before `stream` uses the buffer (gives it back).
  Status before_use(std::uint32_t stream, std::uint32_t buffer, bool writes);
  Status before_free(std::uint32_t stream, std::uint32_t buffer) { return before_use(stream, buffer, true); }

  // `stream` was handed the buffer; others have to wait for it to get there.
  void allocated(std::uint32_t stream, std::uint32_t buffer);
  // An operation was submitted; used() for each of its buffers follows.
  void submitted(std::uint32_t stream) { ++submitted_[stream]; }
  void used(std::uint32_t stream, std::uint32_t buffer, bool writes);
  // What was called `from` is called `to` from now on.
  void renamed(std::uint32_t from, std::uint32_t to);

 private:
  struct Use {
    std::uint32_t stream;
    std::uint64_t ordinal;
  };
  struct History {
    Use last_write{};
    std::vector<Use> reads;  // since then, the newest of each stream
  };

  Status wait(std::uint32_t waiter, const Use& use);

  const Driver& driver_;
  std::vector<StreamHandle> streams_;
  std::vector<EventOwner> events_;       // per stream, made when first needed
  std::vector<std::uint64_t> recorded_;  // operations and allocations that the stream's event stands behind
  std::vector<std::uint64_t> submitted_;
  std::vector<std::vector<std::uint64_t>> known_;  // [waiter][stream]
  std::vector<History> histories_;                 // per buffer; empty for a single stream
};

}  // namespace thermocline
