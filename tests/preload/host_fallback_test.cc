// SPDX-License-Identifier: Apache-2.0
// With a host fallback, accesses that the hooks do not see use the copy on the host.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/preload/running.h"

namespace thermocline::test {
namespace {

ProcessResult run_with(const std::string& program, const std::string& fallback, std::uint64_t order = 0,
                       const std::string& faults = "", bool checked = true) {
  Running running{.preload = {LIBRARY_FILE}, .budget = "20MiB", .order = order, .environment = {}};
  running.environment.push_back("THERMOCLINE_HOST_FALLBACK=" + fallback);
  // For a kernel that faults the race checker would report the reason.
  if (!checked) running.environment.emplace_back("THERMOCLINE_SIMULATE_CHECK=0");
  if (!faults.empty()) running.environment.push_back("THERMOCLINE_SIMULATE_FAULTS=" + faults);
  return run_program({"tables", program}, running);
}

void expect_fault(const ProcessResult& result) {
  EXPECT_NE(result.status, 0);
  EXPECT_NE(result.err.find("illegal address"), std::string::npos) << result.err;
}

TEST(HostFallback, UnseenReadsAndWritesMeetTheCopyOnTheHost) {
  const ProcessResult plain = run_plain({"tables", "unseen"});
  for (const std::uint64_t order : orders()) {
    const ProcessResult caught = run_with("unseen", "auto", order);
    expect_same(plain, caught);
    EXPECT_GT(statistic(caught, "fallback_evictions"), 0u);
    EXPECT_GT(statistic(caught, "host_reads"), 0u) << "what was written is read where it was written";
  }
}

TEST(HostFallback, UnseenWritesAreSaidAtTheEndWhereSomeMayBeLost) {
  const auto run_quietly = [](const char* program, const char* fallback) {
    return run_program({"tables", program}, {.preload = {LIBRARY_FILE},
                                             .budget = "20MiB",
                                             .environment = {std::string("THERMOCLINE_HOST_FALLBACK=") + fallback,
                                                             "THERMOCLINE_STATS=off"}});
  };
  constexpr const char* kSaid = "thermocline: kernels wrote to memory that they were not seen to access (";
  const ProcessResult lossy = run_quietly("unseen_and_used", "auto");
  EXPECT_NE(lossy.err.find(kSaid), std::string::npos) << lossy.err;
  for (const auto& [program, fallback] : {std::pair{"unseen_and_used", "full"}, std::pair{"pageable", "auto"}}) {
    const ProcessResult result = run_quietly(program, fallback);
    EXPECT_EQ(result.err.find(kSaid), std::string::npos) << program << ": " << result.err;
  }
}

TEST(HostFallback, WithoutItTheyAreIllegalAddresses) {
  expect_fault(run_with("unseen", "off", 0, "", false));
  expect_fault(run_with("unseen", "auto", 0, "without host-mappings", false));
}

TEST(HostFallback, FullKeepsAccessesUnderWayToo) {
  for (const char* const program : {"unseen", "unseen_in_flight", "built"}) {
    const ProcessResult plain = run_plain({"tables", program});
    for (const std::uint64_t order : orders()) {
      const ProcessResult caught = run_with(program, "full", order);
      expect_same(plain, caught);
      EXPECT_GT(statistic(caught, "evicted_bytes"), 0u);
      EXPECT_EQ(statistic(caught, "unmapped_evictions"), 0u);
    }
  }
}

TEST(HostFallback, SaysWhereFullCanNotBeHad) {
  const ProcessResult bare = run_with("pageable", "full", 0, "without host-mappings");
  expect_same(run_plain({"tables", "pageable"}), bare);
  EXPECT_NE(bare.err.find("is not available on this device"), std::string::npos) << bare.err;
  EXPECT_EQ(statistic(bare, "fallback_evictions"), 0u);
}

// The first page is tried before it is used. The fifth copy to the host is that trial's: the probes at the start make
// four.
TEST(HostFallback, AHostPageThatFailsItsProofIsAMissingMechanism) {
  const ProcessResult bare = run_with("pageable", "auto", 0, "fail cuMemcpyDtoHAsync call 5 INVALID_VALUE");
  expect_same(run_plain({"tables", "pageable"}), bare);
  EXPECT_GT(statistic(bare, "evicted_bytes"), 0u);
  EXPECT_EQ(statistic(bare, "fallback_evictions"), 0u);
  EXPECT_EQ(statistic(bare, "missing_mechanisms"), 1u);
  EXPECT_NE(bare.err.find("copies reach mapped host memory (host_memory);"), std::string::npos) << bare.err;
}

}  // namespace
}  // namespace thermocline::test
