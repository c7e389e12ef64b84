// SPDX-License-Identifier: Apache-2.0
// The library's recording of a program: complete, within a limit, and if the program was killed.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tests/preload/running.h"
#include "trace/event_file.h"
#include "trace/read.h"

namespace thermocline::test {
namespace {

namespace fs = std::filesystem;

class Kept : public EventSink {
 public:
  std::string header(std::string_view /*json*/) override { return ""; }
  std::string event(const EventFields& fields, std::size_t /*line*/) override {
    events.push_back(fields);
    return "";
  }
  std::vector<EventFields> events;
};

class Recorded : public testing::Test {
 protected:
  Recorded() : folder_(fs::temp_directory_path() / ("thermocline_recorded_" + std::to_string(getpid()))) {
    fs::create_directories(folder_);
  }
  ~Recorded() override { fs::remove_all(folder_); }

  ProcessResult record(std::vector<std::string> arguments, std::vector<std::string> environment = {}) const {
    arguments.insert(arguments.begin(), "recorded");
    return record_program(arguments, environment);
  }
  ProcessResult record_program(const std::vector<std::string>& arguments,
                               std::vector<std::string> environment = {}) const {
    environment.push_back("THERMOCLINE_RECORD=" + (folder_ / "r").string());
    return run_program(arguments, {.preload = {LIBRARY_FILE}, .budget = "", .order = 0, .environment = environment});
  }
  // The names of all files, the older part last.
  std::vector<std::string> files() const {
    std::vector<std::string> found;
    for (const fs::directory_entry& entry : fs::directory_iterator(folder_)) found.push_back(entry.path().string());
    std::ranges::sort(found);
    return found;
  }
  static Trace read(const std::string& path, std::vector<std::string>* warnings = nullptr) {
    Trace trace;
    TraceError error;
    EXPECT_TRUE(read_trace(path, &trace, &error, warnings)) << error.text();
    trace.validate();
    return trace;
  }
  static std::vector<EventFields> events(const std::string& path) {
    Kept kept;
    TraceError error;
    EXPECT_TRUE(read_events(path, &kept, &error, nullptr)) << error.text();
    return kept.events;
  }
  // The live buffers at its beginning include some that were allocated long before.
  static bool begins_with_weights(const std::string& path) {
    for (const EventFields& event : events(path)) {
      if (event.kind != "alloc") return false;
      if (event.tag == "weights") return event.bytes == 65536;
    }
    return false;
  }

