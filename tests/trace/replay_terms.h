// SPDX-License-Identifier: Apache-2.0
// The terms in which replays of one trace differ when results of recomputing are compared with those of copies.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>

#include "tests/trace/checked_replay.h"

namespace thermocline::test {

struct Terms {
  Bytes budget = 0;
  const PolicyEntry* policy = kLearnedPolicy;
  Recompute recompute = Recompute::kAuto;
  std::optional<std::uint64_t> seed = {};  // of an adversarial order; none: in order of time
};

// With the true reads and writes. The test fails if the replay does not get to its end.
inline ReplayResult run(const Trace& trace, const Terms& terms) {
  ReplayOptions options;
  options.device.seed = terms.seed;
  options.engine.budget_bytes = terms.budget;
  options.engine.policy = terms.policy;
  options.engine.recompute = terms.recompute;
  options.exact = true;
  const ReplayResult result = checked_replay(trace, options);
  EXPECT_EQ(result.outcome, ReplayOutcome::kOk) << result.report;
  return result;
}

}  // namespace thermocline::test
