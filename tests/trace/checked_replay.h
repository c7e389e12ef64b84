// SPDX-License-Identifier: Apache-2.0
// A replay on the simulated device with its race checker. The test fails if it can not be begun, or has a race.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "trace/replay.h"

namespace thermocline::test {

// `steps` 0: as many as the trace has. The caller's target defines THERMOCLINE_SIMULATED_CUDA.
inline ReplayResult checked_replay(const Trace& trace, ReplayOptions options, std::size_t steps = 0) {
  StepProgram program;
  std::string reason;
  EXPECT_TRUE(plan_steps(trace, steps, &program, &reason)) << reason;
  options.device.library = THERMOCLINE_SIMULATED_CUDA;
  options.device.check = true;
  ReplayResult result;
  EXPECT_TRUE(replay(trace, program, options, &result, &reason)) << reason;
  EXPECT_EQ(result.races, 0u);
  return result;
}

}  // namespace thermocline::test