  fs::path folder_;
};

TEST_F(Recorded, StepsTagsAndThreadsAreInTheTrace) {
  ASSERT_EQ(record({"5"}).status, 0);
  ASSERT_EQ(files().size(), 1u);
  const Trace trace = read(files().front());
  EXPECT_EQ(trace.steps.size(), 5u);
  EXPECT_EQ(trace.buffers.size(), 6u);
  EXPECT_EQ(trace.operators.size(), 5u * 20 + 1);
  int tagged_weights = 0, tagged_activations = 0, on_other_thread = 0;
  for (const EventFields& event : events(files().front())) {
    if (event.tag == "weights") ++tagged_weights;
    if (event.tag == "activations") ++tagged_activations;
    if (event.thread.value_or(0) != 0) {
      ++on_other_thread;
      EXPECT_EQ(event.kind, "op");
    }
  }
  EXPECT_EQ(tagged_weights, 1);
  EXPECT_EQ(tagged_activations, 5);
  EXPECT_EQ(on_other_thread, 1);
}

// Nothing but its buffers tells a pass from a launch, and what its structures seem to point to differs from pass to pass.
TEST_F(Recorded, APassThroughEqualLayersIsOneStep) {
  const ProcessResult result = record_program({"recorded_layers"});
  ASSERT_EQ(result.status, 0) << result.err;
  ASSERT_EQ(files().size(), 1u);
  const Trace trace = read(files().front());
  EXPECT_EQ(trace.operators.size(), 12 * 18u);
  ASSERT_EQ(trace.steps.size(), 12u);
  for (const StepSpan& step : trace.steps) {
    const auto begin = trace.events.begin() + static_cast<std::ptrdiff_t>(step.begin);
    const auto end = trace.events.begin() + static_cast<std::ptrdiff_t>(step.end);
    EXPECT_EQ(std::count_if(begin, end, [](const TraceEvent& e) { return e.kind == EventKind::kOperator; }), 18);
  }
}

TEST_F(Recorded, WithinALimitTheNewestStepsAreKeptAndWhatWasAliveBeforeIsKnown) {
  ASSERT_EQ(record({"1000"}, {"THERMOCLINE_RECORD_LIMIT=65536"}).status, 0);
  const std::vector<std::string> parts = files();
  ASSERT_EQ(parts.size(), 2u);
  EXPECT_EQ(parts[1], parts[0] + ".older");
  EXPECT_LE(fs::file_size(parts[0]) + fs::file_size(parts[1]), 65536u + 2048u) << "and what stands at the beginnings";
  const Trace trace = read(parts[0]);
  EXPECT_LT(trace.steps.size(), 500u);
  EXPECT_GT(trace.steps.size(), 20u);
  // The last two steps are those after the thread; only whole steps count.
  for (const StepSpan& step : trace.steps) EXPECT_GE(step.end - step.begin, 22u);
  EXPECT_EQ(trace.operators.size(), trace.steps.size() * 20 + 1);
  EXPECT_TRUE(begins_with_weights(parts[0]));
  // The newer part alone is a recording too.
  fs::remove(parts[1]);
  const Trace newer = read(parts[0]);
  EXPECT_LT(newer.steps.size(), trace.steps.size());
  EXPECT_GT(newer.steps.size(), 5u);
  EXPECT_TRUE(begins_with_weights(parts[0]));
}

TEST_F(Recorded, OfAProgramThatIsKilledTheWholeBlocksAreThere) {
  EXPECT_EQ(record({"1000", "killed"}, {"THERMOCLINE_RECORD_LIMIT=262144"}).status, 128 + 9);
  std::vector<std::string> warnings;
  const Trace trace = read(files().front(), &warnings);
  // Blocks are a sixteenth of the limit: at most that much is lost.
  EXPECT_GT(trace.steps.size(), 100u);
  EXPECT_TRUE(warnings.empty()) << "blocks were written whole";
  // As if the machine had lost the end of the file.
  fs::resize_file(files().front(), fs::file_size(files().front()) - 5);
  const Trace cut = read(files().front(), &warnings);
  EXPECT_LT(cut.operators.size(), trace.operators.size());
  EXPECT_GT(cut.operators.size(), 0u);
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_EQ(warnings[0], "the recording ends early; what is before that is read");
}

TEST_F(Recorded, ALimitThatIsNoNumberIsSaidAndTheProgramGoesOn) {
  const ProcessResult result = record({"3"}, {"THERMOCLINE_RECORD_LIMIT=much"});
  EXPECT_EQ(result.status, 0);
  EXPECT_EQ(result.out, "done\n");
  EXPECT_NE(result.err.find("THERMOCLINE_RECORD_LIMIT: 'much' is no number of bytes; there is no limit"),
            std::string::npos)
      << result.err;
}

// Everybody may be able to write to the folder.
TEST_F(Recorded, NothingIsWrittenToWhatANameOfTheRecordingLeadsTo) {
  const std::string script = (folder_ / "script").string(), victim = (folder_ / "victim").string();
  for (const char* const make : {"ln -s", "ln"}) {
    std::ofstream(victim) << "mine";
    std::ofstream(script) << "#!/bin/sh\n"
                          << make << " " << victim << " \"$THERMOCLINE_RECORD.$$\"\nexec " << PROGRAM_FOLDER
                          << "/recorded 3\n";
    fs::permissions(script, fs::perms::owner_all);
    const ProcessResult result = run_program({fs::relative(script, PROGRAM_FOLDER).string()},
                                             {.preload = {LIBRARY_FILE},
                                              .budget = "",
                                              .order = 0,
                                              .environment = {"THERMOCLINE_RECORD=" + (folder_ / "r").string()}});
    EXPECT_EQ(result.status, 0) << result.err;
    EXPECT_EQ(result.out, "done\n");
    EXPECT_NE(result.err.find("can not be written"), std::string::npos) << result.err;
    std::ifstream in(victim);
    EXPECT_EQ(std::string(std::istreambuf_iterator<char>(in), {}), "mine");
    for (const std::string& file : files()) {
      if (file != script) fs::remove(file);
    }
  }
}

}  // namespace
}  // namespace thermocline::test
