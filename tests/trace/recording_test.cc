// SPDX-License-Identifier: Apache-2.0
// From a recording to a trace that replays can read.
#include "trace/convert.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <span>
#include <vector>

#include "telemetry/recording.h"
#include "trace/read.h"

namespace thermocline {
namespace {

constexpr std::uint64_t kBase = 0x7e0000000000;

class RecordingToTrace : public testing::Test {
 protected:
  RecordingToTrace() : folder_(std::filesystem::temp_directory_path() / ("recording_" + std::to_string(getpid()))) {
    std::filesystem::create_directories(folder_);
  }
  ~RecordingToTrace() override { std::filesystem::remove_all(folder_); }

  std::string path(const char* name) const { return (folder_ / name).string(); }
  void save(const std::string& bytes) const { std::ofstream(path("in"), std::ios::binary) << bytes; }
  void save() { save(std::string(kRecordingHeader) + writer_.take_block()); }
  bool convert() { return convert_recording(path("in"), path("out"), "train", &summary_, &reason_); }
  Trace trace() const {
    Trace trace;
    TraceError error;
    EXPECT_TRUE(read_trace(path("out"), &trace, &error)) << error.text();
    return trace;
  }
  void operate(std::uint64_t name, std::vector<MemoryAccess> accesses) {
    writer_.operate(name, 0, 100 + name, accesses);
  }
  void allocate(std::uint64_t at, Bytes bytes) { writer_.allocate(kBase + at, bytes, 0); }
  // Equal layers, one kernel each, up and down again. `unset(i)`: where a word of the i-th kernel's parameters that nobody
  // sets points to.
  template <class Unset>
  void passes(std::uint64_t layers, int count, Unset unset) {
    writer_.name(0, "layer");
    for (std::uint64_t i = 0; i < layers; ++i) allocate(i << 20, 1 << 20);
    const auto layer = [](std::uint64_t i) { return MemoryAccess{DeviceAddress{kBase + (i << 20)}}; };
    std::uint64_t launched = 0;
    for (int pass = 0; pass < count; ++pass) {
      for (std::uint64_t i = 1; i < layers; ++i) operate(0, {layer(i), layer(i - 1), layer(unset(launched++))});
      for (std::uint64_t i = layers - 1; i > 0; --i) operate(0, {layer(i - 1), layer(i), layer(unset(launched++))});
    }
  }
  // Numbers of operators.
  std::vector<std::size_t> steps() const {
    const Trace all = trace();
    std::vector<std::size_t> counts;
    for (const StepSpan& step : all.steps) {
      const std::span events = std::span(all.events).subspan(step.begin, step.end - step.begin);
      counts.push_back(static_cast<std::size_t>(std::ranges::count(events, EventKind::kOperator, &TraceEvent::kind)));
    }
    return counts;
  }
  void free(std::uint64_t at) { writer_.free(kBase + at, 0); }

