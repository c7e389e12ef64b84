// SPDX-License-Identifier: Apache-2.0
// The forms of a trace: a conversion keeps everything, and a truncated, damaged or unknown file is reported.
#include "trace/event_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <random>

#include "tests/support/seeds.h"
#include "tests/trace/trace_file.h"
#include "trace/convert.h"
#include "trace/event_lines.h"

namespace thermocline::test {
namespace {

constexpr std::string_view kBegin = R"({"schema":"thermocline-trace/1","model":"a \"b\""})";

class Kept : public EventSink {
 public:
  std::string header(std::string_view json) override {
    header_text = json;
    return "";
  }
  std::string event(const EventFields& fields, std::size_t line) override {
    events.push_back(fields);
    EXPECT_EQ(line, events.size() + 1);
    return "";
  }
  std::string header_text;
  std::vector<EventFields> events;
};

std::vector<EventFields> every_kind() {
  EventFields allocation, operation, free, step;
  allocation.kind = "alloc";
  allocation.buffer = 7;
  allocation.bytes = std::int64_t{1} << 40;
  allocation.tag = "layer 3, \"weights\"";
  allocation.thread = 2;
  operation.kind = "op";
  operation.name = "gemm\n\xC3\xA9";
  operation.reads = {7, 3, 9'000'000'000, 7};
  operation.writes = {7};
  operation.flops = 1e300;
  operation.traffic = 0.1;
  operation.microseconds = 12345.678901234567;
  operation.stream = 140'000'000'000;
  operation.device = 1;
  free.kind = "free";
  free.buffer = -7;
  step.kind = "step";
  step.index = std::numeric_limits<std::int64_t>::min();
  EventFields choice = {}, chosen = operation;
  choice.kind = "choice";
  choice.choice = -3;
  choice.name = "attention";
  choice.alternatives = {"math", "flash \"2\"", ""};
  chosen.choice = -3;
  chosen.alternative = "flash \"2\"";
  EventFields divided = operation;
  divided.slices = 1024;
  divided.split = {9'000'000'000, 7};
  EventFields bare;
  bare.kind = "op";
  bare.name = operation.name;
  bare.microseconds = 0;
  return {allocation, operation, free, bare, step, choice, chosen, divided};
}

class Forms : public testing::Test {
 protected:
  Forms() : folder_(std::filesystem::temp_directory_path() / ("thermocline_forms_" + std::to_string(getpid()))) {
    std::filesystem::create_directories(folder_);
  }
  ~Forms() override { std::filesystem::remove_all(folder_); }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  std::string bytes(const std::string& name) const {
    std::ifstream in(path(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  std::string put(const std::string& name, std::string_view contents) const {
    std::ofstream(path(name), std::ios::binary) << contents;
    return path(name);
  }
  void write(const std::string& name, const std::vector<EventFields>& events) const {
    std::string reason;
    const std::unique_ptr<EventFile> file = EventFile::open(path(name), &reason);
    ASSERT_NE(file, nullptr) << reason;
    EXPECT_EQ(file->header(kBegin), "");
    for (const EventFields& event : events) EXPECT_EQ(file->event(event, 0), "");
    EXPECT_EQ(file->finish(), "");
  }

  std::filesystem::path folder_;
};

TEST_F(Forms, WhatGoesIntoAFormComesOutOfIt) {
  const std::vector<EventFields> events = every_kind();
  for (const char* name : {"t.jsonl", "t.jsonl.gz", "t.trace"}) {
    write(name, events);
    Kept kept;
    TraceError error;
    ASSERT_TRUE(read_events(path(name), &kept, &error, nullptr)) << error.text();
    EXPECT_EQ(kept.header_text, kBegin);
    ASSERT_EQ(kept.events.size(), events.size()) << name;
    for (std::size_t i = 0; i < events.size(); ++i) EXPECT_EQ(kept.events[i], events[i]) << name << ": " << i;
  }
  EXPECT_TRUE(bytes("t.jsonl").starts_with("{\"schema\""));
  EXPECT_TRUE(bytes("t.jsonl.gz").starts_with("\x1f\x8b"));
  EXPECT_TRUE(bytes("t.trace").starts_with(kEventBlocksHeader));
}

TEST_F(Forms, ARecordedStepSurvivesEveryConversionByteForByte) {
  const std::string original = std::string(THERMOCLINE_TRACES) + "/resnet50_b64.jsonl.gz";
  Converted converted;
  TraceError error;
  ASSERT_TRUE(convert_trace(original, path("a.jsonl"), nullptr, &converted, &error, nullptr)) << error.text();
  ASSERT_TRUE(convert_trace(path("a.jsonl"), path("b.trace"), nullptr, &converted, &error, nullptr)) << error.text();
  ASSERT_TRUE(convert_trace(path("b.trace"), path("c.jsonl"), nullptr, &converted, &error, nullptr)) << error.text();
  EXPECT_EQ(converted.events, 8514u);
  EXPECT_EQ(bytes("c.jsonl"), bytes("a.jsonl"));
  EXPECT_LT(bytes("b.trace").size(), bytes("a.jsonl").size() / 10);
}

TEST_F(Forms, BlocksThatAreCutAreReadUpToThereAndDamageIsNeverTakenForEvents) {
  std::vector<EventFields> events;
  std::mt19937 random(1);
  EventFields one = every_kind()[1];
  // Ids that do not compress, for several blocks.
  for (int i = 0; i < 150'000; ++i) {
    one.reads = {static_cast<std::int64_t>(random()), static_cast<std::int64_t>(random())};
    events.push_back(one);
  }
  write("whole", events);
  const std::string whole = bytes("whole");
  std::size_t before = 0;
  // Under sanitizers at fewer places: fuzz_trace reads damaged files there.
  for (std::size_t i = 0; i < 20; i += percent_of_seeds() >= 100 ? 1 : 6) {
    put("cut", std::string_view(whole).substr(0, whole.size() * i / 20));
    Kept kept;
    TraceError error;
    std::vector<std::string> warnings;
    if (!read_events(path("cut"), &kept, &error, &warnings)) {
      EXPECT_TRUE(kept.events.empty());
      continue;
    }
    ASSERT_EQ(warnings.size(), 1u);
    EXPECT_EQ(warnings[0], "the file is truncated or damaged; the " + std::to_string(kept.events.size()) +
                               " events before that are read");
    EXPECT_GE(kept.events.size(), before);
    before = kept.events.size();
    EXPECT_TRUE(std::equal(kept.events.begin(), kept.events.end(), events.begin()));
    std::string damaged = whole;
    damaged[whole.size() * i / 20] ^= 4;
    Kept others;
    if (!read_events(put("damaged", damaged), &others, &error, &warnings)) continue;
    EXPECT_LT(others.events.size(), events.size());
    EXPECT_TRUE(std::equal(others.events.begin(), others.events.end(), events.begin()));
  }
  EXPECT_GT(before, events.size() / 2);
}

TEST_F(Forms, AFigureThatJsonDoesNotHaveIsDamage) {
  for (const double figure : {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
    EventFields step = every_kind().back();
    step.flops = figure;
    write("t", {every_kind().front(), step});
    Kept kept;
    TraceError error;
    std::vector<std::string> warnings;
    EXPECT_TRUE(read_events(path("t"), &kept, &error, &warnings));
    EXPECT_EQ(kept.events.size(), 1u);
    EXPECT_EQ(warnings.size(), 1u);
  }
}

TEST_F(Forms, WhatCanNotBeReadIsSaid) {
  const auto reason = [&](std::string_view contents) {
    Kept kept;
    TraceError error;
    EXPECT_FALSE(read_events(put("x", contents), &kept, &error, nullptr)) << contents;
    return error.text().substr(path("x").size());
  };
  EXPECT_EQ(reason("thermocline-trace-blocks/2\n"),
            ": a packed trace of another version: its first line is not 'thermocline-trace-blocks/1'");
  EXPECT_EQ(reason("thermocline-record/1\n"),
            ": not a recording of this version: its first line is not 'thermocline-record/2'");
  EXPECT_EQ(reason(kEventBlocksHeader), ": the file is truncated or damaged within its first block");
  EXPECT_EQ(reason(""), ": not a trace: the file is empty");
  EXPECT_EQ(reason("{}\n{\"e\":1}\n"), ":2: not a valid event at column 6, field \"e\": expected a string");
}

TEST_F(Forms, WhatIsNoTraceIsNotConvertedAndTheOldFileStays) {
  put("old", "precious");
  put("bad.jsonl", std::string(kBegin).append("\n").append(op("a", {3}, {}, 1)).append("\n"));
  Converted converted;
  TraceError error;
  EXPECT_FALSE(convert_trace(path("bad.jsonl"), path("old"), nullptr, &converted, &error, nullptr));
  EXPECT_EQ(error.text(), path("bad.jsonl") + ":2: buffer 3 is not alive: it was never allocated");
  EXPECT_EQ(bytes("old"), "precious");
  EXPECT_FALSE(std::filesystem::exists(EventFile::partial_path(path("old"))));
}

TEST_F(Forms, AFullDiskIsToldInEveryForm) {
  const std::string original = std::string(THERMOCLINE_TRACES) + "/unet3d_b1_128.jsonl.gz";
  for (const char* name : {"full.jsonl", "full.jsonl.gz", "full.trace"}) {
    std::filesystem::create_symlink("/dev/full", path(name));
    Converted converted;
    TraceError error;
    EXPECT_FALSE(convert_trace(original, path(name), nullptr, &converted, &error, nullptr));
    EXPECT_EQ(error.text(), path(name) + ": can not be written: No space left on device");
    EXPECT_TRUE(std::filesystem::is_symlink(path(name)));
  }
}

TEST(EventLines, ANameThatIsNoTextBecomesOne) {
  EventFields event;
  event.kind = "op";
  event.name = "a\xFF";
  std::string line;
  append_event_line(event, &line);
  EXPECT_EQ(line, "{\"e\":\"op\",\"k\":\"a\xEF\xBF\xBD\",\"r\":[],\"w\":[]}");
}

}  // namespace
}  // namespace thermocline::test
