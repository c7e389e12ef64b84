// SPDX-License-Identifier: Apache-2.0
// thermocline export from outside: each format agrees with the replay, and is valid for its viewer.
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/tool/command_fixture.h"
#include "tests/tool/replayed.h"
#include "tests/tool/unpickle.h"

namespace thermocline::test {
namespace {

using nlohmann::json;

class Export : public Command {
 protected:
  std::string exported(const std::string& format) const {
    const ProcessResult result =
        run({"export", kUnet, "--budget", "60%", "--steps", "4", "--format", format, "-o", path("out")});
    EXPECT_EQ(result.status, 0) << result.err;
    EXPECT_EQ(result.out, "");
    return read(path("out"));
  }
  json replayed() const { return json::parse(run({"replay", kUnet, "--budget", "60%", "--steps", "4", "--json"}).out); }
};

TEST_F(Export, ForPerfettoSlicesNestAndEveryFlowLeadsFromAnEvictionToItsRestore) {
  const json out = json::parse(exported("perfetto"));
  std::map<int, double> lane_end;
  std::map<std::uint64_t, double> flow_begin;
  unsigned long long evicted = 0, live = 0, most_live = 0;
  std::map<std::string, unsigned long long> out_for, in_for;
  std::size_t flows = 0;
  for (const json& e : out["traceEvents"]) {
    if (e["ph"] == "X") {
      // On one lane nothing overlaps; the files' times have a resolution of a thousandth of a microsecond.
      double& end = lane_end[e["tid"]];
      EXPECT_GE(e["ts"].get<double>(), end - 0.002) << e;
      end = e["ts"].get<double>() + e["dur"].get<double>();
      const bool out_of = e["name"].get<std::string>().starts_with("evict");
      if (out_of) evicted += e["args"]["bytes"].get<unsigned long long>();
      if (e["args"].contains("reason"))
        (out_of ? out_for : in_for)[e["args"]["reason"]] += e["args"]["bytes"].get<unsigned long long>();
    }
    if (e["ph"] == "s") flow_begin[e["id"]] = e["ts"];
    if (e["ph"] == "C" && e["name"] == "live") {
      live = e["args"]["bytes"];
      most_live = std::max(most_live, live);
    }
  }
  for (const json& e : out["traceEvents"]) {
    if (e["ph"] != "f") continue;
    ++flows;
    ASSERT_TRUE(flow_begin.contains(e["id"])) << e;
    EXPECT_GT(e["ts"].get<double>(), flow_begin[e["id"]]);
  }
  EXPECT_GT(flows, 0u);
  const json replay = replayed();
  EXPECT_EQ(evicted, replay["evicted_bytes"]);
  EXPECT_EQ(most_live, replay["peak_live_bytes"]);
  // Each copy has the reason under which the replay counts it.
  for (const auto& [name, count] : replay["evictions_by_reason"].items())
    EXPECT_EQ(out_for[name], count["copied_bytes"]) << name;
  for (const auto& [name, count] : replay["restores_by_reason"].items())
    EXPECT_EQ(in_for[name], count["copied_bytes"]) << name;
  EXPECT_FALSE(out_for.contains("unknown") || in_for.contains("unknown"));
  EXPECT_GT(out_for.size(), 1u);
}

// As the replay counts it, in a lane of its own, with the buffers that it is for.
TEST_F(Export, WhatRunsAgainHasItsLaneAndItsReason) {
  const std::vector<std::string> flags = {kResnet, "--budget", "50%", "--exact", "--recompute", "auto", "--steps", "5"};
  const auto with = [&](std::vector<std::string> command, const std::vector<std::string>& more) {
    command.insert(command.end(), flags.begin(), flags.end());
    command.insert(command.end(), more.begin(), more.end());
    return run(command);
  };
  const json replay = json::parse(with({"replay"}, {"--json", "--no-check"}).out);
  ASSERT_EQ(with({"export"}, {"--format", "perfetto", "-o", path("out")}).status, 0);
  const json out = json::parse(read(path("out")));
  int lane = -1;
  for (const json& e : out["traceEvents"]) {
    if (e["name"] == "thread_name" && e["args"]["name"] == "recomputed in stream 0") lane = e["tid"];
  }
  ASSERT_GE(lane, 0);
  std::size_t runs = 0, operators = 0;
  double end = 0, us = 0;
  unsigned long long dropped = 0, evicted = 0;
  for (const json& e : out["traceEvents"]) {
    if (e["name"] == "dropped") dropped = std::max(dropped, e["args"]["bytes"].get<unsigned long long>());
    if (e["name"] == "evicted" && e["ph"] == "C")
      evicted = std::max(evicted, e["args"]["bytes"].get<unsigned long long>());
    if (e["ph"] != "X") continue;
    if (e["args"].contains("operator")) ++operators;
    if (e["tid"] != lane) continue;
    ++runs;
    EXPECT_GE(e["ts"].get<double>(), end - 0.002) << e;
    end = e["ts"].get<double>() + e["dur"].get<double>();
    us += e["dur"].get<double>();
    EXPECT_EQ(e["args"]["reason"], "planned");
    EXPECT_FALSE(e["args"]["contents"].empty()) << e;
    for (const json& content : e["args"]["contents"]) {
      EXPECT_LT(content["dropped_us"], e["ts"]);
      EXPECT_TRUE(content.contains("buffer") && content.contains("producer")) << e;
    }
  }
  EXPECT_GT(runs, 0u);
  EXPECT_EQ(runs, replay["recomputed_operations"]);
  EXPECT_GT(operators, runs);
  double ms = 0;
  for (const json& step : replay["steps"]) ms += step["recomputed_ms"].get<double>();
  EXPECT_NEAR(us * 1e-3, ms, 0.01 * ms);
  EXPECT_GT(dropped, 1ULL << 30);
  EXPECT_LT(evicted, 4ULL << 30);
  ASSERT_EQ(with({"export"}, {"--format", "csv", "-o", path("csv")}).status, 0);
  std::istringstream lines(read(path("csv")));
  std::size_t again = 0, drops = 0;
  for (std::string line; std::getline(lines, line);) {
    again += line.find(",rerun,") != std::string::npos ? 1 : 0;
    drops += line.find(",drop,,\"planned\",,") != std::string::npos ? 1 : 0;
    EXPECT_EQ(std::ranges::count(line, ','), 8) << line;
  }
  EXPECT_EQ(again, runs);
  EXPECT_GT(drops, 0u);
}

TEST_F(Export, ForPyTorchsViewerBlocksTileTheirSegmentsAndNoAddressIsTakenTwice) {
  const json out = unpickle(exported("memory_viz"));
  ASSERT_TRUE(out.is_object());
  std::map<std::uint64_t, json> alive_at_the_end;
  for (const json& segment : out["segments"]) {
    std::uint64_t at = segment["address"], active = 0;
    for (const json& block : segment["blocks"]) {
      EXPECT_EQ(block["address"], at);
      at += block["size"].get<std::uint64_t>();
      if (block["state"] == "active_allocated") {
        active += block["size"].get<std::uint64_t>();
        alive_at_the_end[block["address"]] = block["size"];
      }
    }
    EXPECT_EQ(at, segment["address"].get<std::uint64_t>() + segment["total_size"].get<std::uint64_t>());
    EXPECT_EQ(active, segment["active_size"]);
  }
  std::map<std::uint64_t, json> alive;
  ASSERT_EQ(out["device_traces"].size(), 1u);
  for (const json& e : out["device_traces"][0]) {
    if (e["action"] == "alloc") {
      EXPECT_TRUE(alive.emplace(e["addr"], e["size"]).second) << e;
    } else if (e["action"] == "free_completed") {
      EXPECT_EQ(alive[e["addr"]], e["size"]);
      alive.erase(e["addr"]);
    }
  }
  EXPECT_EQ(alive, alive_at_the_end);
  EXPECT_FALSE(alive.empty());
}

TEST_F(Export, SegmentsAreOfThePagesThatTheReplayHad) {
  constexpr std::uint64_t kPage = 16 << 20;
  const std::string settings = write("pages.toml", "page_bytes = \"16MiB\"\n");
  ASSERT_EQ(run({"export", kUnet, "--budget", "60%", "--steps", "2", "--config", settings, "--format", "memory_viz",
                 "-o", path("pages")})
                .status,
            0);
  const json out = unpickle(read(path("pages")));
  ASSERT_FALSE(out["segments"].empty());
  for (const json& segment : out["segments"]) {
    EXPECT_EQ(segment["address"].get<std::uint64_t>() % kPage, 0u);
    EXPECT_EQ(segment["total_size"].get<std::uint64_t>() % kPage, 0u);
  }
}

TEST_F(Export, AsCsvEveryLineHasEveryColumnAndTimesDoNotFall) {
  std::istringstream lines(exported("csv"));
  std::string line;
  std::getline(lines, line);
  EXPECT_EQ(line, "time_us,event,duration_us,name,stream,buffer,bytes,device_bytes,nonresident_bytes");
  double last = 0;
  std::map<std::string, int> events;
  while (std::getline(lines, line)) {
    EXPECT_EQ(std::ranges::count(line, ','), 8) << line;
    const double now = std::stod(line);
    EXPECT_GE(now, last);
    last = now;
    const std::size_t begin = line.find(',') + 1;
    ++events[line.substr(begin, line.find(',', begin) - begin)];
  }
  for (const char* event : {"alloc", "free", "operator", "evict", "restore"}) EXPECT_GT(events[event], 0) << event;
  EXPECT_EQ(events["step"], 4);
}

TEST_F(Export, BadInputIsRefusedInOneLineAndLeavesTheFileAsItWas) {
  const std::string kept = write("kept", "before");
  expect_refused({"export", kUnet, "--format", "perfeto", "-o", kept}, 2,
                 "--format: unknown format 'perfeto'; did you mean 'perfetto'?; known are perfetto, memory_viz, csv");
  expect_refused({"export", path("absent"), "--format", "csv", "-o", kept}, 3,
                 path("absent") + ": can not be opened: No such file or directory");
  expect_refused(
      {"export", write("empty", ""), "--format", "csv", "-o", kept}, 3,
      path("empty") + ": not a trace: the file is empty; a trace is made by 'thermocline record -o TRACE -- PROGRAM'");
  expect_refused({"export", kUnet, "--format", "csv", "-o", "/nowhere/x"}, 1,
                 "/nowhere/x: can not be written: No such file or directory");
  expect_refused({"export", kUnet, "--format", "csv", "-o", "/dev/full"}, 1,
                 "/dev/full: can not be written: No space left on device");
  expect_refused({"export", kUnet, "--format", "csv", "-o", kept, "--budget", "1%"}, 1,
                 kUnet + ": memory ran out in the first step; 'thermocline replay' shows who held it");
  EXPECT_EQ(read(kept), "before");
  EXPECT_EQ(files(), (std::vector<std::string>{"empty", "kept"}));
}

TEST_F(Export, AnInterruptLeavesNothingBehind) {
  const ProcessResult result =
      run_process({"/bin/sh", "-c",
                   "'" THERMOCLINE_COMMAND "' export '" + kUnet + "' --steps 1000 --format csv -o '" + path("cut") +
                       "' & pid=$!; until ls '" + folder_.string() +
                       "' | grep -q partial; do :; done; kill -TERM $pid; wait $pid; echo $?"},
                  {});
  EXPECT_EQ(result.out, "143\n") << result.err;
  EXPECT_TRUE(files().empty()) << files().front();
}

}  // namespace
}  // namespace thermocline::test
