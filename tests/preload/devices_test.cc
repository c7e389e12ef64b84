// SPDX-License-Identifier: Apache-2.0
// Programs that use several devices in one process (programs/devices/): each device has an engine, and the budget
// applies to each device separately.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <regex>
#include <string>
#include <utility>
#include <vector>

#include "tests/preload/running.h"

namespace thermocline::test {
namespace {

constexpr const char* kBudget = "20MiB";
constexpr std::uint64_t kBudgetBytes = 20 * kMiB;

// The sum over all engines.
void expect_same_bits_on(int devices, const std::string& program) {
  const std::vector<std::string> arguments = {"api_paths/" + program};
  const ProcessResult plain = run_plain(arguments);
  const ProcessResult fits = run_preloaded(arguments);
  expect_same(plain, fits);
  // Only the requested output is printed.
  EXPECT_EQ(fits.err.find("thermocline: "), fits.err.find("thermocline: peak_live_bytes=")) << fits.err;
  EXPECT_EQ(statistic(fits, "evicted_bytes"), 0u);
  for (const std::uint64_t order : orders()) {
    const ProcessResult squeezed = run_preloaded(arguments, kBudget, order);
    expect_same(plain, squeezed);
    EXPECT_EQ(statistic(squeezed, "budget_bytes"), static_cast<std::uint64_t>(devices) * kBudgetBytes);
    EXPECT_LE(statistic(squeezed, "peak_device_bytes"), static_cast<std::uint64_t>(devices) * kBudgetBytes);
    EXPECT_GT(statistic(squeezed, "peak_live_bytes"), static_cast<std::uint64_t>(devices) * kBudgetBytes);
    EXPECT_GT(statistic(squeezed, "restored_bytes"), 0u);
    EXPECT_EQ(statistic(squeezed, "other_contexts"), 0u);
    // Memory that other devices access need not be pinned.
    EXPECT_EQ(statistic(squeezed, "pinned_buffers"), 0u);
  }
}

class Devices : public testing::TestWithParam<const char*> {};

TEST_P(Devices, GiveTheSameBits) { expect_same_bits_on(2, GetParam()); }

INSTANTIATE_TEST_SUITE_P(Small, Devices,
                         testing::Values("devices/from_elsewhere", "devices/loops", "devices/peer_copies",
                                         "devices/peers", "devices/reset", "devices/threads"),
                         [](const testing::TestParamInfo<const char*>& test) {
                           std::string name = test.param;
                           name[name.find('/')] = '_';
                           return name;
                         });

TEST(SeveralDevices, OneThatIsNotTheFirstGivesTheSameBits) { expect_same_bits_on(1, "devices/second_alone"); }

// Their streams end with them, and what the library made for these.
TEST(SeveralDevices, StreamsOfGreenContextsCopyWhatIsElsewhere) {
  const std::vector<std::string> arguments = {"api_paths/devices/green_visits"};
  const ProcessResult plain = run_plain(arguments);
  const ProcessResult squeezed = run_preloaded(arguments, kBudget);
  expect_same(plain, squeezed);
  EXPECT_GT(statistic(squeezed, "evicted_bytes"), 0u);
}

TEST(SeveralDevices, EachSaysItsOwnBudget) {
  const ProcessResult result = run_preloaded({"api_paths/devices/memory_info"}, kBudget);
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(result.out,
            "device 0: total 20971520 taken 4194304\n"
            "device 1: total 20971520 taken 8388608\n"
            "on 0, in its context\n"
            "on 1, in its context\n"
            "two buffers\n"
            "device 0: total 20971520 taken 0\n"
            "device 1: total 20971520 taken 8388608\n"
            "on 1, in its context\n");
}

// The driver refuses one call, of the program or of the library. If the program gets the error, it ends with it;
// otherwise it prints the same as without the library, which does without what was refused.
TEST(SeveralDevices, RefuseCleanlyOrGiveTheSameBitsWhereACallFails) {
  const std::vector<std::string> arguments = {"api_paths/devices/peer_copies"};
  const ProcessResult plain = run_plain(arguments);
  int went_on = 0;
  for (const char* function : {"cuStreamCreate", "cuEventCreate", "cuMemHostAlloc"}) {
    for (int call = 1; call <= 8; ++call) {
      const std::string fault = "fail " + std::string(function) + " call " + std::to_string(call) + " OUT_OF_MEMORY";
      SCOPED_TRACE(fault);
      const ProcessResult result = run_program(
          arguments, {.preload = {LIBRARY_FILE},
                      .budget = kBudget,
                      .order = 1,
                      .environment = {"THERMOCLINE_SIMULATE_DEVICES=2", "THERMOCLINE_SIMULATE_FAULTS=" + fault}});
      if (result.status == 0) {
        EXPECT_EQ(result.out, plain.out) << result.err;
        ++went_on;
      } else {
        EXPECT_EQ(result.status, 2) << result.err;
        EXPECT_NE(result.err.find("program: 2 from "), std::string::npos) << result.err;
      }
    }
  }
  EXPECT_GT(went_on, 0);
}

// The two devices, and how many buffers of 4 MiB each has in turn: `first`, `second`, and `then` the second one once the
// first has freed its own.
void expect_one_limit(const std::vector<std::string>& settings, const std::vector<std::uint64_t>& in_orders, int first,
                      int second, int then) {
  for (const std::uint64_t order : in_orders) {
    std::vector<std::string> environment = settings;
    environment.insert(environment.end(), {"THERMOCLINE_SIMULATE_DEVICES=2", "THERMOCLINE_HOST_LIMIT=64MiB"});
    const ProcessResult result =
        run_program({"api_paths/devices/one_host_limit"},
                    {.preload = {LIBRARY_FILE}, .budget = kBudget, .order = order, .environment = environment});
    EXPECT_EQ(result.status, 0) << result.err;
    const auto has = [&](const char* when, int device, int buffers) {
      return std::string(when) + " device " + std::to_string(device) + " has " + std::to_string(buffers) + "\n";
    };
    for (const std::string& line : {has("first", 0, first), has("first", 1, second), has("then", 1, then)})
      EXPECT_NE(result.out.find(line), std::string::npos) << line << result.out << result.err;
    EXPECT_NE(result.out.find(has("last", 0, first)), std::string::npos) << result.out << result.err;
    EXPECT_NE(result.err.find("no room on the host beside the process's other devices"), std::string::npos)
        << result.err;
  }
}

// The first device takes all of host_limit: the other one goes on with what fits its budget, and gets more when there is.
TEST(SeveralDevices, KeepOneHostLimit) {
  expect_one_limit({"THERMOCLINE_HOST_FALLBACK=off"}, {1}, 16, 5, 16);
  // An eighth, and at least 32 MiB, is for gaps.
  expect_one_limit({}, orders(), 8, 5, 8);
  expect_one_limit({"THERMOCLINE_HOST_FALLBACK=off", "THERMOCLINE_DIGESTS=auto"}, {0}, 16, 5, 16);
}

// Two devices, whose requests follow one another.
ProcessResult two_devices_under(std::vector<std::string> environment, std::vector<std::string> arguments = {}) {
  environment.emplace_back("THERMOCLINE_SIMULATE_DEVICES=2");
  arguments.insert(arguments.begin(), "api_paths/devices/one_host_limit");
  return run_program(arguments,
                     {.preload = {LIBRARY_FILE}, .budget = kBudget, .order = 1, .environment = std::move(environment)});
}

// With a file, the first device takes the limit in which both could pass through, and the second one is not refused:
// copies of the first go to its file. Each device has all the 24 buffers that it asks for.
TEST(SeveralDevices, WithAFileTheFirstMakesWay) {
  std::string folder = testing::TempDir() + "spill.XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  for (const std::string limit : {"96MiB", "100MiB"}) {
    const ProcessResult result =
        two_devices_under({"THERMOCLINE_HOST_LIMIT=" + limit, "THERMOCLINE_HOST_SPILL=" + folder}, {"24"});
    EXPECT_EQ(result.status, 0) << result.err;
    for (const char* const line : {"first device 0 has 24\n", "first device 1 has 24\n", "last device 0 has 24\n"})
      EXPECT_NE(result.out.find(line), std::string::npos) << line << result.out << result.err;
    EXPECT_EQ(result.err.find("out of memory"), std::string::npos) << result.err;
    EXPECT_EQ(statistic(result, "oom_reports"), 0u) << "tried again, and granted";
    EXPECT_GT(statistic(result, "spill_written_bytes"), 0u);
  }
  std::filesystem::remove_all(folder);
}

// The limit that a report advises is enough.
TEST(SeveralDevices, AreToldWhichHostLimitIsEnoughForTheirFiles) {
  std::string folder = testing::TempDir() + "spill.XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  const auto run_under = [&](const std::string& limit) {
    return two_devices_under({"THERMOCLINE_HOST_LIMIT=" + limit, "THERMOCLINE_HOST_SPILL=" + folder}, {"24"});
  };
  const ProcessResult refused = run_under("20MiB");
  EXPECT_NE(refused.err.find("too little host memory to pass through to the spill file"), std::string::npos)
      << refused.err;
  EXPECT_EQ(refused.err.find("says that it is full"), std::string::npos) << refused.err;
  std::smatch advised;
  ASSERT_TRUE(std::regex_search(refused.err, advised, std::regex("do     host_limit = \"([0-9]+MiB)\"")))
      << refused.err;
  const ProcessResult granted = run_under(advised[1]);
  EXPECT_NE(granted.out.find("first device 1 has 24\n"), std::string::npos) << granted.out << granted.err;
  EXPECT_EQ(granted.err.find("out of memory"), std::string::npos) << granted.err;
  std::filesystem::remove_all(folder);
}

