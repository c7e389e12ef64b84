// SPDX-License-Identifier: Apache-2.0
#include "tool/stats_text.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <sstream>

#include "telemetry/statistic_names.h"

namespace thermocline {
namespace {

using nlohmann::json;

constexpr std::size_t kColumns = 80;

LiveStatistics full(std::uint64_t number) {
  LiveStatistics process;
  process.pid = 4'194'304;  // the maximum (proc(5), pid_max)
  process.version = "0.1.0";
  process.program =
      "python \"a very long name of a program\" --with --some=arguments\\ --and --even --more --of --them";
  process.values.assign(statistics_table().size(), number);
  process.written = std::chrono::seconds(10);
  return process;
}

void expect_narrow(const std::string& text) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), kColumns) << line;
}

TEST(StatsText, FitsEightyColumnsWhateverTheNumbers) {
  LiveStatistics before = full(0);
  before.written = std::chrono::seconds(9);
  for (const std::uint64_t number : {std::uint64_t{0}, std::uint64_t{1'023} << 30, std::uint64_t{1} << 50}) {
    ProcessView view;
    view.now = full(number);
    view.before = &before;
    expect_narrow(detailed(view));
    expect_narrow(overview({view, view}));
    view.answered = false;
    expect_narrow(detailed(view));
    expect_narrow(overview({view, view}));
    view.now.rank = {9999, 127, 10000};
    expect_narrow(detailed(view));
    expect_narrow(overview({view, view}));
    view.now.values.clear();
    expect_narrow(detailed(view));
    expect_narrow(overview({view}));
  }
}

TEST(StatsText, AProcessThatKnowsFewerRowsHasFewer) {
  ProcessView view;
  view.now = full(7);
  view.now.values.resize(3);
  const json found = json::parse(as_json({view}));
  EXPECT_EQ(found["processes"][0]["statistics"].size(), 3u);
  EXPECT_NE(detailed(view).find("live"), std::string::npos);
}

TEST(StatsText, RatesAreWhatHappenedPerSecond) {
  ProcessView view;
  LiveStatistics before = full(0);
  view.now = full(std::uint64_t{6} << 20);
  before.written = view.now.written - std::chrono::seconds(2);
  view.before = &before;
  EXPECT_NE(detailed(view).find("3.00 MiB a second"), std::string::npos) << detailed(view);
}

TEST(StatsText, RanksAreShownAndAddedUp) {
  ProcessView first, second, alone;
  first.now = full(std::uint64_t{3} << 30);
  second.now = full(std::uint64_t{4} << 30);
  alone.now = full(std::uint64_t{1} << 30);
  first.now.rank = {0, 0, 2};
  second.now.rank = {1, 1, 2};
  const std::string text = overview({first, second, alone});
  std::istringstream lines(text);
  std::vector<std::string> all;
  for (std::string line; std::getline(lines, line);) all.push_back(line);
  ASSERT_EQ(all.size(), 5u) << text;
  EXPECT_TRUE(all[0].starts_with("RANK     PID PROGRAM ")) << text;
  EXPECT_TRUE(all[1].starts_with("   0 4194304 ")) << text;
  EXPECT_TRUE(all[2].starts_with("   1 4194304 ")) << text;
  EXPECT_TRUE(all[3].starts_with("   - 4194304 ")) << text;
  EXPECT_NE(all[4].find(" all "), std::string::npos) << text;
  EXPECT_NE(all[4].find(" 8.00 GiB  8.00 GiB  100%  8.00 GiB"), std::string::npos) << text;
  const json found = json::parse(as_json({first, second, alone}));
  EXPECT_EQ(found["processes"][1]["rank"], 1);
  EXPECT_EQ(found["processes"][1]["world_size"], 2);
  EXPECT_TRUE(found["processes"][2]["rank"].is_null());
  EXPECT_EQ(found["all"]["processes"], 3);
  EXPECT_EQ(found["all"]["sum"]["live_bytes"], std::uint64_t{8} << 30);
  EXPECT_EQ(found["all"]["largest"]["peak_live_bytes"], std::uint64_t{4} << 30);
  EXPECT_EQ(found["all"]["largest"]["host_shared_bytes"], std::uint64_t{4} << 30) << "one number for all";
  EXPECT_FALSE(found["all"]["sum"].contains("peak_live_bytes"));
  EXPECT_NE(as_prometheus({second}).find("\",rank=\"1\"} 4294967296\n"), std::string::npos);
}

TEST(StatsText, PrometheusReadsLabelsWithQuotes) {
  ProcessView view;
  view.now = full(5);
  const std::string text = as_prometheus({view});
  EXPECT_NE(
      text.find(
          "# TYPE thermocline_live_bytes gauge\nthermocline_live_bytes{pid=\"4194304\",uid=\"0\",program=\"python "
          "\\\"a very long name of a program\\\" --with --some=arguments\\\\ "),
      std::string::npos)
      << text.substr(0, 600);
}

TEST(StatsText, PrometheusReadsLabelsWithNewlinesAndBackslashes) {
  ProcessView view;
  view.now = full(5);
  view.now.program = "a\nthermocline_live_bytes{pid=\"1\"} 7 \\";
  const std::string text = as_prometheus({view});
  EXPECT_NE(text.find("program=\"a\\nthermocline_live_bytes{pid=\\\"1\\\"} 7 \\\\\"} 5\n"), std::string::npos)
      << text.substr(0, 600);
  EXPECT_EQ(text.find("\nthermocline_live_bytes{pid=\"1\"}"), std::string::npos);
}

TEST(StatsText, AnotherUsersProcessIsShownWithItsUserAndRulesNoTerminal) {
  ProcessView mine, other;
  mine.now = full(1);
  mine.now.owner = geteuid();
  other.now = full(1);
  other.now.owner = geteuid() + 1234;
  other.now.program =
      "\033[2Jpython\r\xc2\x9b"
      "1mx";
  const std::string user = std::to_string(other.now.owner) + ":";
  for (const std::string& text : {detailed(other), overview({mine, other})}) {
    EXPECT_NE(text.find(user + "?[2Jpython"), std::string::npos) << text;
    EXPECT_EQ(text.find_first_of("\033\r\x9b"), std::string::npos) << text;
    expect_narrow(text);
  }
  EXPECT_EQ(detailed(mine).find(':'), std::string::npos);
  EXPECT_EQ(json::parse(as_json({other}))["processes"][0]["uid"], other.now.owner);
}

TEST(StatsText, WhoHoldsWhatOfASharedDeviceIsShown) {
  SharedDevice device{"00ff", {}};
  device.processes.push_back({.pid = 4711,
                              .command = "a\033[2J program with a long name",
                              .weight = 10000,
                              .device_bytes = Bytes{80} << 30,
                              .reserve = Bytes{512} << 20,
                              .minimum = Bytes{8} << 30,
                              .demand = Bytes{90} << 30,
                              .lease = Bytes{60} << 30,
                              .in_use = Bytes{59} << 30,
                              .active_until_ns = 100});
  const std::string text = shares({device}, 100);
  expect_narrow(text);
  EXPECT_NE(text.find("device 00ff, 80.0 GiB, shared by 1"), std::string::npos) << text;
  EXPECT_NE(text.find("60.0 GiB"), std::string::npos) << text;
  EXPECT_NE(text.find("active"), std::string::npos) << text;
  EXPECT_EQ(text.find('\033'), std::string::npos) << text;
  EXPECT_NE(shares({device}, 101).find("idle"), std::string::npos);
  EXPECT_EQ(shares({}, 0), "");
  const json found = json::parse(as_json({}, {device}, 101))["shared_devices"];
  EXPECT_EQ(found[0]["uuid"], "00ff");
  EXPECT_EQ(found[0]["processes"][0]["lease_bytes"], Bytes{60} << 30);
  EXPECT_FALSE(found[0]["processes"][0]["active"].get<bool>());
}

TEST(StatsText, WhoHasTheTimeSliceIsShown) {
  LeaseRecord one;
  one.pid = 11;
  one.active_until_ns = 2'000;
  one.slice = {.looked_ns = 900, .marked_until_ns = 5'000, .begun_ns = 100, .until_ns = 3'000};
  LeaseRecord other = one, third = one;
  other.pid = 22;
  other.slice.begun_ns = other.slice.until_ns = 0;
  third.pid = 33;
  third.slice = {};
  const SharedDevice device{"00ff", {one, other, third}};
  const std::string text = shares({device}, 1'000);
  expect_narrow(text);
  EXPECT_LT(text.find(" 11 "), text.find("slice")) << text;
  EXPECT_LT(text.find("slice"), text.find(" 22 ")) << text;
  EXPECT_LT(text.find(" 22 "), text.find("waits")) << text;
  EXPECT_LT(text.find("waits"), text.find("active")) << text;
  const json found = json::parse(as_json({}, {device}, 1'000))["shared_devices"][0]["processes"];
  EXPECT_TRUE(found[0]["takes_turns"].get<bool>());
  EXPECT_TRUE(found[0]["has_slice"].get<bool>());
  EXPECT_TRUE(found[1]["takes_turns"].get<bool>());
  EXPECT_FALSE(found[1]["has_slice"].get<bool>());
  EXPECT_FALSE(found[2]["takes_turns"].get<bool>());
}

TEST(StatsText, RatesThatCanNotBeAreNoneTheLess) {
  ProcessView view;
  LiveStatistics before = full(0);
  view.now = full(UINT64_MAX);
  before.written = view.now.written - std::chrono::nanoseconds(1);
  view.before = &before;
  EXPECT_NE(detailed(view).find("8.00 EiB a second"), std::string::npos) << detailed(view);
}

}  // namespace
}  // namespace thermocline
