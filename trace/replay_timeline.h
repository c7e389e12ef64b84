// SPDX-License-Identifier: Apache-2.0
// The timeline of a replay, in the device's time: when each operator and each copy ran, which buffer a copy moved, and
// when each buffer was alive. For diagrams and other tools; nothing here makes decisions.
//
// Operators and copies come from the simulated device's timeline, buffers from what the replay submitted. A buffer's
// life begins with the operator after its allocation and ends with the one before its release, in program order; with
// one stream that is exact. Buffers of no bytes are left out.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "trace/replay.h"

namespace thermocline {

inline constexpr std::uint32_t kNoIndex = std::numeric_limits<std::uint32_t>::max();

struct TimelineOperator {
  std::uint32_t op;      // index into the trace's operators
  std::uint32_t stream;  // index into the trace's streams
  double begin_us, end_us;
  // The state after its submission: bytes on the device, non-resident bytes, the dropped ones among these, and bytes on
  // the host.
  Bytes device_bytes, nonresident_bytes, dropped_bytes, host_bytes;
};

struct TimelineBuffer {
  std::uint64_t id;  // as in the file; buffers of a repeated step have the ids of the original step
  std::uint64_t address;
  Bytes bytes;
  std::uint32_t tag;  // index into the trace's tags
  double begin_us, end_us;
  std::uint32_t producer;           // the first operator to write it; kNoIndex: none, or it existed before all of them
  std::vector<std::uint32_t> uses;  // operators, in order
  bool outlives_window;             // alive at the end
};

struct TimelineCopy {
  bool to_host;
  double begin_us, end_us;
  Bytes bytes;
  std::uint32_t buffer;  // kNoIndex: no live buffer
  std::uint32_t
      restores;        // for a copy to the device: index of the copy to the host that saved the bytes; else kNoIndex
  const char* reason;  // of the eviction or the fetch (offload/movement.h)
};

// Contents that were dropped without a copy.
struct TimelineDrop {
  double begin_us;         // when the operator after which they were dropped had ended
  double end_us;           // when they had been recomputed; otherwise, when they were not needed any more
  Bytes bytes;             // whole pages
  std::uint32_t buffer;    // kNoIndex: no live buffer
  std::uint32_t after;     // operator
  std::uint32_t returned;  // index into recomputations; kNoIndex: overwritten or freed before being needed
};

// Consecutive operators that ran again, to make the contents of one or more drops.
struct TimelineRecomputation {
  const char* reason;                // offload/movement.h
  std::uint32_t before;              // the operator before which they ran; if there is none, the number of operators
  std::uint32_t begin, end;          // into reruns
  std::vector<std::uint32_t> drops;  // drops that end with it
};

struct TimelineRerun {
  std::uint32_t op;      // index into the trace's operators
  std::uint32_t stream;  // index into the trace's streams
  double begin_us, end_us;
  std::uint32_t recomputation;
};

// The beginning or end of a buffer's life. In program order, in which no address is used twice at once; times do not
// decrease.
struct TimelineChange {
  double at_us;
  bool begins;
  std::uint32_t buffer;
};

struct ReplayTimeline {
  std::vector<TimelineOperator> operators;  // in program order
  std::vector<TimelineBuffer> buffers;      // in order of allocation
  std::vector<TimelineChange> changes;
  std::vector<TimelineCopy> copies;  // in order of their beginnings
  std::vector<TimelineDrop> drops;   // in program order, as the next two
  std::vector<TimelineRecomputation> recomputations;
  std::vector<TimelineRerun> reruns;
  std::vector<std::uint32_t> step_ends;  // number of operators before each
  std::vector<double> step_end_us;       // when the last operator of each step had ended
  ReplayResult result;
};

// Replays with `options` (whose watchers and timeline are replaced) and fills `out`. Needs about 250 bytes of memory
// per operation.
bool replay_with_timeline(const Trace& trace, const StepProgram& program, ReplayOptions options, ReplayTimeline* out,
                          std::string* reason);

}  // namespace thermocline
