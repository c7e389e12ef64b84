// SPDX-License-Identifier: Apache-2.0
// A refused request is named in the report, with its place in the program.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/preload/running.h"

namespace thermocline::test {
namespace {

constexpr const char* kKernel =
    "thermocline: out of memory: kernel scale<float>: its memory of 24.0 MiB was refused (25165824 bytes; the budget "
    "is "
    "16.0 MiB)\n";
constexpr const char* kUses =
    "  why    it needs 24.0 MiB at once, and the budget is 16.0 MiB\n"
    "  uses   2 buffers together: 12.0 MiB + 12.0 MiB\n"
    "  do     budget = \"24MiB\"";

// A tool listens already (the simulated device), or this library is the tool.
TEST(RefusedNames, KernelsAndGraphsAreNamedAndSoAreNvtxRanges) {
  const std::vector<std::string> arguments = {"api_paths/launches/refused"};
  const ProcessResult plain = run_plain(arguments);
  EXPECT_EQ(plain.out, "kernel: 0\ngraph: 0\n");
  for (const char* tool : {SIMULATOR_FOLDER "/libcuda.so.1", LIBRARY_FILE}) {
    const ProcessResult squeezed = run_program(
        arguments,
        {.preload = {LIBRARY_FILE}, .budget = "16MiB", .environment = {std::string("NVTX_INJECTION64_PATH=") + tool}});
    EXPECT_EQ(squeezed.out, "kernel: 2\ngraph: 2\n") << squeezed.err;
    EXPECT_NE(
        squeezed.err.find(std::string(kKernel) + "  in     epoch 2 > forward > layer3.conv? (NVTX ranges)\n" + kUses),
        std::string::npos)
        << squeezed.err;
    EXPECT_NE(
        squeezed.err.find("thermocline: out of memory: a CUDA graph: its memory of 24.0 MiB was refused (25165824 "
                          "bytes; the budget is 16.0 MiB)\n" +
                          std::string(kUses)),
        std::string::npos)
        << squeezed.err;
  }
  const ProcessResult untold =
      run_program(arguments, {.preload = {LIBRARY_FILE}, .budget = "16MiB", .environment = {"NVTX_INJECTION64_PATH="}});
  EXPECT_NE(untold.err.find(std::string(kKernel) + kUses), std::string::npos) << untold.err;
  expect_same(plain, run_preloaded(arguments, "24MiB"));
}

}  // namespace
}  // namespace thermocline::test
