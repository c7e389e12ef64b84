// SPDX-License-Identifier: Apache-2.0
// Runs a program on the engine over the simulated device, and on the device alone. Both must give the same checksum of
// everything that operators computed. What must hold for the engine's run alone is checked in runner.cc (see `fail`).
//
// Safety: calls may fail and memory may be refused, without wrong results. Liveness, after that: no more calls fail,
// the program releases everything except its buffers, and then all granted buffers must be readable, everything must be
// released, and the whole budget must be available in one piece.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/fuzz_engine/faults.h"
#include "tests/fuzz_engine/program.h"

namespace thermocline::fuzz_engine {

struct Outcome {
  std::string failure;  // empty: passed
  std::uint64_t checksum = 0;
  std::vector<bool> done;  // by step: whether it was carried out (false: refused)
  std::uint64_t refused = 0;
  EngineStatistics statistics;
  std::uint64_t driver_calls = 0, faults = 0;  // of the library, while calls could fail
  std::string failed_call;                     // the last call that was made to fail
};

Outcome run_on_engine(const Program& program, const FaultPlan& faults);
// Repeats the steps that are marked in `done`. `check`: with the race checker, which then checks the program itself.
Outcome run_alone(const Program& program, const std::vector<bool>& done, bool check);

// Runs both, and compares them.
Outcome run(const Program& program);
Outcome run(const Program& program, const FaultPlan& faults);

}  // namespace thermocline::fuzz_engine
