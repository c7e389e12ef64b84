// SPDX-License-Identifier: Apache-2.0
// The library's claims about the accesses of random kernels, compared with what the executor reads and writes.
// THERMOCLINE_TEST_SEED=n tries only that one; tests/programs/directions tries many, and counts.
#include <gtest/gtest.h>

#include "tests/directions/oracle.h"
#include "tests/support/seeds.h"

namespace directions {
namespace {

TEST(Directions, OfRandomKernelsAreWhatTheExecutorReadsAndWrites) {
  Oracle oracle;
  Counts counts;
  const std::vector<std::uint64_t> seeds = thermocline::test_seeds(250);
  for (const std::uint64_t seed : seeds) {
    const RandomKernel kernel = random_kernel(seed, oracle.memory());
    const std::string wrong = oracle.judge(kernel, &counts);
    EXPECT_EQ(wrong, "") << "seed " << seed << "\n" << kernel.text;
    if (HasFailure()) return;
  }
  EXPECT_LT(counts.not_run, 1 + seeds.size() / 10);
  if (seeds.size() < 100) return;
  // Kernels of all kinds were among them.
  EXPECT_GT(counts.known, seeds.size() / 4);
  EXPECT_GT(counts.said_read, 0u);
  EXPECT_GT(counts.said_written, 0u);
  EXPECT_GT(counts.said_both, 0u);
  EXPECT_GT(counts.exact_ranges, 0u);
  EXPECT_GT(counts.begins, 0u);
}

}  // namespace
}  // namespace directions
