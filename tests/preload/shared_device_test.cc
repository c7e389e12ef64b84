// SPDX-License-Identifier: Apache-2.0
// budget = "shared": programs that share a device, in turn and at once. The simulated device of one process does not
// know that of another, so what is checked of their memory is the sum of their leases, which the ledger keeps.
#include <gtest/gtest.h>

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/preload/running.h"
#include "tests/support/seeds.h"

namespace thermocline::test {
namespace {

using nlohmann::json;

constexpr std::uint64_t kDevice = 48 * kMiB;
// The program's memory: 8 buffers of 4 MiB.
constexpr std::uint64_t kAll = 32 * kMiB;
const std::string kStats = COMMAND_FILE " stats --json $SLEEPER";
const std::string kSleeper = PROGRAM_FOLDER "/sleeper ";

// A device of this test's own: its UUID is that of no other test's.
class SharedDevice : public testing::Test {
 protected:
  SharedDevice() : profile_("/tmp/s" + std::to_string(getpid())) {
    std::ofstream(profile_) << "like = \"reference\"\nmemory_bytes = " << kDevice << "\nsource = \"made up\"\n";
    environment_ = {"THERMOCLINE_SIMULATE_DEVICE=" + profile_, "THERMOCLINE_PAGE_BYTES=2MiB"};
  }
  ~SharedDevice() override {
    std::filesystem::remove(profile_);
    std::filesystem::remove_all(ledger());
  }

  std::string uuid() const {
    std::string uuid;
    for (std::size_t i = 0; i < 15; ++i) {
      char digits[3];
      std::snprintf(digits, sizeof digits, "%02x", i < profile_.size() ? static_cast<unsigned char>(profile_[i]) : 0U);
      uuid += digits;
    }
    return uuid + "00";
  }
  std::string ledger() const { return "/dev/shm/thermocline-device." + std::to_string(geteuid()) + "." + uuid(); }
  Running with(std::vector<std::string> more = {}, const std::string& budget = "shared") const {
    Running running{.preload = {LIBRARY_FILE}, .budget = budget, .environment = environment_};
    running.environment.insert(running.environment.end(), more.begin(), more.end());
    return running;
  }
  // Another program beside the first one, whose environment the commands have but for the library.
  static std::string beside(const std::string& arguments) {
    return "LD_LIBRARY_PATH=" SIMULATOR_FOLDER " LD_PRELOAD=" LIBRARY_FILE " THERMOCLINE_STATS=off " + kSleeper +
           arguments;
  }
  // As the last `stats` on it tells.
  json shares_in(const std::string& out) const {
    const std::size_t at = out.rfind("{\"schema\"");
    if (at == std::string::npos) return {};
    const json told = json::parse(out.substr(at, out.find('\n', at) - at), nullptr, false);
    for (const json& device : told["shared_devices"]) {
      if (device["uuid"] == uuid()) return device["processes"];
    }
    return {};
  }

