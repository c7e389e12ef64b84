// SPDX-License-Identifier: Apache-2.0
// The most frequent typing errors: each gets one line that tells what to type.
#include "tests/tool/command_fixture.h"

namespace thermocline::test {
namespace {

const std::string kUnet = THERMOCLINE_TRACES "/unet3d_b1_128.jsonl.gz";

class WrongInput : public Command {
 protected:
  // In the test's folder, with this PATH; only the last line, as there may be a note before.
  std::string last_line(const std::string& words, const std::string& path_variable) const {
    const ProcessResult result =
        run_process({"/bin/bash", "-c", "cd '" + folder_.string() + "' && exec '" THERMOCLINE_COMMAND "' " + words},
                    {"XDG_CONFIG_HOME=" + folder_.string(), "PATH=" + path_variable});
    EXPECT_EQ(result.status, 3) << words;
    EXPECT_EQ(result.out, "");
    const std::size_t end = result.err.find_last_not_of('\n') + 1;
    return result.err.substr(0, end).substr(result.err.rfind('\n', end - 1) + 1);
  }
  std::string executable(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories(std::filesystem::path(path(name)).parent_path());
    const std::string file = write(name, text);
    std::filesystem::permissions(file, std::filesystem::perms::owner_all);
    return file;
  }
};

TEST_F(WrongInput, AProgramThatDoesNotStartSaysWhatWould) {
  write("train.py", "import torch\n");
  write("data", "text");
  executable("program", "#!/bin/sh\n");
  executable("orphan", "#!/nowhere/interpreter\n");
  executable("only3/python3", "#!/bin/sh\n");
  executable("both/python", "#!/bin/sh\n");
  executable("both/python3", "#!/bin/sh\n");
  const std::string both = path("both"), only3 = path("only3");
  const std::string missing = "': No such file or directory", forbidden = "': Permission denied";
  const auto begin = [](const std::string& program) { return "thermocline: can not start '" + program; };
  EXPECT_EQ(last_line("run --no-frameworks -- train.py", both),
            begin("train.py") + missing + "; did you mean 'python train.py'?");
  EXPECT_EQ(last_line("run --no-frameworks -- ./train.py", only3),
            begin("./train.py") + forbidden + "; did you mean 'python3 ./train.py'?");
  EXPECT_EQ(last_line("run --no-frameworks -- python train.py", only3),
            begin("python") + missing + "; did you mean 'python3'?");
  EXPECT_EQ(last_line("run -- program", both), begin("program") + missing + "; did you mean './program'?");
  EXPECT_EQ(last_line("run -- ./data", both), begin("./data") + forbidden + "; the file is not executable (chmod +x)");
  EXPECT_EQ(last_line("run -- data", both),
            begin("data") + missing + "; the file in this folder is not executable (chmod +x)");
  EXPECT_EQ(last_line("run -- ./both", both), begin("./both") + forbidden + "; it is a folder");
  EXPECT_EQ(last_line("run --no-frameworks -- ./orphan", both),
            begin("./orphan") + missing + "; the file is there, but not the interpreter or loader that it names");
  EXPECT_EQ(last_line("run -- absent", both), begin("absent") + missing);
}

TEST_F(WrongInput, AStaticProgramIsSaidToRunWithoutTheLibrary) {
  const std::string program = path("program");
  write("program.c", "int main(void) { return 7; }\n");
  if (run_process({"cc", "-static", "-o", program, path("program.c")}).status != 0)
    GTEST_SKIP() << "no static C library";
  const std::string note =
      "note: '" + program + "' is linked statically, so it can not be given the library: no budget holds for it\n";
  const ProcessResult result = run({"run", "--simulate", "reference", "--", program});
  EXPECT_EQ(result.status, 7);
  EXPECT_EQ(result.err, "thermocline: " + note);
  EXPECT_EQ(run({"run", "--simulate", "reference", "--no-library", "--", program}).err, "");
  EXPECT_EQ(run({"run", "--simulate", "reference", "--", "/bin/true"}).err, "");
}

TEST_F(WrongInput, AProgramWithoutACommandIsToldWhichRunsIt) {
  const std::string what = "; a program is run by: thermocline run", missing = "a command is missing";
  expect_refused({"./digits", "--epochs", "1"}, 2, "unknown command './digits'" + what + " -- ./digits --epochs 1");
  expect_refused({"sh", "-c", "true"}, 2, "unknown command 'sh'" + what + " -- sh -c true");
  expect_refused({"--budget", "60%", "--", "./digits"}, 2, missing + what + " --budget 60% -- ./digits");
  expect_refused({"--", "./digits"}, 2, missing + what + " -- ./digits");
  expect_refused({"record", "--", "./digits"}, 2,
                 "-o TRACE is required: thermocline record -o step.trace -- PROGRAM ('thermocline record --help' shows "
                 "the usage)");
  expect_refused({"relay", kUnet}, 2,
                 "unknown command 'relay'; did you mean 'replay'? ('thermocline --help' lists them)");
}

TEST_F(WrongInput, AValueInTwoWordsIsShownInOne) {
  const std::string help = " ('thermocline run --help' shows the usage)";
  expect_refused({"run", "--budget", "12", "GB", "--", "true"}, 2, "'12 GB' is one value: write 12GB" + help);
  expect_refused({"run", "--budget", "12", "GiB", "./a.out"}, 2, "'12 GiB' is one value: write 12GiB" + help);
  expect_refused({"run", "--stats", "json", "--", "true"}, 2, "the value goes behind '=': --stats=json" + help);
  expect_refused({"replay", kUnet, "--budget", "60", "%"}, 2,
                 "'60 %' is one value: write 60% ('thermocline replay --help' shows the usage)");
  expect_refused({"replay", kUnet, "other"}, 2, "not expected: other ('thermocline replay --help' shows the usage)");
  expect_refused({"run", "--budget", "0.6", "--", "true"}, 2,
                 "--budget: '0.6' has a fraction of a byte; did you mean '60%'?");
  EXPECT_EQ(run({"run", "--stats=off", "--budget", "12 GB", "--", "true"}).status, 0) << "one word to the command";
}

TEST_F(WrongInput, WhatIsNoTraceIsToldHowOneIsMade) {
  const std::string how = "; a trace is made by 'thermocline record -o TRACE -- PROGRAM'";
  const std::string first = ":1: not a trace: the first line has to be a JSON object with a \"schema\"" + how;
  expect_refused({"replay", "/bin/sh"}, 3, "/bin/sh" + first);
  expect_refused({"convert", "/bin/sh", path("x")}, 3, "/bin/sh" + first);
  expect_refused({"report", write("empty", "")}, 3, path("empty") + ": not a trace: the file is empty" + how);
  expect_refused({"replay", folder_.string()}, 3, folder_.string() + ": can not be read: Is a directory");
}

TEST_F(WrongInput, AProgramWithoutANameIsNotLookedFor) {
  expect_refused({"doctor", ""}, 2, "the program to look at has no name: thermocline doctor PROGRAM");
}

TEST_F(WrongInput, ASettingWithoutQuotesIsShownWithThem) {
  const auto refused = [this](const std::string& line, const std::string& meant) {
    const std::string file = write("settings.toml", "# a comment\n" + line + "\nstats = \"off\"\n");
    const ProcessResult result = run({"config", "check", file});
    EXPECT_EQ(result.status, 3);
    EXPECT_TRUE(result.err.starts_with("thermocline: " + file + ":2:")) << result.err;
    EXPECT_TRUE(result.err.ends_with("; did you mean '" + meant + "'?\n")) << result.err;
  };
  refused("budget = 12GiB", "budget = \"12GiB\"");
  refused("budget = 60%  # of the device", "budget = \"60%\"");
  refused("policy = learned", "policy = \"learned\"");
  refused("policy = \"learned", "policy = \"learned\"");
  const std::string table = write("table.toml", "[offload]\nbudget = \"3GiB\"\n");
  expect_refused({"config", "check", table}, 3, table + ":2:1: unknown key 'offload.budget'; did you mean 'budget'?");
  // Nothing is suggested for what is not understood.
  const std::string odd = write("odd.toml", "a = [1, \n");
  EXPECT_EQ(run({"config", "check", odd}).err.find("did you mean"), std::string::npos);
}

}  // namespace
}  // namespace thermocline::test
