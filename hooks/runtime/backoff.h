// SPDX-License-Identifier: Apache-2.0
// Retries requests that the engine refused with Status::not_ready because streams are blocked. No lock is held in
// between: another thread, or another process, may write the value that the streams wait for. After `longest` without
// success, not counting the time slices of others, the result is out of memory: this very thread may be the one that would
// write the value next.
#pragma once

#include <chrono>
#include <optional>

#include "driver/status.h"
#include "offload/engine/engine.h"

namespace thermocline {

class Backoff {
 public:
  explicit Backoff(std::chrono::seconds longest = std::chrono::seconds(10)) : longest_(longest) {}
  // True: some time has passed, try again. False: the time is up; this is logged once.
  bool wait();

 private:
  std::chrono::seconds longest_;
  std::chrono::steady_clock::time_point end_{}, last_{};  // unset before the first wait
  std::chrono::microseconds pause_{50};
};

template <class Ask>
Status with_backoff(Ask ask, Backoff backoff = Backoff()) {
  Status status = ask();
  for (; status == Status::not_ready(); status = ask()) {
    if (!backoff.wait()) return Status::out_of_memory();
  }
  return status;
}

// Begins an operation with begin(again), and retries while streams are blocked; on success `out` has the operation.
// `again`: OperationInfo::again.
template <class Begin>
Status begin_with_backoff(bool again, Begin begin, std::optional<Operation>* out) {
  return with_backoff([&] {
    out->emplace(begin(again));
    const Status status = (*out)->status();
    if (!status.ok()) out->reset();
    again = true;
    return status;
  });
}

}  // namespace thermocline
