// SPDX-License-Identifier: Apache-2.0
// One process's part in the time slices of a shared device (slice_policy.h): finds out whether it thrashes, takes its
// slices, and chooses how long they are.
//
// A slice is long enough that waiting for what the others have displaced is a small part of it, as measured in the one
// before, but never longer than `longest_ns`. If slices do not get more done than there was without them, the process
// stops taking part for a while.
//
// Reads no clock: the caller passes the time.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "offload/sharing/slice_policy.h"
#include "offload/sharing/stall_times.h"

namespace thermocline {

class SliceWatch {
 public:
  // A slice is this many times as long as the wait in the one before.
  static constexpr std::uint64_t kTimesTheWait = 20;
  static constexpr std::uint64_t kShortestNs = 200'000'000;
  // The time that is measured until a process counts as waiting; and how often slices are tried anew, in longest slices.
  static constexpr std::uint64_t kWindowNs = 500'000'000;
  static constexpr std::uint64_t kMarkedFor = 20;

  // 0: it takes no slices.
  explicit SliceWatch(std::uint64_t longest_ns) : longest_ns_(longest_ns) {}

  // `all`: as the ledger shows them, `self` included. `lacks`: the active processes want more memory than there is.
  // Returns what this process has to write to its record now.
  SliceRecord look(std::uint64_t now_ns, const StallTimes& times, std::span<const SliceSharer> all, std::size_t self,
                   bool lacks);
  // Another process has the slice, as of the last look: operations have to wait.
  bool is_out_of_turn() const { return out_of_turn_; }
  const SliceRecord& record() const { return own_; }

 private:
  static constexpr unsigned kMostInVain = 2;

  void measure(std::uint64_t now_ns, const StallTimes& times);
  void take_part(std::uint64_t now_ns, std::uint32_t computed_permille);
  void begin_slice(std::uint64_t now_ns, std::span<const SliceSharer> all, std::size_t self);
  void slice_ended(std::uint64_t now_ns, std::uint64_t stalled_ns);

  const std::uint64_t longest_ns_;
  SliceRecord own_;
  bool out_of_turn_ = false;
  bool has_slice_ = false;                // as of the last look
  std::optional<StallTimes> begun_with_;  // of the measurement, or of the slice, that is under way
  // The part of the time for which the device computed, when it began to take part.
  std::uint32_t computed_before_ = 0;
  std::uint64_t wanted_ns_ = 0;      // the length of a slice, before weights and limits
  unsigned in_vain_ = 0;             // slices in a row that got no more done
  std::uint64_t not_before_ns_ = 0;  // it takes no part until then
  std::uint64_t rests_ns_ = 0;       // for so long the last time
};

}  // namespace thermocline
