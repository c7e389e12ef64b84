// SPDX-License-Identifier: Apache-2.0
// Runs a recorded program through the library itself, on the simulated device. This is no model of the allocator or the
// policies: a trace's events drive the same engine that hooks drive for a real program, over the simulator's driver
// (trace/simulated_device.h). Memory is tagged instead of holding bytes, so that no trace is too large for this
// machine.
//
// Operations have only the order that the trace implies: an operator waits for operators of other streams that wrote
// what it uses, or use what it writes, as the recorded program must have made it wait. The host never waits on its own.
// The engine is told of an operator what hooks would know (addresses without directions), unless `exact`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "driver/page_size.h"
#include "driver/units.h"
#include "offload/engine/engine.h"
#include "trace/repeat.h"
#include "trace/simulated_device.h"
#include "trace/trace.h"

namespace thermocline {

// Notified of all submissions, in program order. Times are the host's, in nanoseconds of the simulated clock.
class ReplayWatcher {
 public:
  virtual ~ReplayWatcher() = default;
  // `buffer` and `op` are indices into the trace.
  virtual void allocated(std::uint32_t buffer, DeviceAddress address, std::int64_t now) = 0;
  virtual void freed(std::uint32_t buffer, std::int64_t now) = 0;
  // The buffer `produced` has the index `carried` from now on.
  virtual void renamed(std::uint32_t produced, std::uint32_t carried) = 0;
  virtual void submitted(std::uint32_t op, std::uint32_t stream, const Engine& engine) = 0;
  virtual void step_ended() = 0;
  // The operator `op` was submitted once more, before the one that is being submitted.
  // `ordinal`: the number of its first launch on the device.
  virtual void ran_again(std::uint32_t /*op*/, std::uint32_t /*stream*/, std::uint64_t /*ordinal*/) {}
};

// Sits between the engine and its driver, and is notified when the engine is working, to measure the engine's own time.
// Called on the replay's thread, except for planning, which makes no calls.
class EngineStopwatch {
 public:
  virtual ~EngineStopwatch() = default;
  // The driver that the engine uses in place of `device`; valid as long as this object.
  virtual const Driver& driver(const Driver& device) = 0;
  virtual void engine_entered() = 0;
  virtual void engine_left() = 0;
  // All calls since the last of these belonged to one operator.
  virtual void operator_submitted(std::size_t step) = 0;
};

struct ReplayOptions {
  SimulatedDeviceOptions device;
  // On the yardstick a call for many mappings costs as much as for one: the smallest pages are best there.
  EngineOptions engine{.page_bytes = kDefaultPageBytes};
  bool exact = false;
  // The operators' durations for the engine: the trace's measured ones, else those that follow from these rates. If
  // unset, the engine gets only measured durations.
  std::optional<DeviceRates> rates;
  std::function<void(std::size_t step)> progress;  // called before each step; may be empty
  ReplayWatcher* watcher = nullptr;
  EngineStopwatch* stopwatch = nullptr;
};

enum class ReplayOutcome { kOk, kOutOfMemory };

struct ReplayStep {
  double ms = 0;  // device time
  Bytes evicted_bytes = 0, restored_bytes = 0;
  std::uint64_t maps = 0, unmaps = 0;
  std::uint64_t plans = 0, divergences = 0;  // plans made, and plans abandoned, while the step was submitted
  std::uint64_t recomputed_operations = 0, recomputed_ns = 0;
  std::uint64_t dropped_buffers = 0;  // as in EngineStatistics
  Bytes dropped_bytes = 0;
};

// An event at which memory ran out. `index`: as TraceEvent::index.
struct RefusedEvent {
  std::size_t step;
  EventKind kind;
  std::uint32_t index;
};

struct ReplayResult {
  ReplayOutcome outcome = ReplayOutcome::kOk;
  std::string report;                   // the report of the buffers that held memory when it ran out
  std::optional<RefusedEvent> refused;  // none: it did not, or not at an event of the program
  std::vector<ReplayStep> steps;        // steps that were submitted completely
  EngineStatistics statistics;
  Bytes page_bytes = 0;          // of the engine's physical memory
  Bytes peak_device_bytes = 0;   // the larger of what engine and device counted
  std::uint64_t checksum = 0;    // of everything computed, and of the final contents of live buffers
  std::uint64_t races = 0;       // found by the simulated device, if checking was enabled
  double events_per_second = 0;  // real time
};

// False, with a message in `reason`, when the device can not be opened or returned an error other than out of memory.
bool replay(const Trace& trace, const StepProgram& program, const ReplayOptions& options, ReplayResult* out,
            std::string* reason);

// Number of steps before the first one that ran under a plan from beginning to end and was followed only by such steps;
// nothing if there is none.
std::optional<std::size_t> learned_after_steps(const std::vector<ReplayStep>& steps);

// The median of at least one value.
double median(std::vector<double> values);

// Which steps of a replay its figures describe, and how these are combined. The same for all commands.
struct SteadySteps {
  std::optional<std::size_t> learned_after;
  bool repeat = true;  // SteadyStep::repeats of the trace

  // The median step time: of the steps after learning; of all but the first two if nothing was learned, or if steps
  // differ; of the last step if there are no more.
  double ms(const std::vector<ReplayStep>& steps) const;
  double recomputed_ms(const std::vector<ReplayStep>& steps) const;
};

}  // namespace thermocline
