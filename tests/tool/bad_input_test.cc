// SPDX-License-Identifier: Apache-2.0
// Bad input and output: one clear line, the right status, and nothing lost or half written.
#include <algorithm>
#include <csignal>

#include "tests/tool/command_fixture.h"

namespace thermocline::test {
namespace {

const std::string kUnet = THERMOCLINE_TRACES "/unet3d_b1_128.jsonl.gz";
constexpr const char* kHow = "; a trace is made by 'thermocline record -o TRACE -- PROGRAM'";
const std::string kBegin = "{\"schema\":\"thermocline-trace/1\"}\n";

class BadInput : public Command {
 protected:
  // A process in the background may have been told to ignore the signal, and would pass that on to everything it
  // starts.
  BadInput() { std::signal(SIGINT, SIG_DFL); }
  // Runs a shell script in which $T is the command; jobs have their own process groups, as on a terminal.
  ProcessResult bash(const std::string& script) const {
    return run_process(
        {"/bin/bash", "-c", "set -m\ncd '" + folder_.string() + "'\nT='" THERMOCLINE_COMMAND "'\n" + script},
        with_options({"XDG_CONFIG_HOME=" + folder_.string()}));
  }
  // For sanitizers, for a program that has the library preloaded.
  static std::vector<std::string> with_options(std::vector<std::string> environment) {
    environment.emplace_back("ASAN_OPTIONS=verify_asan_link_order=0:handle_segv=0:detect_leaks=0");
    environment.emplace_back("TSAN_OPTIONS=handle_segv=0");
    return environment;
  }
};

struct Bad {
  const char* name;
  std::string contents;
  std::string line;  // after the file's name
};

TEST_F(BadInput, EveryReaderOfTracesRefusesItInTheSameWords) {
  const std::vector<Bad> all = {
      {"empty", "", ": not a trace: the file is empty"},
      {"text", "no trace\n", ":1: not a trace: the first line has to be a JSON object with a \"schema\""},
      {"version", "{\"schema\":\"thermocline-trace/2\"}\n",
       ":1: unsupported schema \"thermocline-trace/2\"; this version reads \"thermocline-trace/1\""},
      {"packed_version", "thermocline-trace-blocks/7\nxyz",
       ": a packed trace of another version: its first line is not 'thermocline-trace-blocks/1'"},
      {"packed_cut", "thermocline-trace-blocks/1\nxyz", ": the file is truncated or damaged within its first block"},
      {"recording_version", "thermocline-record/1\nxyz",
       ": not a recording of this version: its first line is not 'thermocline-record/2'"},
      {"recording_cut", "thermocline-record/2\nxyz", ": the trace has no operators"},
      {"header", kBegin, ": the trace has no operators"},
      {"half_a_line",
       kBegin + "{\"e\":\"alloc\",\"b\":", ":2: not a valid event at column 18, field \"b\": expected a whole number"},
      {"id", kBegin + "{\"e\":\"free\",\"b\":5}\n", ":2: buffer 5 is not alive: it was never allocated"},
      {"huge", kBegin + "{\"e\":\"alloc\",\"b\":0,\"n\":9223372036854775807}\n",
       ":2: size 9223372036854775807 of buffer 0 is more than any device has"},
      {"huger", kBegin + "{\"e\":\"alloc\",\"b\":0,\"n\":99999999999999999999}\n",
       ":2: not a valid event at column 24, field \"n\": number too large"},
      {"long", kBegin + "{\"e\":\"op\",\"k\":\"a\",\"us\":1e300}\n",
       ":2: up to operator \"a\" the program takes years"},
  };
  const std::vector<std::vector<std::string>> commands = {{"replay"},
                                                          {"bound"},
                                                          {"estimate"},
                                                          {"tune", "-o", path("out")},
                                                          {"report", "-o", path("out")},
                                                          {"export", "--format", "csv", "-o", path("out")}};
  for (const Bad& bad : all) {
    const std::string file = write(bad.name, bad.contents);
    for (const std::vector<std::string>& command : commands) {
      std::vector<std::string> arguments = command;
      arguments.insert(arguments.begin() + 1, file);
      const ProcessResult result = run(arguments);
      EXPECT_EQ(result.status, 3) << command[0] << ", " << bad.name;
      EXPECT_EQ(result.out, "");
      // The message about a truncated recording comes first.
      const bool is_trace = bad.line.find(": not a trace: ") == std::string::npos;
      EXPECT_TRUE(result.err.ends_with("thermocline: " + file + bad.line + (is_trace ? "" : kHow) + "\n"))
          << command[0] << ": " << result.err;
      EXPECT_LE(std::ranges::count(result.err, '\n'), 2);
    }
    EXPECT_FALSE(std::filesystem::exists(path("out")));
    std::filesystem::remove(file);
  }
  EXPECT_TRUE(files().empty()) << files().front();
}

TEST_F(BadInput, EveryWriterTellsAFullDisk) {
  const std::vector<std::vector<std::string>> commands = {
      {"convert", kUnet, "/dev/full"},
      {"report", kUnet, "--steps", "2", "-o", "/dev/full"},
      {"export", kUnet, "--steps", "2", "--format", "csv", "-o", "/dev/full"},
      {"export", kUnet, "--steps", "2", "--format", "perfetto", "-o", "/dev/full"},
      {"export", kUnet, "--steps", "2", "--format", "memory-viz", "-o", "/dev/full"},
      {"replay", kUnet, "--steps", "2", "--timeline", "/dev/full"}};
  for (const std::vector<std::string>& command : commands) {
    expect_refused(command, 1, "/dev/full: can not be written: No space left on device");
  }
  for (const char* command : {"devices --json", "config show", "manual man", "help", "replay --help", "version",
                              "replay " THERMOCLINE_TRACES "/unet3d_b1_128.jsonl.gz --steps 1 --json"}) {
    const ProcessResult result = bash(std::string("\"$T\" ") + command + " > /dev/full");
    EXPECT_EQ(result.status, 1) << command;
    EXPECT_EQ(result.err, "thermocline: stdout: can not be written: No space left on device\n");
  }
}

TEST_F(BadInput, CtrlCLeavesTheOldFileAndNothingHalfWritten) {
  // The command has opened both files when the pipe can be written, and then waits for more input.
  for (const char* command : {"convert in old", "convert in old.jsonl.gz"}) {
    const ProcessResult result = bash(
        "echo precious > old; echo precious > old.jsonl.gz; mkfifo in\n"
        "\"$T\" " +
        std::string(command) +
        " & job=$!\n"
        "exec 3> in\n"
        "ls *.partial >&2 || echo 'nothing is written yet' >&2\n"
        "kill -INT $job; wait $job; echo $?; cat old old.jsonl.gz; rm in");
    EXPECT_EQ(result.out, "130\nprecious\nprecious\n") << result.err;
    EXPECT_NE(result.err.find(".partial"), std::string::npos) << result.err;
  }
  EXPECT_EQ(files(), (std::vector<std::string>{"old", "old.jsonl.gz"}));
}

// Both wait for the rest of their input with their files open.
TEST_F(BadInput, TwoCommandsThatWriteTheSameFileEachWriteAllOfIt) {
  const ProcessResult result = bash(
      "mkfifo a b\n\"$T\" convert a out.jsonl & first=$!; \"$T\" convert b out.jsonl & second=$!\n"
      "exec 3> a 4> b; zcat '" +
      kUnet +
      "' > both\n"
      "cat both >&3; exec 3>&-; wait $first; echo $?\n"
      "cat both >&4; exec 4>&-; wait $second; echo $?; cmp both out.jsonl; rm a b");
  EXPECT_EQ(result.out, "0\n0\n") << result.err;
  EXPECT_EQ(files(), (std::vector<std::string>{"both", "out.jsonl"}));
}

TEST_F(BadInput, ATraceMayComeThroughAPipe) {
  EXPECT_EQ(run({"convert", kUnet, path("packed")}).status, 0);
  const ProcessResult plain = bash("zcat '" + kUnet + "' | \"$T\" compare - packed");
  EXPECT_NE(plain.out.find("all do the same"), std::string::npos) << plain.err;
  const ProcessResult packed =
      bash("\"$T\" convert - again.jsonl < packed && zcat '" + kUnet + "' | cmp - again.jsonl");
  EXPECT_EQ(packed.status, 0) << packed.err;
  const ProcessResult nameless = run({"bound", ""});
  EXPECT_EQ(nameless.status, 3);
  EXPECT_EQ(nameless.err, "thermocline: the trace has no name\n");
}

TEST_F(BadInput, CtrlCWhileAReplayRunsEndsIt) {
  for (const char* command : {"replay in", "tune in -o out", "report in -o out", "estimate in"}) {
    const ProcessResult result = bash("mkfifo in; \"$T\" " + std::string(command) +
                                      " & job=$!\n"
                                      "exec 3> in; kill -INT $job; wait $job; echo $?; rm in");
    EXPECT_EQ(result.out, "130\n") << command << ": " << result.err;
  }
  EXPECT_TRUE(files().empty()) << files().front();
}

TEST_F(BadInput, AfterCtrlCTheTraceIsThere) {
  const ProcessResult result = bash("setsid -w \"$T\" record -o t --limit 1MiB --simulate reference -- '" PROGRAM_FOLDER
                                    "/recorded' 1000 interrupted");
  EXPECT_EQ(result.status, 130) << result.err;
  EXPECT_NE(result.err.find("thermocline: recorded t: "), std::string::npos) << result.err;
  EXPECT_EQ(files(), std::vector<std::string>{"t"});
  EXPECT_EQ(run({"replay", path("t"), "--policy", "none", "--steps", "2", "--no-check"}).status, 0);
}

TEST_F(BadInput, OfAProgramThatIsKilledTheTraceIsThere) {
  const ProcessResult result = run({"record", "-o", path("t.jsonl"), "--limit", "4MiB", "--simulate", "reference", "--",
                                    PROGRAM_FOLDER "/recorded", "1000", "killed"},
                                   with_options({}));
  EXPECT_EQ(result.status, 128 + 9) << result.err;
  EXPECT_NE(result.err.find("thermocline: recorded " + path("t.jsonl") + ": "), std::string::npos) << result.err;
  EXPECT_EQ(files(), std::vector<std::string>{"t.jsonl"});
  EXPECT_TRUE(read(path("t.jsonl")).starts_with("{\"program\":"));
}

TEST_F(BadInput, WhatCanNotBecomeATraceStaysAndIsNamed) {
  std::filesystem::create_directory(path("temporary"));
  const std::string target = "/dev/full";
  const ProcessResult result =
      run({"record", "-o", target, "--simulate", "reference", "--", PROGRAM_FOLDER "/recorded", "20"},
          with_options({"TMPDIR=" + path("temporary")}));
  EXPECT_EQ(result.status, 1);
  EXPECT_EQ(result.out, "done\n");
  // Not beside the target, which is a device.
  const std::string said = "thermocline: what was recorded is still in ", behind = "; 'thermocline convert ";
  const std::size_t at = result.err.find(said + path("temporary/full.recording-"));
  ASSERT_NE(at, std::string::npos) << result.err;
  const std::string recording = result.err.substr(at + said.size(), result.err.find(behind, at) - at - said.size());
  EXPECT_NE(result.err.find(recording + behind + recording + " TRACE' makes the trace of it\n"), std::string::npos)
      << result.err;
  EXPECT_EQ(run({"convert", recording, path("rescued")}).status, 0);
  EXPECT_EQ(run({"bound", path("rescued"), "--json"}).status, 0);
}

}  // namespace
}  // namespace thermocline::test
