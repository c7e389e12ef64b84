// SPDX-License-Identifier: Apache-2.0
// Kernels compiled by nvcc that use more of a device than arithmetic (real_features.cu): right results, and faults with
// the kernel's name.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/simulated_cudart/subprocess.h"

namespace {

Outcome run(const std::string& which, bool with_library = true) {
  std::vector<std::string> command = {COMMAND_FILE, "run", "--simulate", "h200"};
  if (!with_library) command.emplace_back("--no-library");
  command.insert(command.end(), {"--", PROGRAM, which});
  return run_program(command, {"THERMOCLINE_SIMULATE_KERNELS=real"});
}

void expect_right(const std::string& which) {
  for (const bool with_library : {true, false}) {
    const Outcome outcome = run(which, with_library);
    EXPECT_EQ(outcome.status, 0) << outcome.errors;
    EXPECT_EQ(outcome.output, "wrong 0\n") << outcome.errors;
  }
}

TEST(RealFeatures, WarpsMultiplyMatricesByFragments) { expect_right("wmma"); }
TEST(RealFeatures, WarpsMultiplyMatricesInTheLayoutsOfPtx) { expect_right("mma"); }
TEST(RealFeatures, ThreadsMeetAtBarriersInMemory) { expect_right("mbarrier"); }
TEST(RealFeatures, TexturesAreSampled) { expect_right("textures"); }
TEST(RealFeatures, SurfacesLayersAndCubesAreAccessed) { expect_right("surfaces"); }
TEST(RealFeatures, AllBlocksOfAGridWaitForOneAnother) { expect_right("grid"); }
TEST(RealFeatures, KernelsAllocateAndFree) { expect_right("heap"); }

TEST(RealFeatures, HandlersAtExitLaunchKernels) {
  const Outcome outcome = run("at_exit");
  EXPECT_EQ(outcome.output, "wrong 0\nat exit: 21 added, 0 wrong\n") << outcome.errors;
}

TEST(RealFeatures, AfterAFaultEveryLaunchReturnsItsError) {
  for (const bool with_library : {true, false}) {
    const Outcome outcome = run("after_a_fault", with_library);
    EXPECT_EQ(outcome.output, "cudaErrorIllegalAddress\ncudaErrorIllegalAddress\ncudaErrorIllegalAddress\n")
        << outcome.errors;
  }
}

TEST(RealFeatures, OutsideOfASurfaceIsAFault) {
  const Outcome outcome = run("outside");
  EXPECT_EQ(outcome.output, "cudaErrorIllegalAddress\n");
  EXPECT_NE(outcome.errors.find("thread (0, 0, 0): outside of a surface, 'sust.b.2d.b32.trap'"), std::string::npos)
      << outcome.errors;
}

TEST(RealFeatures, FreeingWhatWasNotAllocatedIsAFault) {
  const Outcome outcome = run("wrong_free");
  EXPECT_EQ(outcome.output, "cudaErrorIllegalAddress\n");
  EXPECT_NE(outcome.errors.find("frees what was not allocated"), std::string::npos) << outcome.errors;
}

}  // namespace
