// SPDX-License-Identifier: Apache-2.0
#include "tool/stats_text.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "offload/statistic_names.h"

namespace thermocline {
namespace {

using nlohmann::json;

constexpr std::size_t kColumns = 80;

LiveStatistics full(std::uint64_t number) {
  LiveStatistics process;
  process.pid = 4'194'304;  // the largest there is (proc(5), pid_max)
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

TEST(StatsText, PrometheusReadsLabelsWithQuotes) {
  ProcessView view;
  view.now = full(5);
  const std::string text = as_prometheus({view});
  EXPECT_NE(text.find("# TYPE thermocline_live_bytes gauge\nthermocline_live_bytes{pid=\"4194304\",program=\"python "
                      "\\\"a very long name of a program\\\" --with --some=arguments\\\\ "),
            std::string::npos)
      << text.substr(0, 600);
}

}  // namespace
}  // namespace thermocline