TEST(SeveralDevices, AreToldOfTheSharedHostLimit) {
  const ProcessResult refused =
      two_devices_under({"THERMOCLINE_HOST_FALLBACK=off", "THERMOCLINE_HOST_GROUP=devices_" + std::to_string(getpid()),
                         "THERMOCLINE_HOST_LIMIT_SHARED=64MiB"});
  EXPECT_NE(refused.out.find("first device 0 has 16\n"), std::string::npos) << refused.out << refused.err;
  EXPECT_NE(refused.err.find("do     host_limit_shared = \""), std::string::npos) << refused.err;
  EXPECT_NE(refused.err.find("other devices of this one 64.0 MiB"), std::string::npos) << refused.err;
}

// Two of the four requests that it is refused were made again after the other device had been asked for memory.
TEST(SeveralDevices, CountARefusalOnce) {
  const ProcessResult refused = two_devices_under({"THERMOCLINE_HOST_FALLBACK=off", "THERMOCLINE_HOST_LIMIT=64MiB"});
  EXPECT_EQ(statistic(refused, "oom_reports"), 4u) << refused.out << refused.err;
}

TEST(SeveralDevices, AreToldWhatTheDriverPinsForAllOfThem) {
  const ProcessResult result = two_devices_under(
      {"THERMOCLINE_HOST_LIMIT=400MiB", "THERMOCLINE_SIMULATE_DRIVER=host_mapping=off,pinned=128MiB"});
  EXPECT_NE(result.err.find("the driver pins no more than 1"), std::string::npos) << result.err;
  EXPECT_EQ(result.err.find("pins no more than 0 bytes"), std::string::npos) << result.err;
}

}  // namespace
}  // namespace thermocline::test
