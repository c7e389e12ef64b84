// SPDX-License-Identifier: Apache-2.0
// Runs a recorded program through the library itself, on the simulated device. There is no model of the allocator or of
// the policies here: the engine that hooks drive for a real program is driven by a trace's events instead, over the
// simulator's driver (trace/simulated_device.h), with tagged memory, so that no trace is too large for this machine.
//
// The program has no more order than the trace gives it: an operator waits for operators of other streams that wrote
// what it uses, or use what it writes, as the recorded program must have made it wait. The host never waits of its own
// accord. The engine learns of an operator what hooks could learn, unless `exact`: addresses without directions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "driver/units.h"
#include "offload/engine/engine.h"
#include "trace/repeat.h"
#include "trace/simulated_device.h"
#include "trace/trace.h"

namespace thermocline {

// Is told what is submitted, in program order. Times are the host's, in nanoseconds of the simulated clock.
class ReplayWatcher {
 public:
  virtual ~ReplayWatcher() = default;
  // `buffer` and `op` are the trace's indices.
  virtual void allocated(std::uint32_t buffer, DeviceAddress address, std::int64_t now) = 0;
  virtual void freed(std::uint32_t buffer, std::int64_t now) = 0;
  // What `produced` names is `carried` from now on.
  virtual void renamed(std::uint32_t produced, std::uint32_t carried) = 0;
  virtual void submitted(std::uint32_t op, std::uint32_t stream, const Engine& engine) = 0;
  virtual void step_ended() = 0;
};

// Stands between the engine and its driver, and is told when the engine is at work, so that it can say what the engine
// alone takes. On the thread that replays, but for planning, which makes no calls.
class EngineStopwatch {
 public:
  virtual ~EngineStopwatch() = default;
  // What the engine is to call in place of `device`; lives as long as this.
  virtual const Driver& driver(const Driver& device) = 0;
  virtual void engine_entered() = 0;
  virtual void engine_left() = 0;
  // The calls since the last of these were one operator's.
  virtual void operator_submitted(std::size_t step) = 0;
};

struct ReplayOptions {
  SimulatedDeviceOptions device;
  EngineOptions engine;
  bool exact = false;
  // What the engine is told of operators' durations: the trace's measured ones, else those that follow from these
  // rates. None: nothing but what was measured.
  std::optional<DeviceRates> rates;
  std::function<void(std::size_t step)> progress;  // before each step; may be empty
  ReplayWatcher* watcher = nullptr;
  EngineStopwatch* stopwatch = nullptr;
};

enum class ReplayOutcome { kOk, kOutOfMemory };

struct ReplayStep {
  double ms = 0;  // device time
  Bytes evicted_bytes = 0, restored_bytes = 0;
  std::uint64_t maps = 0, unmaps = 0;
  std::uint64_t plans = 0, divergences = 0;  // made, and left, while the step was submitted
  std::uint64_t recomputed_operations = 0, recomputed_ns = 0;
};

struct ReplayResult {
  ReplayOutcome outcome = ReplayOutcome::kOk;
  std::string report;             // who held what, when memory ran out
  std::vector<ReplayStep> steps;  // those that were submitted whole
  EngineStatistics statistics;
  Bytes peak_device_bytes = 0;   // the larger of what engine and device counted
  std::uint64_t checksum = 0;    // of everything computed, the final contents of live buffers included
  std::uint64_t races = 0;       // that the simulated device found, where it was asked to look
  double events_per_second = 0;  // real time
};

// False with a sentence in `reason` when the device can not be had or answered with anything but out of memory.
bool replay(const Trace& trace, const StepProgram& program, const ReplayOptions& options, ReplayResult* out,
            std::string* reason);

// Steps before the first one that ran under a plan from its beginning, and all behind it; none when there is no such
// step.
std::optional<std::size_t> learned_after_steps(const std::vector<ReplayStep>& steps);

// What ran again in a step, in the median of the same steps.
double median_recomputed_ms(const std::vector<ReplayStep>& steps, std::optional<std::size_t> learned_after);

// Of the steps after learning; of all but the first two while nothing is learned; of the last where there are no more.
double median_steady_ms(const std::vector<ReplayStep>& steps, std::optional<std::size_t> learned_after);

}  // namespace thermocline
