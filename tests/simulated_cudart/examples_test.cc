// SPDX-License-Identifier: Apache-2.0
// The example programs on the simulated device with made-up results, which every build can compute: that these are the
// same on every run, and how the programs fail. What they compute: real_kernels_test.cc.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <regex>
#include <string>
#include <vector>

#include "tests/simulated_cudart/subprocess.h"

namespace {

std::string program(const char* name) { return std::string(EXAMPLES_FOLDER "/") + name; }

std::string digest_of(const Outcome& outcome) {
  std::smatch match;
  return std::regex_search(outcome.output, match, std::regex("digest ([0-9a-f]{16})\n")) ? match[1].str() : "";
}

TEST(Examples, DigitsPrintsTheSameOnEveryRunInEveryOrder) {
  const std::vector<std::string> command = {program("digits"), "--epochs", "2"};
  const Outcome first = run_program(command);
  ASSERT_EQ(first.status, 0) << first.errors;
  ASSERT_NE(digest_of(first), "") << first.output;
  EXPECT_EQ(run_program(command).output, first.output);
  EXPECT_EQ(run_program(command, {"THERMOCLINE_SIMULATE_SEED=4"}).output, first.output);
}

TEST(Examples, DigitsSaysWhatItCouldNotAllocate) {
  const Outcome outcome = run_program({program("digits")}, {"THERMOCLINE_SIMULATE_MEMORY_BYTES=20971520"});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_TRUE(std::regex_search(outcome.errors, std::regex("digits: out of memory allocating [0-9]+ bytes")))
      << outcome.errors;
}

TEST(Examples, DigitsRejectsOtherInput) {
  const Outcome missing = run_program({program("digits"), "/nowhere/digits.csv"});
  EXPECT_EQ(missing.status, 3);
  EXPECT_NE(missing.errors.find("/nowhere/digits.csv"), std::string::npos);
  const Outcome binary = run_program({program("digits"), program("digits")});
  EXPECT_EQ(binary.status, 3);
  EXPECT_NE(binary.errors.find("digits:1: expected 64 numbers"), std::string::npos) << binary.errors;
  EXPECT_EQ(run_program({program("digits"), "--help"}).status, 2);
  EXPECT_EQ(run_program({program("digits"), "--epochs", "many"}).status, 2);
}

TEST(Examples, StreamsPrintsTheSameInEveryOrder) {
  const Outcome first = run_program({program("streams")});
  ASSERT_EQ(first.status, 0) << first.errors;
  ASSERT_NE(digest_of(first), "");
  for (int seed = 1; seed <= 5; ++seed) {
    const Outcome other = run_program({program("streams")}, {"THERMOCLINE_SIMULATE_SEED=" + std::to_string(seed)});
    EXPECT_EQ(other.output, first.output) << "seed " << seed;
  }
}

// Every third operation appears to come from another context, whose streams can not wait for the library's events.
TEST(Examples, OperationsOfAnotherContextAreOrderedByTheHost) {
  const std::string expected = digest_of(run_program({program("streams")}));
  for (const char* seed : {"time", "1", "2", "3"}) {
    const Outcome outcome =
        run_program({program("streams")},
                    {"LD_PRELOAD=" LIBRARY_FILE, "NVTX_INJECTION64_PATH=" SIMULATED_CUDA, "THERMOCLINE_NVTX=true",
                     "THERMOCLINE_SIMULATE_CHECK=1", std::string("THERMOCLINE_SIMULATE_SEED=") + seed,
                     "THERMOCLINE_SIMULATE_FAULTS=fail cuCtxGetCurrent every 3 DEINITIALIZED",
                     "ASAN_OPTIONS=verify_asan_link_order=0:handle_segv=0:detect_leaks=0"});
    EXPECT_EQ(outcome.status, 0) << seed << "\n" << outcome.errors;
    EXPECT_EQ(digest_of(outcome), expected) << seed;
    EXPECT_NE(outcome.errors.find("used in another context"), std::string::npos) << outcome.errors;
    EXPECT_NE(outcome.errors.find("races=0\n"), std::string::npos) << seed << "\n" << outcome.errors;
  }
}

// Recorded and replayed, two epochs of the program take the same time and need the same memory.
TEST(Examples, AProgramIsRecordedAndReplayed) {
  const std::string trace = testing::TempDir() + "digits.jsonl.gz";
  const Outcome recorded = run_program({COMMAND_FILE, "record", "-o", trace, "--simulate", "reference", "--stats=line",
                                        "--", program("digits"), "--epochs", "4"});
  ASSERT_EQ(recorded.status, 0) << recorded.errors;
  EXPECT_NE(digest_of(recorded), "") << "the program's output is its own";
  std::smatch peak, summary;
  EXPECT_TRUE(std::regex_search(recorded.errors, peak, std::regex("peak_live_bytes=([0-9]+)"))) << recorded.errors;
  EXPECT_TRUE(std::regex_search(recorded.errors, summary, std::regex("recorded .*: ([0-9]+) operators")))
      << recorded.errors;
  EXPECT_EQ(recorded.errors.find("guesses"), std::string::npos) << recorded.errors;
  const Outcome replayed =
      run_program({COMMAND_FILE, "replay", trace, "--device", "reference", "--policy", "none", "--json"});
  ASSERT_EQ(replayed.status, 0) << replayed.errors;
  EXPECT_NE(replayed.output.find("\"peak_live_bytes\":" + peak[1].str()), std::string::npos) << replayed.output;
  const Outcome nothing = run_program({COMMAND_FILE, "record", "-o", trace, "--simulate", "reference", "--", "true"});
  EXPECT_EQ(nothing.status, 1);
  EXPECT_NE(nothing.errors.find("nothing was recorded"), std::string::npos) << nothing.errors;
}

// The recording is kept: somebody may have waited for it for hours.
TEST(Examples, ATraceForAPipeThatNobodyReadsIsKept) {
  const std::string pipe = testing::TempDir() + "pipe", trace = testing::TempDir() + "of_pipe.jsonl";
  unlink(pipe.c_str());
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const std::vector<std::string> command = {COMMAND_FILE,      "record",   "-o", pipe, "--simulate", "reference", "--",
                                            program("digits"), "--epochs", "1"};
  const Outcome outcome = run_program(command);
  EXPECT_EQ(outcome.status, 1) << outcome.errors;
  EXPECT_NE(outcome.errors.find("thermocline: " + pipe + ": nobody reads from this pipe\n"), std::string::npos)
      << outcome.errors;
  std::smatch kept;
  ASSERT_TRUE(std::regex_search(outcome.errors, kept, std::regex("what was recorded is still in (\\S+);")))
      << outcome.errors;
  EXPECT_EQ(run_program({COMMAND_FILE, "record", "--from", kept[1].str(), "-o", pipe}).status, 3);
  EXPECT_EQ(run_program({COMMAND_FILE, "record", "--from", kept[1].str(), "-o", trace}).status, 0);
  unlink(kept[1].str().c_str());
  // A reader gets all of it.
  const Outcome read =
      run_program({"sh", "-c",
                   std::string(COMMAND_FILE) + " record -o " + pipe + " --simulate reference -- " + program("digits") +
                       " --epochs 1 >/dev/null & cat " + pipe + " >" + trace + "; wait"});
  EXPECT_EQ(run_program({COMMAND_FILE, "replay", trace, "--device", "reference", "--no-check"}).status, 0)
      << read.errors;
  unlink(pipe.c_str());
}

TEST(Examples, AProgramWithTheStaticRuntimeIsRefusedAndEndsByItself) {
  const Outcome outcome = run_program({program("digits_static")});
  EXPECT_EQ(outcome.status, 1) << outcome.errors;
  EXPECT_NE(outcome.errors.find("nvcc -cudart shared"), std::string::npos) << outcome.errors;
  EXPECT_NE(outcome.errors.find("digits: "), std::string::npos) << outcome.errors;
}

TEST(Kernels, AreLaunchedWithTheirParametersAndVariables) {
  const Outcome outcome = run_program({KERNELS_PROGRAM});
  EXPECT_EQ(outcome.output, "all right\n") << outcome.errors;
  EXPECT_EQ(outcome.status, 0);
  const Outcome managed = run_program({KERNELS_PROGRAM, "managed"});
  EXPECT_EQ(managed.output, "all right\n") << managed.errors;
  EXPECT_EQ(managed.status, 0);
}

}  // namespace
