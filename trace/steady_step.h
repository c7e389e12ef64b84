// SPDX-License-Identifier: Apache-2.0
// The step that bounds speak of, as they need it: what each operator takes, and when each buffer is wanted.
//
// It is the first of the last two whole steps, the steady state of a training run; of a file with fewer marks, the
// last. It and the step behind it, if there is one, are the *window*.
//
// A buffer's contents are *wanted* from its first use to its last. Before each use that reads them there may be a
// *gap*: operators that do without the buffer, so that it may be elsewhere. Contents that the next use overwrites
// without reading are not wanted before it, nor is anything behind the last use: whoever knew could drop them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "driver/units.h"
#include "trace/trace.h"

namespace thermocline {

struct StepUse {
  std::uint32_t op;  // of the window
  bool reads;
  bool writes;
};

// Alive in the window, at operators [begin, end) of it.
struct StepBuffer {
  Bytes bytes = 0;     // of memory
  Bytes contents = 0;  // of these: what crosses the link when it leaves or returns
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
  bool is_from_before = false;  // alive when the window begins
  bool outlives_step = false;   // alive when the step ends
  std::vector<StepUse> uses;    // one an operator

  // Of the state of the training, which every step finds and leaves.
  // Of each byte of memory, the part that crosses the link.
  double density() const { return static_cast<double>(contents) / static_cast<double>(bytes); }
  bool is_persistent() const { return is_from_before && outlives_step; }
  // Operators [wanted_from(i), uses[i].op] want what use i finds.
  std::uint32_t wanted_from(std::size_t i) const;
};

struct SteadyStep {
  std::vector<double> seconds;      // per operator of the step
  std::vector<StepBuffer> buffers;  // of the window, in order of allocation
  std::uint32_t window_operators = 0;
  std::size_t window_steps = 0;
  double busiest_stream = 0;  // seconds
  bool is_single_stream = true;
  bool repeats = true;  // the window's steps have the same number of operators

  std::uint32_t operators() const { return static_cast<std::uint32_t>(seconds.size()); }
  double compute_seconds() const;
};

// Buffers of `page_bytes` and more occupy whole pages, of which only the contents cross the link.
SteadyStep steady_step(const Trace& trace, const DeviceRates& rates, Bytes page_bytes = 1);

// Bytes per operator, given as stretches of operators.
class ByteProfile {
 public:
  explicit ByteProfile(std::size_t operators) : changes_(operators + 1) {}

  // At operators [first, end).
  void add(std::size_t first, std::size_t end, Bytes bytes);
  std::vector<Bytes> per_operator() const;

 private:
  std::vector<std::int64_t> changes_;
};

// Per operator of the window: bytes that are wanted, where those smaller than `smallest` that outlive steps always are.
std::vector<Bytes> wanted_bytes(const SteadyStep& step, Bytes smallest);
// Per operator of the window: bytes that no executor can have elsewhere, if those smaller than `smallest` never leave.
std::vector<Bytes> bound_bytes(const SteadyStep& step, Bytes smallest);

}  // namespace thermocline
