// SPDX-License-Identifier: Apache-2.0
// Runs a program on the engine over the simulated device, and on the device alone. What both must agree on is the
// checksum of all that operators computed; what must hold of the engine's run alone is in runner.cc, where `fail` is.
//
// Safety: calls may fail and memory may be refused, and nothing wrong may come of it. Then liveness: faults cease, the
// program lets go of what it took beside its buffers, and everything that was granted must be readable, everything be
// given back, and the whole budget be had in one piece.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/fuzz_engine/faults.h"
#include "tests/fuzz_engine/program.h"

namespace thermocline::fuzz_engine {

struct Outcome {
  std::string failure;  // empty: everything held
  std::uint64_t checksum = 0;
  std::vector<bool> done;  // by step: it was carried out; what was refused was not
  std::uint64_t refused = 0;
  EngineStatistics statistics;
  std::uint64_t driver_calls = 0, faults = 0;  // of the library, while calls could fail
  std::string failed_call;                     // the last that was made to fail
};

Outcome run_on_engine(const Program& program, const FaultPlan& faults);
// Does what was done there. `check`: with the race checker, which then judges the program alone.
Outcome run_alone(const Program& program, const std::vector<bool>& done, bool check);

// Both, compared.
Outcome run(const Program& program);
Outcome run(const Program& program, const FaultPlan& faults);

}  // namespace thermocline::fuzz_engine
