// SPDX-License-Identifier: Apache-2.0
// Programs with another malloc: the distribution's jemalloc and tcmalloc, preloaded before the library and after it,
// and programs built with the address sanitizer, which has its own.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/preload/running.h"

namespace thermocline::test {
namespace {

constexpr const char* kBudget = "20MiB";

void expect_same_with(const std::string& program, const std::vector<std::string>& preload,
                      const std::vector<std::string>& environment = {}) {
  const std::vector<std::string> arguments = {program};
  const ProcessResult plain = run_program(arguments, {.preload = {}, .budget = "", .environment = environment});
  const ProcessResult result =
      run_program(arguments, {.preload = preload, .budget = kBudget, .environment = environment});
  expect_same(plain, result);
  EXPECT_GT(statistic(result, "evicted_bytes"), 0u) << program;
}

struct Malloc {
  const char* name;
  const char* file;  // empty: not installed on this machine
};

class Mallocs : public testing::TestWithParam<Malloc> {};

TEST_P(Mallocs, InFrontAndBehindDoNoHarm) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers bring a malloc of their own";
#endif
  if (GetParam().file[0] == '\0') GTEST_SKIP() << GetParam().name << " is not installed";
  for (const char* program : {"launches/parameters", "resolution/dlopened", "process/threads", "process/thread_ends",
                              "process/fork_and_end", "process/destructors", "nccl/collectives"}) {
    for (const bool in_front : {true, false}) {
      std::vector<std::string> preload = {LIBRARY_FILE, GetParam().file};
      if (in_front) std::swap(preload[0], preload[1]);
      SCOPED_TRACE(std::string(program) + (in_front ? ", in front" : ", behind"));
      expect_same_with("api_paths/" + std::string(program), preload);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Preload, Mallocs,
                         testing::Values(Malloc{"jemalloc", JEMALLOC_FILE}, Malloc{"tcmalloc", TCMALLOC_FILE}),
                         [](const auto& test) { return std::string(test.param.name); });

// The sanitizer must be loaded first, and handles faults itself unless told not to: the simulated device needs them.
class Sanitized : public testing::TestWithParam<std::string> {};

TEST_P(Sanitized, ProgramsComputeTheSame) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "all is built with a sanitizer here";
#endif
  if (ASAN_FILE[0] == '\0') GTEST_SKIP() << "the compiler has no address sanitizer";
  expect_same_with("api_paths/sanitized/" + GetParam(), {ASAN_FILE, LIBRARY_FILE},
                   {"ASAN_OPTIONS=handle_segv=0:detect_leaks=0:protect_shadow_gap=0"});
}

// If the library is loaded first, as when LD_PRELOAD names nothing else.
TEST_P(Sanitized, ProgramsComputeTheSameBehindTheLibrary) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "all is built with a sanitizer here";
#endif
  if (ASAN_FILE[0] == '\0') GTEST_SKIP() << "the compiler has no address sanitizer";
  expect_same_with("api_paths/sanitized/" + GetParam(), {LIBRARY_FILE},
                   {"ASAN_OPTIONS=handle_segv=0:detect_leaks=0:protect_shadow_gap=0:verify_asan_link_order=0"});
}

INSTANTIATE_TEST_SUITE_P(Preload, Sanitized, testing::Values("parameters", "dlopened", "threads", "unwinding"),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace thermocline::test
