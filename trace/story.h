// SPDX-License-Identifier: Apache-2.0
// What happened in a replay, on the device's time line: when each operator ran and each copy, which buffer a copy
// moved, and when each buffer was alive. For pictures and for other tools; nothing here decides anything.
//
// Operators and copies come from the simulated device's timeline, buffers from what the replay submitted. A buffer's
// life begins with the operator behind its allocation and ends with the one before its release, as the program's order
// has it: on one stream that is exact. Buffers without bytes are left out.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "trace/replay.h"

namespace thermocline {

inline constexpr std::uint32_t kNobody = std::numeric_limits<std::uint32_t>::max();

struct StoryOperator {
  std::uint32_t name;    // index of the trace's names
  std::uint32_t stream;  // index of the trace's streams
  double begin_us, end_us;
  // When it had been submitted: on the device, waiting elsewhere, and on the host.
  Bytes device_bytes, nonresident_bytes, host_bytes;
};

struct StoryBuffer {
  std::uint64_t id;  // as in the file; a repeated step's buffers have those of the step that repeats
  std::uint64_t address;
  Bytes bytes;
  std::uint32_t tag;  // index of the trace's tags
  double begin_us, end_us;
  std::uint32_t producer;  // operator: the first to write it; kNobody: none did, or it was there before all of them
  std::vector<std::uint32_t> uses;  // operators, in order
  bool outlives_window;             // alive when everything ended
};

struct StoryCopy {
  bool to_host;
  double begin_us, end_us;
  Bytes bytes;
  std::uint32_t buffer;    // kNobody: of no buffer that was alive
  std::uint32_t restores;  // index of the copy to the host whose bytes come back; kNobody for those to the host
  const char* reason;      // of the eviction or the fetch (offload/movement.h)
};

// A buffer begins or ends. In program order, which is an order in which no address is taken twice; times do not fall.
struct StoryChange {
  double at_us;
  bool begins;
  std::uint32_t buffer;
};

struct Story {
  std::vector<StoryOperator> operators;  // in program order
  std::vector<StoryBuffer> buffers;      // in order of allocation
  std::vector<StoryChange> changes;
  std::vector<StoryCopy> copies;         // in order of their beginnings
  std::vector<std::uint32_t> step_ends;  // operators before each
  std::vector<double> step_end_us;       // when the last operator of each had ended
  ReplayResult result;
};

// Replays with `options` (whose watchers and timeline are taken) and tells. Needs about 250 bytes of memory an
// operation.
bool tell_story(const Trace& trace, const StepProgram& program, ReplayOptions options, Story* out, std::string* reason);

}  // namespace thermocline
