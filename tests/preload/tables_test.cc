// SPDX-License-Identifier: Apache-2.0
// What kernels find through tables in device memory is there, however the table came there.
#include <gtest/gtest.h>

#include <string>

#include "tests/preload/running.h"

namespace thermocline::test {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

class Table : public testing::TestWithParam<std::string> {};

TEST_P(Table, LeadsToWhatIsThere) {
  expect_same_bits({"tables", GetParam()}, "20MiB", 20 * kMiB);
  const ProcessResult squeezed = run_preloaded({"tables", GetParam()}, "20MiB");
  EXPECT_GT(statistic(squeezed, "followed"), 0u);
}

INSTANTIATE_TEST_SUITE_P(Preload, Table,
                         testing::Values("pageable", "unified", "pinned", "rows", "layers", "batch", "nested", "moved",
                                         "interior", "global", "captured", "built"),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace thermocline::test
