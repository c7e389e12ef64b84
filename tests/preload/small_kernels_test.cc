// SPDX-License-Identifier: Apache-2.0
// The kernels of the small programs (programs/small_kernels.h), run instead of made-up results.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/preload/running.h"

namespace thermocline::test {
namespace {

// The kernels run the code that a GPU runs: that of small_kernels.h, instead of made-up results.
TEST(ApiPathsOfKernels, ThatRunTheirCodeGiveTheSameBits) {
  if (!HAS_PTX) GTEST_SKIP() << "this build runs no PTX";
  for (const char* program :
       {"contexts/functions_come_again", "graphs/kernel_nodes", "graphs/memory_in_capture", "launches/loaded_lazily",
        "launches/parameters", "launches/structures", "memory/arrays", "memory/in_order"}) {
    SCOPED_TRACE(program);
    const std::vector<std::string> arguments = {std::string("api_paths/") + program};
    const std::vector<std::string> real = {"THERMOCLINE_SIMULATE_KERNELS=real"};
    // Looking for races means tracing every access of a kernel, which is slow. The plain run needs none of that.
    const std::vector<std::string> unchecked = {real[0], "THERMOCLINE_SIMULATE_CHECK="};
    const ProcessResult plain = run_program(arguments, {.preload = {}, .budget = {}, .environment = unchecked});
    const ProcessResult squeezed =
        run_program(arguments, {.preload = {LIBRARY_FILE}, .budget = "20MiB", .environment = real});
    expect_same(plain, squeezed);
    EXPECT_GT(statistic(squeezed, "evicted_bytes"), 0u);
  }
}

// Pages that are borrowed behind work that now never completes go back without a wait that could succeed.
TEST(ApiPathsOfKernels, AfterATrapEveryCallReturnsItsErrorUnderAnyBudget) {
  if (!HAS_PTX) GTEST_SKIP() << "this build runs no PTX";
  const std::vector<std::string> arguments = {"api_paths/contexts/lost"};
  const std::vector<std::string> real = {"THERMOCLINE_SIMULATE_KERNELS=real"};
  const ProcessResult plain = run_program(arguments, {.preload = {}, .budget = {}, .environment = real});
  EXPECT_NE(plain.out.find("cuCtxSynchronize(): 719"), std::string::npos) << plain.out;
  for (const char* budget : {"40MiB", "28MiB", "24MiB", "20MiB", "16MiB", "12MiB"}) {
    SCOPED_TRACE(budget);
    const ProcessResult squeezed =
        run_program(arguments, {.preload = {LIBRARY_FILE}, .budget = budget, .environment = real});
    expect_same(plain, squeezed);
    EXPECT_EQ(squeezed.err.find("does not hold"), std::string::npos) << squeezed.err;
  }
}

}  // namespace
}  // namespace thermocline::test
