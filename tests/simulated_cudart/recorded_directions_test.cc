// SPDX-License-Identifier: Apache-2.0
// Recordings tell what kernels read and what they overwrite, as far as their code shows it.
#include <gtest/gtest.h>

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "tests/simulated_cudart/recompute_runs.h"

namespace {

using recompute_runs::Json;

struct Uses {
  std::vector<int> reads, writes;
};

class RecordedDirections : public testing::Test {
 protected:
  RecordedDirections()
      : folder_(std::filesystem::temp_directory_path() / ("thermocline_directions_" + std::to_string(getpid()))),
        trace_((folder_ / "training.jsonl").string()) {
    std::filesystem::create_directories(folder_);
  }
  ~RecordedDirections() override { std::filesystem::remove_all(folder_); }

  void record(const std::vector<std::string>& settings) {
    recorded_ = run_program(
        {COMMAND_FILE, "record", "-o", trace_, "--simulate", "reference", "--", TRAINING_PROGRAM, "2", "8", "3"},
        settings);
    ASSERT_EQ(recorded_.status, 0) << recorded_.errors;
    std::ifstream in(trace_);
    for (std::string line; std::getline(in, line);) {
      const Json event = Json::parse(line, nullptr, false);
      if (event.value("e", "") != "op") continue;
      uses_[event["k"]].push_back({event.value("r", std::vector<int>()), event.value("w", std::vector<int>())});
    }
  }
  // The uses of the kernel whose name has this part, the same each time.
  std::vector<Uses> uses_of(const std::string& part) const {
    std::vector<Uses> all;
    for (const auto& [name, uses] : uses_) {
      if (name.find(part) != std::string::npos) all.insert(all.end(), uses.begin(), uses.end());
    }
    return all;
  }
  void expect(const std::string& part, std::size_t reads, std::size_t writes, std::size_t both) const {
    SCOPED_TRACE(part);
    const std::vector<Uses> all = uses_of(part);
    EXPECT_FALSE(all.empty());
    for (const Uses& one : all) {
      const auto is_read = [&one](int buffer) { return std::ranges::count(one.reads, buffer) > 0; };
      EXPECT_EQ(one.reads.size(), reads);
      EXPECT_EQ(one.writes.size(), writes);
      EXPECT_EQ(static_cast<std::size_t>(std::ranges::count_if(one.writes, is_read)), both);
    }
  }

  std::filesystem::path folder_;
  std::string trace_;
  Outcome recorded_;
  std::map<std::string, std::vector<Uses>> uses_;
};

TEST_F(RecordedDirections, AreTrueWhereTheCodeShowsThem) {
  record({});
  expect("make_images", 0, 1, 0);
  expect("8convolveE", 2, 1, 0);
  expect("normalize_and_drop", 3, 1, 0);
  expect("4reluE", 1, 1, 1);
  expect("begin_backward", 1, 1, 0);
  expect("18normalize_backward", 5, 1, 1);
  expect("find_weight_gradients", 2, 1, 0);
  // It writes two parts of a buffer, which is read as well as far as is known. The rest is only read.
  expect("find_moments", 2, 1, 1);
}

TEST_F(RecordedDirections, AreThoseOfReplaysThatRecompute) {
  record({"THERMOCLINE_RECOMPUTE=auto"});
  expect("8convolveE", 2, 1, 0);
  const Outcome replayed = run_program({COMMAND_FILE, "replay", trace_, "--device", "reference", "--budget", "70%",
                                        "--exact", "--recompute", "auto", "--json"});
  EXPECT_EQ(replayed.status, 0) << replayed.errors;
  const Json result = Json::parse(replayed.output, nullptr, false);
  EXPECT_EQ(result.value("outcome", ""), "ok") << replayed.output;
  EXPECT_EQ(result.value("races", -1), 0);
}

TEST_F(RecordedDirections, AreWhatTheCommandTellsOfAProgram) {
  const std::string out = (folder_ / "kernels.json").string();
  const Outcome told = run_program(
      {COMMAND_FILE, "kernels", "--simulate", "reference", "--json", "-o", out, "--", TRAINING_PROGRAM, "2", "2", "4"});
  ASSERT_EQ(told.status, 0) << told.errors;
  EXPECT_EQ(told.output.find("digest "), 0u) << told.output;
  std::ifstream in(out);
  const Json object = Json::parse(in, nullptr, false);
  const Json convolve = recompute_runs::kernel_of_rows(object, "::convolve");
  ASSERT_TRUE(convolve.is_object()) << object;
  EXPECT_EQ(convolve["launches"], 8) << convolve;
  EXPECT_EQ(convolve["may_run_again"], 8) << convolve;
  EXPECT_EQ(convolve["arguments"][2]["access"], "written") << convolve;
  EXPECT_GT(convolve["us"], 0) << convolve;
  EXPECT_EQ(convolve["bytes"], 2 * 524288 + 576) << convolve;
  const Json moments = recompute_runs::kernel_of_rows(object, "::find_moments");
  EXPECT_EQ(moments["may_run_again"], 0) << moments;
  EXPECT_EQ(moments["why_not"], "the places that it stores to are not side by side from its buffer's begin on");
  // The result for the file is the same.
  const Outcome read = run_program({COMMAND_FILE, "kernels", TRAINING_PROGRAM, "--json"});
  const Json of_file = recompute_runs::kernel_of_rows(Json::parse(read.output, nullptr, false), "::convolve");
  EXPECT_EQ(of_file["arguments"], convolve["arguments"]) << read.errors;
  EXPECT_EQ(of_file["proven"], true);
}

}  // namespace
