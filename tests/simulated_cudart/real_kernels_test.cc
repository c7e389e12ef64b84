// SPDX-License-Identifier: Apache-2.0
// Programs compiled by nvcc whose kernels run their own code on the simulated device, as a user runs them: right
// results, also under a budget, and how kernels fail.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tests/simulated_cudart/subprocess.h"

namespace {

// `with`: flags of `thermocline run`. The test harness sets made-up kernels; here they are real.
Outcome run(const std::string& which, const std::vector<std::string>& with = {}, const char* program = PROGRAM,
            const std::string& setting = "THERMOCLINE_SIMULATE_SEED=", const char* device = "reference") {
  std::vector<std::string> command = {COMMAND_FILE, "run", "--simulate", device};
  command.insert(command.end(), with.begin(), with.end());
  command.insert(command.end(), {"--", program, which});
  return run_program(command, {"THERMOCLINE_SIMULATE_KERNELS=real", setting});
}

void expect_right(const Outcome& outcome) {
  EXPECT_EQ(outcome.status, 0) << outcome.errors;
  EXPECT_EQ(outcome.output, "wrong 0\n") << outcome.errors;
}

TEST(RealKernels, ComputeWhatTheySayWithAndWithoutABudget) {
  expect_right(run("affine"));
  expect_right(run("affine", {"--no-library"}));
  const Outcome squeezed = run("affine", {"--budget", "24MiB", "--stats=line"});
  expect_right(squeezed);
  EXPECT_EQ(squeezed.errors.find(" evicted_bytes=0 "), std::string::npos) << squeezed.errors;
}

TEST(RealKernels, WaitForOneAnotherAtBarriersAndInWarps) { expect_right(run("sums")); }
TEST(RealKernels, AddUpInSharedMemoryAtomically) { expect_right(run("histogram")); }
TEST(RealKernels, CallFunctionsByPointerAndThemselves) { expect_right(run("mixture")); }

TEST(RealKernels, OfAClusterWaitForOneAnotherAndReadEachOthersSharedMemory) {
  expect_right(run("", {}, CLUSTERS_PROGRAM));
  expect_right(run("", {"--no-library"}, CLUSTERS_PROGRAM));
}

TEST(RealKernels, UseWhatOtherFilesOfTheirProgramDefine) {
  for (const std::vector<std::string>& with : {std::vector<std::string>{}, {"--no-library"}}) {
    const Outcome outcome = run("", with, LINKED_PROGRAM);
    EXPECT_EQ(outcome.status, 0) << outcome.errors;
    EXPECT_EQ(outcome.output, "wrong 0, 32 calls, kept 65 and 11\n") << outcome.errors;
  }
}

TEST(RealKernels, KeepWhatTheyWriteWhereNoParameterPoints) {
  expect_right(run("unnamed"));
  expect_right(run("unnamed", {"--no-library"}));
}
// Memory that one stream has just been given is not the other's business.
TEST(RealKernels, KeepWhatTheyWriteIntoMemoryOfTheirStreamsOrder) {
  expect_right(run("orders", {"--no-library"}));
  expect_right(run("orders"));
  expect_right(run("orders", {"--budget", "20MiB"}));
}
TEST(RealKernels, KeepWhatOthersHaveWhereNothingWasWrittenYet) {
  for (const char* safety : {"strict", "trusting"}) {
    for (const char* budget : {"6MiB", "8MiB"}) {
      expect_right(run("uploads", {"--budget", budget}, PROGRAM, std::string("THERMOCLINE_SAFETY=") + safety));
    }
  }
}
// In less than 40 % of what it holds at its peak.
TEST(RealKernels, EncodeRunLengthsAsTheStandardLibraryDoes) {
  expect_right(run("", {"--no-library"}, RUN_LENGTH_PROGRAM));
  const Outcome whole = run("", {"--stats=line"}, RUN_LENGTH_PROGRAM);
  expect_right(whole);
  const std::string name = " peak_live_bytes=";
  const auto at = whole.errors.find(name);
  ASSERT_NE(at, std::string::npos) << whole.errors;
  const std::uint64_t budget = std::stoull(whole.errors.substr(at + name.size())) * 39 / 100;
  expect_right(run("", {"--budget", std::to_string(budget)}, RUN_LENGTH_PROGRAM));
}
TEST(RealKernels, FindParametersWithAnAlignmentOfTheirOwn) {
  expect_right(run("aligned", {"--no-library"}));
  expect_right(run("aligned"));
}
// Also where several of their tables are one slab's, and together lead to more than fits.
TEST(RealKernels, MayBeGivenWhatIsBeforeTheFirstElement) {
  for (const char* const how : {"parameters", "uploaded", "written", "graphs"}) {
    SCOPED_TRACE(how);
    expect_right(run(how, {"--no-library"}, ONE_BASED_PROGRAM));
    for (const char* const safety : {"strict", "trusting"}) {
      const std::string setting = std::string("THERMOCLINE_SAFETY=") + safety;
      const Outcome squeezed = run(how, {"--budget", "14MiB", "--stats=line"}, ONE_BASED_PROGRAM, setting);
      expect_right(squeezed);
      EXPECT_EQ(squeezed.errors.find(" evicted_bytes=0 "), std::string::npos) << squeezed.errors;
    }
  }
}
// By a kernel whose name another one has that stores none; from a variable; and where structures have no padding.
TEST(RealKernels, FindWhatOthersStoredTheAddressOf) {
  for (const char* const how : {"same_name", "global", "packed"}) {
    SCOPED_TRACE(how);
    expect_right(run(how, {"--no-library"}, STORED_ADDRESSES_PROGRAM));
    for (const char* const setting :
         {"THERMOCLINE_SAFETY=strict", "THERMOCLINE_SAFETY=trusting", "THERMOCLINE_HOST_FALLBACK=off"}) {
      const Outcome squeezed = run(how, {"--budget", "8MiB", "--stats=line"}, STORED_ADDRESSES_PROGRAM, setting);
      expect_right(squeezed);
      EXPECT_EQ(squeezed.errors.find(" evicted_bytes=0 "), std::string::npos) << squeezed.errors;
    }
  }
}
TEST(RealKernels, FindVariablesAsTheyBeganBehindAReset) {
  expect_right(run("reset"));
  expect_right(run("reset", {"--no-library"}));
}

TEST(RealKernels, AreTheSameInEveryOrder) {
  for (const char* seed : {"1", "2"}) expect_right(run("sums", {"--seed", seed}));
}

// 24 MiB of weights in 10 MiB, six times. What was copied out at least once a pass without digests is copied out twice,
// and never where uploads leave copies. The program overwrites its source after each upload.
TEST(RealKernels, WeightsThatDoNotFitAreNotCopiedOutEachTime) {
  const auto squeezed = [](const char* digests, std::vector<std::string> with = {}, const char* uploads = "off") {
    std::vector<std::string> command = {COMMAND_FILE, "run",   "--simulate",  "reference",
                                        "--budget",   "10MiB", "--stats=line"};
    command.insert(command.end(), with.begin(), with.end());
    command.insert(command.end(), {"--", EXAMPLES_FOLDER "/layers", "12", "724", "6"});
    return run_program(command, {"THERMOCLINE_SIMULATE_KERNELS=real", std::string("THERMOCLINE_DIGESTS=") + digests,
                                 std::string("THERMOCLINE_UPLOAD_COPIES=") + uploads});
  };
  const auto bytes_out = [](const Outcome& outcome) {
    const std::string name = " evicted_bytes=";
    const auto at = outcome.errors.find(name);
    return at == std::string::npos ? -1.0 : std::stod(outcome.errors.substr(at + name.size()));
  };
  const Outcome without = squeezed("off");
  ASSERT_EQ(without.status, 0) << without.errors;
  EXPECT_GE(bytes_out(without), 5 * 12e6) << without.errors;
  for (const std::vector<std::string>& with :
       std::vector<std::vector<std::string>>{{}, {"--seed", "1", "--check"}, {"--seed", "2", "--check"}, {"--check"}}) {
    const Outcome outcome = squeezed("auto", with);
    EXPECT_EQ(outcome.status, 0) << outcome.errors;
    EXPECT_EQ(outcome.output, without.output);
    EXPECT_LE(bytes_out(outcome), 2.1 * 12 * 724 * 724 * 4) << outcome.errors;
    EXPECT_EQ(outcome.errors.find("race:"), std::string::npos) << outcome.errors;
  }
  for (const std::vector<std::string>& with : std::vector<std::vector<std::string>>{{}, {"--seed", "1", "--check"}}) {
    const Outcome outcome = squeezed("auto", with, "all");
    EXPECT_EQ(outcome.status, 0) << outcome.errors;
    EXPECT_EQ(outcome.output, without.output);
    EXPECT_EQ(bytes_out(outcome), 0) << outcome.errors;
    EXPECT_EQ(outcome.errors.find("race:"), std::string::npos) << outcome.errors;
  }
}

// `with`: flags of `thermocline run`.
Outcome run_example(std::vector<std::string> program, const std::vector<std::string>& with = {}) {
  std::vector<std::string> command = {COMMAND_FILE, "run", "--simulate", "reference"};
  command.insert(command.end(), with.begin(), with.end());
  command.emplace_back("--");
  program[0].insert(0, EXAMPLES_FOLDER "/");
  command.insert(command.end(), program.begin(), program.end());
  return run_program(command, {"THERMOCLINE_SIMULATE_KERNELS=real"});
}

TEST(RealKernels, OfDigitsLearn) {
  const Outcome outcome = run_example({"digits"});
  ASSERT_EQ(outcome.status, 0) << outcome.errors;
  const std::size_t last = outcome.output.rfind("accuracy ");
  ASSERT_NE(last, std::string::npos) << outcome.output;
  EXPECT_GT(std::stod(outcome.output.substr(last + 9)), 95.0) << outcome.output;
}

TEST(RealKernels, OfTheExamplesComputeTheSameWithoutTheLibraryAndUnderABudget) {
  for (const auto& [program, budget] : std::vector<std::pair<std::vector<std::string>, const char*>>{
           {{"digits", "--epochs", "2"}, "22MiB"}, {{"streams"}, "14MiB"}, {{"saxpy"}, "10MiB"}}) {
    const Outcome alone = run_example(program, {"--no-library"});
    ASSERT_EQ(alone.status, 0) << alone.errors;
    EXPECT_NE(alone.output.find("digest "), std::string::npos) << alone.output;
    const Outcome squeezed = run_example(program, {"--budget", budget, "--seed", "3", "--stats=line"});
    EXPECT_EQ(squeezed.status, 0) << squeezed.errors;
    EXPECT_EQ(squeezed.output, alone.output) << squeezed.errors;
    if (program[0] == "saxpy") continue;
    EXPECT_EQ(squeezed.errors.find(" evicted_bytes=0 "), std::string::npos) << squeezed.errors;
  }
}

TEST(RealKernels, AMissingWaitIsFoundInEveryOrderAndTheMendedProgramIsSilent) {
  for (const std::vector<std::string>& order :
       std::vector<std::vector<std::string>>{{}, {"--seed", "1"}, {"--seed", "2"}, {"--seed", "3"}}) {
    std::vector<std::string> checked = {"--no-library", "--check"};
    checked.insert(checked.end(), order.begin(), order.end());
    const Outcome wrong = run_example({"missing_wait"}, checked);
    EXPECT_NE(wrong.errors.find("race: "), std::string::npos) << wrong.errors;
    EXPECT_NE(wrong.errors.find("copy to host"), std::string::npos) << wrong.errors;
    EXPECT_NE(wrong.errors.find("square"), std::string::npos) << wrong.errors;
    const Outcome mended = run_example({"missing_wait", "--wait"}, checked);
    EXPECT_EQ(mended.errors, "simulated device: races=0\n");
  }
}

// 16 MiB at 3500, 4800 and 1008 GB/s, and 4 microseconds for the launch.
TEST(RealKernels, TakeWhatTheDeviceNeedsForWhatTheyExecute) {
  const std::pair<const char*, const char*> expected[] = {{"reference", "8.8"}, {"h200", "7.5"}, {"rtx-4090", "20.6"}};
  for (const auto& [device, time] : expected) {
    const Outcome outcome = run("time", {"--no-library"}, PROGRAM, "THERMOCLINE_SIMULATE_SEED=", device);
    EXPECT_EQ(outcome.output, std::string(time) + " microseconds\nwrong 0\n") << device << "\n" << outcome.errors;
  }
}

void expect_races(const char* which, int races, const std::vector<std::string>& with = {"--no-library"}) {
  for (const char* const seed : {"time", "1", "2"}) {
    SCOPED_TRACE(std::string(which) + ", seed " + seed);
    std::vector<std::string> flags = {"--check"};
    flags.insert(flags.end(), with.begin(), with.end());
    const Outcome outcome = run(which, flags, EXACT_BYTES_PROGRAM, std::string("THERMOCLINE_SIMULATE_SEED=") + seed);
    EXPECT_EQ(outcome.status, 0) << outcome.errors;
    EXPECT_NE(outcome.errors.find("races=" + std::to_string(races) + "\n"), std::string::npos) << outcome.errors;
  }
}

TEST(RealKernels, RaceWhereTheyAccessTheSameBytesAlone) {
  for (const char* const which : {"halves", "reads", "download", "pinned", "others", "atomics", "variable", "constant",
                                  "last_sums_up", "heap", "surface"})
    expect_races(which, 0);
  for (const char* const which : {"overlap", "read_overlap", "download_overlap", "pinned_overlap", "variable_written",
                                  "constant_written", "surface_written"})
    expect_races(which, 1);
  expect_races("atomics_read", 1);
}

TEST(RealKernels, AreNamedWhereNotAllTheirBytesAreCompared) {
  const auto errors_of = [](const char* which) {
    return run(which, {"--check", "--no-library"}, EXACT_BYTES_PROGRAM, "THERMOCLINE_SIMULATE_SEED=1").errors;
  };
  const std::string strided = errors_of("others");
  EXPECT_NE(strided.find("every_other(char*, int) accesses bytes in more than 4096 separate ranges"), std::string::npos)
      << strided;
  EXPECT_EQ(errors_of("halves").find("separate ranges"), std::string::npos);
}

TEST(RealKernels, DoNotRaceWithMigrations) { expect_races("pressure", 0, {"--budget", "26MiB"}); }

TEST(RealKernels, PrintWhatTheySay) {
  const Outcome outcome = run("says");
  EXPECT_EQ(outcome.output, "thread 0 of many: 0.00\nthread 1 of many: 0.50\nthread 2 of many: 1.00\nwrong 0\n")
      << outcome.errors;
}

TEST(RealKernels, OutsideOfAllMemoryIsAnIllegalAddressThatIsNamed) {
  const Outcome outcome = run("beyond");
  EXPECT_EQ(outcome.status, 1);
  EXPECT_EQ(outcome.output, "cudaErrorIllegalAddress\n");
  EXPECT_NE(outcome.errors.find("block (0, 0, 0), thread (0, 0, 0): illegal address 0x"), std::string::npos)
      << outcome.errors;
  EXPECT_NE(outcome.errors.find("written (4 bytes)"), std::string::npos) << outcome.errors;
  EXPECT_NE(outcome.errors.find("beyond"), std::string::npos) << outcome.errors;
}

TEST(RealKernels, MisalignedIsAnErrorOfItsOwn) {
  const Outcome outcome = run("misaligned");
  EXPECT_EQ(outcome.output, "cudaErrorMisalignedAddress\n") << outcome.errors;
  EXPECT_NE(outcome.errors.find("misaligned address 0x"), std::string::npos) << outcome.errors;
}

TEST(RealKernels, ALoopThatNeverEndsIsATimeout) {
  const Outcome outcome = run("never_ends", {}, PROGRAM, "THERMOCLINE_SIMULATE_KERNEL_STEPS=1000000");
  EXPECT_EQ(outcome.output, "cudaErrorLaunchTimeout\n") << outcome.errors;
  EXPECT_NE(outcome.errors.find("runs without end"), std::string::npos) << outcome.errors;
}

// Built without PTX, so there is nothing to run.
TEST(RealKernels, WithoutPtxAreRefusedByName) {
  const Outcome refused = run("affine", {}, PROGRAM_WITHOUT_PTX);
  EXPECT_EQ(refused.status, 1);
  EXPECT_EQ(refused.output, "cudaErrorNoKernelImageForDevice\n") << refused.errors;
  EXPECT_NE(refused.errors.find("first_values"), std::string::npos) << refused.errors;
  EXPECT_NE(refused.errors.find("no PTX"), std::string::npos) << refused.errors;
  const Outcome mixed = run("affine", {"--made-up"}, PROGRAM_WITHOUT_PTX);
  EXPECT_EQ(mixed.status, 2) << mixed.errors;  // it runs, and its own check fails
}

}  // namespace
