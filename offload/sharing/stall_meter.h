// SPDX-License-Identifier: Apache-2.0
// Measures for which part of the time a program's operations run, and wait for the library: for their own copies, and
// for room. Timed events are recorded where an operation's preparation begins, when it may run, and behind it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "driver/driver.h"
#include "driver/units.h"
#include "offload/residency/link_meter.h"
#include "offload/sharing/stall_times.h"

namespace thermocline {

// Guarded by the engine's lock.
class StallMeter {
 public:
  explicit StallMeter(const Driver& driver) : driver_(driver) {}
  ~StallMeter();
  StallMeter(const StallMeter&) = delete;
  StallMeter& operator=(const StallMeter&) = delete;

  // Call these before an operation is prepared, when it may run, and when it has been submitted. The stream must not be
  // capturing. False: it is not measured, as another thread's operation is being prepared, or too many are in flight.
  // `computes`: its run counts as computing. A program's own copy to or from the host waits for the link.
  bool begin(StreamHandle stream, bool computes);
  void may_run(StreamHandle stream);
  void submitted(StreamHandle stream);
  // The operation that was begun will not run.
  void abandon();
  // An operation that may run, measured or not, is not submitted. One that another thread is preparing goes on.
  void not_submitted() {
    if (open_.may_run) abandon();
  }
  // The time until the next operation does not count.
  void pause() { follows_ = false; }

  // Evaluates the operations that have ended by now; never blocks. `out_bytes`, `in_bytes`: copied so far.
  const StallTimes& times(Bytes out_bytes, Bytes in_bytes, const Link& link);

 private:
  // In flight; with more, time is not measured.
  static constexpr std::size_t kMostPending = 64;

  struct Sample {
    EventHandle begins{}, runs{}, ends{};
    bool follows = false;  // the time since the one before counts
    bool computes = true;
    bool may_run = false;
  };
  bool take_event(EventHandle* out);
  void give_event(EventHandle event);
  void give_events(const Sample& sample);
  void collect();

  const Driver& driver_;
  std::vector<Sample> pending_;  // in order of submission
  std::vector<EventHandle> spare_;
  Sample open_;  // begun and not ended; valid while it has events
  // The last sample that was evaluated.
  EventHandle last_begins_{};
  std::uint64_t last_stall_ns_ = 0, last_run_ns_ = 0;
  bool follows_ = false;                // nothing was left out since the last sample
  Bytes out_bytes_ = 0, in_bytes_ = 0;  // as of the last times()
  StallTimes times_;
};

}  // namespace thermocline
