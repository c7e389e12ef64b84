// SPDX-License-Identifier: Apache-2.0
// The sequences of allocations and frees on which allocators are compared. They are the same on every machine: random
// numbers come from std::mt19937_64 without a distribution, because distributions differ between libraries.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "driver/units.h"

namespace thermocline::bench {

struct SequenceEvent {
  std::uint32_t slot;
  Bytes bytes;  // 0: the buffer in the slot is freed
};

struct Sequence {
  std::vector<SequenceEvent> events;
  std::size_t slots = 0;      // at most one live buffer each
  std::size_t warm_up = 0;    // events before the measured ones
  bool hands_over = false;    // a second thread frees, in turns with the one that allocates
  unsigned threads = 1;       // each plays all events at once with the others, with buffers and a stream of its own
  Bytes peak_live_bytes = 0;  // of one thread

  // The measured events that one unit of a result has: a pair of an allocation and a free, or one event of a recording.
  std::size_t per_unit = 2;
  std::size_t units() const { return (events.size() - warm_up) / per_unit; }
};

// `name` is one of
//   hit                     1 KiB over and over
//   churn-LIVE-LARGEST      one of LIVE buffers is replaced; sizes from 512 bytes to LARGEST, uniform in the logarithm
//   handed-over             1 KiB, freed by another thread, 256 at a time
//   two-threads-NAME        two threads do so, each for itself (not handed-over)
// or the path of a recorded trace, whose last step is repeated. `rounds`: how many pairs, or steps. False, with a
// message, if there is no such sequence.
bool make_sequence(const std::string& name, std::size_t rounds, Sequence* out, std::string* error);

}  // namespace thermocline::bench