  // Some are stopped first, as by a debugger, and killed while they stand still. THERMOCLINE_TEST_SEEDS=10000 kills a
  // hundred times as many.
  void kill_at_random_times(std::uint64_t kills_usually, int longest_ms) {
    const ProcessResult plain = run_plain({"sleeper", "works", "true"});
    const std::string all_kills = R"(exec bash -c '
      RANDOM=7
      for ((i = 0; i < )" + std::to_string(scaled_seeds(kills_usually)) +
                                  R"(; ++i)); do
        setsid env )" + beside("works \"sleep 9\"") +
                                  R"( >/dev/null 2>&1 & victim=$!
        sleep $(printf %d.%03d $((at = RANDOM % )" +
                                  std::to_string(longest_ms) + R"(, at / 1000)) $((at % 1000)))
        if ((RANDOM % 3 == 0)); then kill -STOP $victim; sleep 0.$((RANDOM % 4))2; fi
        kill -9 -- -$victim 2>/dev/null || kill -9 $victim || exit 1
        wait $victim
        [[ $? -eq 137 ]] || exit 1
      done')";
    const std::string look_for_leaks = COMMAND_FILE R"( stats >/dev/null
      for page in /dev/shm/thermocline.*; do kill -0 ${page##*.} || echo "left over: $page"; done)";
    // The memory of the last one returns within 10 ms where nothing else runs.
    const std::string until_all_is_back = R"sh(exec bash -c '
      for ((i = 0; i < 100; ++i)); do
        [[ "$()sh" + kStats + R"sh()" =~ \"lease_bytes\":([0-9]+) ]] && ((BASH_REMATCH[1] >= )sh" +
                                          std::to_string(kAll) +
                                          R"sh()) && exit
        sleep 0.1
      done')sh";
    const ProcessResult first =
        run_program({"sleeper", "works", all_kills, until_all_is_back, kStats, look_for_leaks}, with());
    EXPECT_EQ(first.status, 0) << first.out << first.err;
    EXPECT_EQ(first.out.find("left over"), std::string::npos) << first.out;
    EXPECT_TRUE(first.out.ends_with(plain.out)) << first.out << plain.out;
    const json shares = shares_in(first.out);
    ASSERT_EQ(shares.size(), 1u) << first.out;
    EXPECT_GE(shares[0]["lease_bytes"], kAll);
  }

  const std::string profile_;
  std::vector<std::string> environment_;
};

TEST_F(SharedDevice, OneAloneHasAllOfIt) {
  const ProcessResult plain = run_plain({"sleeper", "rests", "true"});
  const ProcessResult shared = run_program({"sleeper", "rests", "sleep 0.3", kStats}, with());
  EXPECT_EQ(shared.status, 0) << shared.err;
  EXPECT_EQ(statistic(shared, "evicted_bytes"), 0u) << shared.err;
  const json shares = shares_in(shared.out);
  ASSERT_EQ(shares.size(), 1u) << shared.out;
  EXPECT_EQ(shares[0]["command"], "sleeper");
  EXPECT_EQ(shares[0]["in_use_bytes"], kAll);
  EXPECT_GE(shares[0]["lease_bytes"], kAll);
  EXPECT_EQ(shares[0]["minimum_bytes"], kDevice / 10);
  EXPECT_EQ(shared.out.substr(0, shared.out.find('{')) + shared.out.substr(shared.out.find("}\n") + 2), plain.out);
}

// It may be less than what was used before it fell.
TEST_F(SharedDevice, TheTableCallsTheBudgetTheLastLease) {
  const ProcessResult shared = run_program({"sleeper", "rests", "true"}, with({"THERMOCLINE_STATS=table"}));
  EXPECT_EQ(shared.status, 0) << shared.err;
  EXPECT_NE(shared.err.find(" MiB = the last lease\n"), std::string::npos) << shared.err;
}

// The first rests while the second works, and then works again.
TEST_F(SharedDevice, ProgramsInTurnHaveWhatTheyNeedAndTheSameBits) {
  const ProcessResult plain = run_plain({"sleeper", "rests", "true"});
  const std::string second = beside("rests 'sleep 0.4' " + std::string("'") + COMMAND_FILE + " stats --json $SLEEPER'");
  const ProcessResult first = run_program({"sleeper", "rests", second}, with());
  EXPECT_EQ(first.status, 0) << first.err;
  const json shares = shares_in(first.out);
  ASSERT_EQ(shares.size(), 2u) << first.out << first.err;
  std::uint64_t sum = 0;
  for (const json& one : shares)
    sum += one["lease_bytes"].get<std::uint64_t>() + one["reserved_bytes"].get<std::uint64_t>();
  EXPECT_LE(sum, kDevice);
  // Together they hold more than there is, so one of them has given something back.
  EXPECT_GT(statistic(first, "evicted_bytes"), 0u) << first.err;
  std::size_t same = 0;
  for (std::size_t at = 0; (at = first.out.find(plain.out, at)) != std::string::npos; at += plain.out.size()) ++same;
  EXPECT_EQ(same, 2u) << first.out;
}

TEST_F(SharedDevice, ProgramsAtOnceComputeTheSameBits) {
  const ProcessResult plain = run_plain({"sleeper", "works", "true"});
  const std::string second = beside("works 'sleep 0.3'");
  const ProcessResult first = run_program({"sleeper", "works", second + " & " + second + " & wait"}, with());
  EXPECT_EQ(first.status, 0) << first.err;
  std::size_t same = 0;
  for (std::size_t at = 0; (at = first.out.find(plain.out, at)) != std::string::npos; at += plain.out.size()) ++same;
  EXPECT_EQ(same, 3u) << first.out << first.err;
}

TEST_F(SharedDevice, WhatAKilledProgramHeldReturns) {
  const std::string second = beside("works 'sleep 0.2' 'kill -9 $SLEEPER' ; sleep 0.3");
  const ProcessResult first = run_program({"sleeper", "rests", second + "; true", kStats}, with());
  EXPECT_EQ(first.status, 0) << first.err;
  const json shares = shares_in(first.out);
  ASSERT_EQ(shares.size(), 1u) << first.out;
  EXPECT_GE(shares[0]["lease_bytes"], kAll);
}

// Together they hold more than there is, and each uses all of it all the time. The link is so slow that this shows soon.
class ThrashingPrograms : public SharedDevice {
 protected:
  ThrashingPrograms() {
    std::ofstream(profile_, std::ios::app) << "link_to_host = 5e8\nlink_to_device = 5e8\n";
    environment_.push_back("THERMOCLINE_SHARE_SLICE=1s");
  }
  // Ends when `count` processes have had a slice, or after minutes.
  static std::string until_turns(int count) {
    return R"sh(bash -c '
    had=""
    for ((i = 0; i < 2000; ++i)); do
      while read -r pid; do [[ $had == *" $pid "* ]] || had+=" $pid "; done < <()sh" +
           kStats + R"sh( | jq -r ".shared_devices[].processes[] | select(.has_slice) | .pid")
      set -- $had
      (($# == )sh" +
           std::to_string(count) + R"sh()) && echo "turns taken" && exit
      sleep 0.02
    done')sh";
  }
};

TEST_F(ThrashingPrograms, TakeTurnsAndComputeTheSameBits) {
  const ProcessResult plain = run_plain({"sleeper", "works", "true"});
  const std::string done = profile_ + ".done";
  const std::string second = beside("works 'until [ -e " + done + " ]; do sleep 0.05; done'");
  const ProcessResult first = run_program(
      {"sleeper", "works", second + " & " + until_turns(2) + "; : >" + done + "; wait; rm " + done}, with());
  EXPECT_EQ(first.status, 0) << first.err;
  EXPECT_NE(first.out.find("turns taken"), std::string::npos) << first.out << first.err;
  std::size_t same = 0;
  for (std::size_t at = 0; (at = first.out.find(plain.out, at)) != std::string::npos; at += plain.out.size()) ++same;
  EXPECT_EQ(same, 2u) << first.out << first.err;
}

TEST_F(SharedDevice, KillsAtRandomTimesLeaveTheOthersAsTheyWere) { kill_at_random_times(10, 300); }

// Also while one of them has the time slice, or waits for it.
TEST_F(ThrashingPrograms, KillsAtRandomTimesLeaveTheOthersAsTheyWere) { kill_at_random_times(3, 2'000); }

TEST_F(SharedDevice, AMinimumIsCutToWhatOthersLeaveAndSaid) {
  const std::string second = "THERMOCLINE_SHARE_MINIMUM=70% " + beside("rests true");
  const ProcessResult first = run_program({"sleeper", "rests", second}, with({"THERMOCLINE_SHARE_MINIMUM=60%"}));
  EXPECT_EQ(first.status, 0) << first.err;
  EXPECT_NE(first.err.find(
                "share_minimum = 33.6 MiB is more than the device has beyond the minimums of the processes before it"),
            std::string::npos)
      << first.err;
}

TEST_F(SharedDevice, APercentageThatIsLessThanAPageIsAPage) {
  const ProcessResult percentage =
      run_program({"sleeper", "rests", "sleep 0.3", kStats}, with({"THERMOCLINE_SHARE_MINIMUM=1%"}));
  EXPECT_EQ(percentage.status, 0) << percentage.err;
  const json shares = shares_in(percentage.out);
  ASSERT_EQ(shares.size(), 1u) << percentage.out << percentage.err;
  EXPECT_EQ(shares[0]["minimum_bytes"], 2 * kMiB);
  const ProcessResult bytes = run_program({"sleeper", "rests", "true"}, with({"THERMOCLINE_SHARE_MINIMUM=64KiB"}));
  EXPECT_NE(bytes.err.find("share_minimum = 65536 bytes is less than a page; give 2.0 MiB or more"), std::string::npos)
      << bytes.err;
}

TEST_F(SharedDevice, WithoutALedgerTheBudgetIsFixedAndThatIsSaid) {
  const ProcessResult plain = run_plain({"sleeper", "rests", "true"});
  std::filesystem::create_directory(ledger());
  if (std::filesystem::is_directory("/run/user/" + std::to_string(geteuid())))
    GTEST_SKIP() << "there is another folder";
  const ProcessResult alone = run_program({"sleeper", "rests", "true"}, with());
  expect_same(plain, alone);
  EXPECT_NE(alone.err.find("can not be shared: /dev/shm/"), std::string::npos) << alone.err;
  EXPECT_NE(alone.err.find("the budget is what is free there now"), std::string::npos) << alone.err;
  const ProcessResult strict = run_program({"sleeper", "rests", "true"}, with({"THERMOCLINE_STRICT=true"}));
  EXPECT_NE(strict.status, 0);
  EXPECT_NE(strict.err.find("budget = \"shared\" can not be kept"), std::string::npos) << strict.err;
}

TEST_F(SharedDevice, BadSettingsAreSaid) {
  for (const char* setting : {"THERMOCLINE_SHARE_MINIMUM=120%", "THERMOCLINE_SHARE_WEIGHT=0",
                              "THERMOCLINE_SHARE_WEIGHT=many", "THERMOCLINE_SHARE_WEIGHT=10001"}) {
    const ProcessResult result = run_program({"sleeper", "rests", "true"}, with({setting}));
    EXPECT_EQ(result.status, 0) << result.err;
    EXPECT_NE(result.err.find(std::string(setting).substr(0, std::string(setting).find('='))), std::string::npos)
        << result.err;
  }
}

TEST_F(SharedDevice, TheChildOfAForkHasNone) {
  const ProcessResult result = run_program({"sleeper", "forks", kStats, kStats}, with());
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(shares_in(result.out).size(), 1u) << result.out;
}

}  // namespace
}  // namespace thermocline::test
