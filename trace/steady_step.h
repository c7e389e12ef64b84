// SPDX-License-Identifier: Apache-2.0
// The step that bounds describe: the duration of each operator, and when each buffer is needed.
//
// It is the first of the last two whole steps, the steady state of a training run; or the last step, if the file has
// fewer marks. This step and the one after it, if there is one, are the *window*.
//
// A buffer's contents are *wanted* from its first use to its last. Before each use that reads them there may be a
// *gap*: operators that do not use the buffer, so that it may be off the device. Contents that the next use overwrites
// without reading are not wanted before it, and nothing is wanted after the last use: an executor that knows this could
// drop them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "driver/units.h"
#include "trace/trace.h"

namespace thermocline {

struct StepUse {
  std::uint32_t op;  // index in the window
  bool reads;
  bool writes;
};

// A buffer that is alive in the window, at operators [begin, end).
struct StepBuffer {
  Bytes bytes = 0;     // of memory that it occupies
  Bytes contents = 0;  // bytes of these that cross the link when it is evicted or fetched
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
  bool is_from_before = false;  // alive when the window begins
  bool outlives_step = false;   // alive when the step ends
  std::vector<StepUse> uses;    // one per operator

  // The fraction of its memory that crosses the link.
  double density() const { return static_cast<double>(contents) / static_cast<double>(bytes); }
  // Part of the training state: every step finds it and leaves it.
  bool is_persistent() const { return is_from_before && outlives_step; }
  // Operators [wanted_from(i), uses[i].op] need the contents that use i finds.
  std::uint32_t wanted_from(std::size_t i) const;
};

struct SteadyStep {
  std::vector<double> seconds;      // per operator of the step
  std::vector<StepBuffer> buffers;  // of the window, in order of allocation
  std::uint32_t window_operators = 0;
  std::size_t window_steps = 0;
  double busiest_stream = 0;  // seconds
  bool is_single_stream = true;
  bool repeats = true;  // both steps of the window have the same number of operators

  std::uint32_t operators() const { return static_cast<std::uint32_t>(seconds.size()); }
  double compute_seconds() const;
};

// Buffers of at least `page_bytes` occupy whole pages, of which only the contents cross the link.
SteadyStep steady_step(const Trace& trace, const DeviceRates& rates, Bytes page_bytes = 1);

// The step with each operator replaced by two: one that takes its time, and one at its end that takes none. Both use
// its buffers, and the second writes. So an operator needs room for all of them until it ends, and nothing that it
// writes can be evicted before.
SteadyStep with_ends(const SteadyStep& step);

// Bytes per operator, added as ranges of operators.
class ByteProfile {
 public:
  explicit ByteProfile(std::size_t operators) : changes_(operators + 1) {}

  // Adds bytes at operators [first, end).
  void add(std::size_t first, std::size_t end, Bytes bytes);
  std::vector<Bytes> per_operator() const;

 private:
  std::vector<std::int64_t> changes_;
};

// Per operator of the window: bytes that are wanted. Buffers smaller than `smallest` that outlive steps always count.
std::vector<Bytes> wanted_bytes(const SteadyStep& step, Bytes smallest);
// Per operator of the window: bytes that every executor must have on the device, if buffers smaller than `smallest` are
// never evicted.
std::vector<Bytes> bound_bytes(const SteadyStep& step, Bytes smallest);

}  // namespace thermocline