  std::filesystem::path folder_;
  RecordingWriter writer_;
  RecordingSummary summary_;
  std::string reason_;
};

TEST_F(RecordingToTrace, WhatIsNoPlainFileIsWrittenAndNotReplacedAndAFullDiskIsTold) {
  writer_.name(0, "gemm");
  allocate(0, 4096);
  operate(0, {{DeviceAddress{kBase}}});
  save();
  std::filesystem::create_symlink("/dev/full", path("out"));
  EXPECT_FALSE(convert());
  EXPECT_EQ(reason_, path("out") + ": can not be written: No space left on device");
  EXPECT_TRUE(std::filesystem::is_symlink(path("out")));
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/full"));
  EXPECT_EQ(EventFile::partial_path(path("out")), "") << "it would be renamed to the name of what is no file";
}

TEST_F(RecordingToTrace, AddressesBecomeBuffers) {
  writer_.name(0, "gemm");
  writer_.name(1, "copy");
  allocate(0, 4096);
  allocate(4096, 4096);
  allocate(8192, 100);
  const DeviceAddress second{kBase + 4096};
  operate(0, {{DeviceAddress{kBase + 10}}, {DeviceAddress{kBase + 8192 + 100}}});  // inside, and one past the end
  operate(0, {{second}});  // the end of one buffer, the beginning of another
  operate(1, {{second, 8, Access::kRead}, {DeviceAddress{kBase}, 8, Access::kWrite}, {DeviceAddress{kBase + 9000}}});
  operate(1, {{second, 4096, Access::kRead}, {DeviceAddress{kBase}, 4096, Access::kWrite}});
  free(4096);
  allocate(4096, 4096);
  operate(0, {{second + 1}});
  writer_.duration(100, 2500);
  save();
  ASSERT_TRUE(convert()) << reason_;
  const Trace result = trace();
  ASSERT_EQ(result.buffers.size(), 4u);
  ASSERT_EQ(result.operators.size(), 5u);
  const auto operands = [&](std::size_t op, bool writes) {
    const TraceOperator& one = result.operators[op];
    const auto begin = result.operands.begin() + one.first_operand + (writes ? one.reads : 0);
    return std::vector<std::uint32_t>(begin, begin + (writes ? one.writes : one.reads));
  };
  EXPECT_EQ(operands(0, false), (std::vector<std::uint32_t>{0, 2}));
  EXPECT_EQ(operands(0, true), (std::vector<std::uint32_t>{0, 2})) << "what a kernel does with it is not known";
  EXPECT_EQ(operands(1, false), (std::vector<std::uint32_t>{1}));
  EXPECT_EQ(operands(2, false), (std::vector<std::uint32_t>{1, 0})) << "what is written in part keeps the rest";
  EXPECT_EQ(operands(2, true), (std::vector<std::uint32_t>{0}));
  EXPECT_EQ(operands(3, false), (std::vector<std::uint32_t>{1}));
  EXPECT_EQ(operands(3, true), (std::vector<std::uint32_t>{0}));
  EXPECT_EQ(operands(4, false), (std::vector<std::uint32_t>{3})) << "the address has another owner now";
  EXPECT_DOUBLE_EQ(result.operators[0].microseconds, 2.5);
  EXPECT_EQ(summary_.guessed, 2u) << "the copies";
  EXPECT_GT(result.operators[2].microseconds, 0);
  EXPECT_EQ(summary_.peak_live_bytes, 8292u);
}

TEST_F(RecordingToTrace, FindsTheStepsAndLeavesOutWhatIsBehindTheLast) {
  writer_.name(0, "setup");
  for (std::uint64_t i = 1; i <= 40; ++i) writer_.name(i, "op" + std::to_string(i));
  allocate(0, 1 << 20);
  operate(0, {{DeviceAddress{kBase}}});
  for (int step = 0; step < 4; ++step) {
    for (std::uint64_t i = 1; i <= 40; ++i) operate(i, {{DeviceAddress{kBase}}});
  }
  for (std::uint64_t i = 1; i <= 10; ++i) operate(i, {{DeviceAddress{kBase}}});
  allocate(2 << 20, 1 << 10);
  free(0);
  save();
  ASSERT_TRUE(convert()) << reason_;
  const Trace result = trace();
  EXPECT_EQ(summary_.steps, 5u) << "what comes before the first one is one, too";
  EXPECT_EQ(result.steps.size(), 5u);
  EXPECT_EQ(result.operators.size(), 161u);
  EXPECT_EQ(summary_.peak_live_bytes, Bytes{1 << 20});
  EXPECT_EQ(summary_.peak_with_rest_bytes, Bytes{(1 << 20) + (1 << 10)}) << "what is left out is told";
}

TEST_F(RecordingToTrace, TellsEqualLayersApartByTheirBuffers) {
  passes(10, 6, [](std::uint64_t) { return 0; });
  save();
  ASSERT_TRUE(convert()) << reason_;
  EXPECT_EQ(steps(), std::vector<std::size_t>(6, 18));
}

TEST_F(RecordingToTrace, WordsOfParametersThatNobodySetsHideNoEqualLayers) {
  passes(10, 12, [](std::uint64_t launch) { return launch * launch / 5 % 10; });
  save();
  ASSERT_TRUE(convert()) << reason_;
  EXPECT_EQ(steps(), std::vector<std::size_t>(12, 18));
}

TEST_F(RecordingToTrace, BelievesTheMarksOfTheProgram) {
  writer_.name(0, "op");
  allocate(0, 1 << 20);
  for (int step = 0; step < 3; ++step) {
    for (int i = 0; i < 5; ++i) operate(0, {{DeviceAddress{kBase}}});
    writer_.step();
  }
  save();
  ASSERT_TRUE(convert()) << reason_;
  EXPECT_EQ(trace().steps.size(), 3u);
}

TEST_F(RecordingToTrace, OfARecordingThatIsCutTheBeginningIsATrace) {
  writer_.name(0, "op");
  allocate(0, 4096);
  operate(0, {{DeviceAddress{kBase}}});
  const std::string first = writer_.take_block();
  operate(0, {{DeviceAddress{kBase}}});
  const std::string second = writer_.take_block();
  save(std::string(kRecordingHeader) + first + second.substr(0, second.size() - 3));
  ASSERT_TRUE(convert()) << reason_;
  EXPECT_TRUE(summary_.cut);
  EXPECT_EQ(trace().operators.size(), 1u);
}

TEST_F(RecordingToTrace, SaysWhatIsWrongAndLeavesTheOldTraceAlone) {
  std::ofstream(path("out")) << "precious";
  EXPECT_FALSE(convert());
  EXPECT_EQ(reason_, path("in") + ": can not be opened: No such file or directory");
  save("{}\n");
  EXPECT_FALSE(convert());
  EXPECT_EQ(reason_, path("in") + ": not a recording of this version: its first line is not 'thermocline-record/2'");
  EXPECT_EQ(std::filesystem::file_size(path("out")), 8u);
  writer_.step();
  save();
  EXPECT_FALSE(convert_recording(path("in"), path("none/out"), "", &summary_, &reason_));
  EXPECT_EQ(reason_, path("none/out") + ": can not be written: No such file or directory");
}

}  // namespace
}  // namespace thermocline
