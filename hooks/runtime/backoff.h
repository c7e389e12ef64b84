// SPDX-License-Identifier: Apache-2.0
// What can not be had before streams have gone on that stand behind values (Status::not_ready of an engine) is asked
// for again and again, with no lock held in between: another thread, or another process, may write the value. Where
// nobody does for so long it is out of memory, for it may be this very thread that would do so next.
#pragma once

#include <chrono>
#include <optional>

#include "driver/status.h"
#include "offload/engine/engine.h"

namespace thermocline {

class Backoff {
 public:
  // True: some time has passed. False: it has been enough, and that is said once.
  bool wait();

 private:
  std::chrono::steady_clock::time_point end_{};  // none before the first wait
  std::chrono::microseconds pause_{50};
};

template <class Ask>
Status patiently(Ask ask) {
  Status status = ask();
  for (Backoff backoff; status == Status::not_ready(); status = ask()) {
    if (!backoff.wait()) return Status::out_of_memory();
  }
  return status;
}

// The scope of an operation that begin(info) opens: `out` has it where the answer is ok.
template <class Begin>
Status begin_patiently(OperationInfo info, Begin begin, std::optional<Operation>* out) {
  return patiently([&] {
    out->emplace(begin(info));
    const Status status = (*out)->status();
    if (!status.ok()) out->reset();
    info.again = true;
    return status;
  });
}

}  // namespace thermocline
