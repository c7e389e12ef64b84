// SPDX-License-Identifier: Apache-2.0
// Which source of settings has priority, and the messages about wrong values.
#include "config/load.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "config/option_table.h"
#include "config/trusted_file.h"
#include "tests/support/subprocess.h"

namespace thermocline {
namespace {

class Load : public testing::Test {
 protected:
  Load() {
    folder_ = std::filesystem::temp_directory_path() / ("thermocline_load_" + std::to_string(getpid()));
    std::filesystem::create_directories(folder_ / "xdg/thermocline");
    surroundings_.system_file = path("system.toml");
    surroundings_.project_file = path("project.toml");
    surroundings_.variables["XDG_CONFIG_HOME"] = path("xdg");
  }
  ~Load() override { std::filesystem::remove_all(folder_); }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  void write(const std::string& name, const std::string& text) const { std::ofstream(path(name)) << text; }

  LoadedSettings load() const { return load_settings(surroundings_); }
  static std::string value(const LoadedSettings& loaded, const char* key) {
    return value_text(*find_option(key), loaded.settings);
  }
  static std::string origin(const LoadedSettings& loaded, const char* key) {
    return loaded.origins[static_cast<std::size_t>(find_option(key) - option_table().data())];
  }

  std::filesystem::path folder_;
  Surroundings surroundings_;
};

TEST_F(Load, WithoutAnySourceTheDefaultsHold) {
  const LoadedSettings loaded = load();
  EXPECT_TRUE(loaded.problems.empty());
  EXPECT_TRUE(loaded.files.empty());
  EXPECT_EQ(value(loaded, "policy"), "learned");
  EXPECT_EQ(origin(loaded, "policy"), "default");
  EXPECT_FALSE(loaded.settings.budget.is_set());
}

TEST_F(Load, EachSourceWinsOverTheOnesBeforeIt) {
  write("system.toml", "budget = \"1GiB\"\n");
  EXPECT_EQ(value(load(), "budget"), "1GiB");
  write("xdg/thermocline/config.toml", "budget = \"2GiB\"\n");
  EXPECT_EQ(value(load(), "budget"), "2GiB");
  write("project.toml", "# mine\nbudget = \"3GiB\"\n");
  EXPECT_EQ(value(load(), "budget"), "3GiB");
  EXPECT_EQ(origin(load(), "budget"), path("project.toml") + ":2");
  write("named.toml", "budget = \"4GiB\"\n");
  surroundings_.variables["THERMOCLINE_CONFIG"] = path("named.toml");
  EXPECT_EQ(value(load(), "budget"), "4GiB");
  surroundings_.variables["THERMOCLINE_BUDGET"] = "60%";
  const LoadedSettings loaded = load();
  EXPECT_EQ(value(loaded, "budget"), "60%");
  EXPECT_EQ(origin(loaded, "budget"), "THERMOCLINE_BUDGET");
  EXPECT_EQ(loaded.files.size(), 4u);
  EXPECT_TRUE(loaded.problems.empty());
}

TEST_F(Load, ABareNumberBelowAPageIsTakenAndRemarkedOnWhereverItIs) {
  const std::string remark = "5 is a number of bytes, and less than a page (2MiB); did you mean '5GiB'?";
  for (const char* const value : {"5", "\"5\"", "\" 5\""}) {
    write("project.toml", std::string("stats = true\nbudget = ") + value + "\n");
    const LoadedSettings loaded = load();
    EXPECT_TRUE(loaded.problems.empty());
    EXPECT_EQ(loaded.settings.budget.resolve(0), 5u);
    ASSERT_EQ(loaded.notes.size(), 1u) << value;
    EXPECT_EQ(loaded.notes[0].text(), path("project.toml") + ":2:1: budget: " + remark);
  }
  write("project.toml", "budget = \"5B\"\nhost_limit = 2097152\nmin_offload_bytes = 1\n");
  EXPECT_TRUE(load().notes.empty()) << load().notes[0].text();
  surroundings_.variables["THERMOCLINE_HOST_LIMIT"] = "5";
  ASSERT_EQ(load().notes.size(), 1u);
  EXPECT_EQ(load().notes[0].text(), "THERMOCLINE_HOST_LIMIT: host_limit: " + remark);
}

TEST_F(Load, TheUserFileIsFoundThroughHomeWhereThereIsNoXdgFolder) {
  surroundings_.variables.erase("XDG_CONFIG_HOME");
  surroundings_.variables["HOME"] = path("home");
  std::filesystem::create_directories(folder_ / "home/.config/thermocline");
  write("home/.config/thermocline/config.toml", "stats = true\n");
  EXPECT_EQ(load().settings.stats, StatsForm::kTable);
}

TEST_F(Load, AnUnknownKeyIsNamedWithItsPlaceAndTheNearestKey) {
  write("project.toml", "policy = \"none\"\n  bugdet = \"1GiB\"\n");
  const LoadedSettings loaded = load();
  ASSERT_EQ(loaded.problems.size(), 1u);
  EXPECT_EQ(loaded.problems[0].text(), path("project.toml") + ":2:3: unknown key 'bugdet'; did you mean 'budget'?");
  EXPECT_EQ(value(loaded, "policy"), "none");
}

TEST_F(Load, AKeyInATableIsNamedByItsPath) {
  write("project.toml", "[memory]\nbudget = \"1GiB\"\n");
  ASSERT_EQ(load().problems.size(), 1u);
  EXPECT_EQ(load().problems[0].message, "unknown key 'memory.budget'");
}

TEST_F(Load, AFormOfStatisticsIsAWordOrABoolean) {
  for (const auto& [text, form] : {std::pair("true", StatsForm::kTable), std::pair("\"line\"", StatsForm::kLine),
                                   std::pair("\"json\"", StatsForm::kJson), std::pair("false", StatsForm::kOff)}) {
    write("project.toml", "stats = " + std::string(text) + "\n");
    EXPECT_EQ(load().settings.stats, form) << text;
    EXPECT_TRUE(load().problems.empty()) << text;
  }
  surroundings_.variables["THERMOCLINE_STATS"] = "1";
  EXPECT_EQ(load().settings.stats, StatsForm::kTable);
  surroundings_.variables["THERMOCLINE_STATS"] = "lines";
  EXPECT_EQ(load().problems.at(0).text(),
            "THERMOCLINE_STATS: stats: 'lines' is no stats; known are off, table, line, json, true, false; did you "
            "mean 'line'?");
}

TEST_F(Load, AWrongValueLeavesWhatAnEarlierSourceGave) {
  write("system.toml", "budget = \"1GiB\"\n");
  surroundings_.variables["THERMOCLINE_BUDGET"] = "12GX";
  const LoadedSettings loaded = load();
  EXPECT_EQ(value(loaded, "budget"), "1GiB");
  ASSERT_EQ(loaded.problems.size(), 1u);
  EXPECT_EQ(loaded.problems[0].text(),
            "THERMOCLINE_BUDGET: budget: '12GX' has the unknown unit 'GX'; units are B, KiB, MiB, GiB, TiB and %");
}

TEST_F(Load, AValueOfTheWrongTypeIsRejected) {
  write("project.toml",
        "budget = true\nstrict = \"true\"\npolicy = 3\nlow_water = 1.5\nhost_limit = [1]\nmin_offload_bytes = 4096\n");
  const LoadedSettings loaded = load();
  ASSERT_EQ(loaded.problems.size(), 5u);
  EXPECT_EQ(loaded.problems[0].message,
            "budget: expected a size, a percentage or shared (12GiB, 512MiB, 60%, shared), found 'true'");
  EXPECT_EQ(loaded.problems[1].message, "strict: expected true or false, found the string 'true'");
  EXPECT_EQ(loaded.problems[3].message, "low_water: expected a percentage (60%), found a number with a fraction");
  EXPECT_EQ(loaded.problems[4].line, 5);
  EXPECT_EQ(value(loaded, "min_offload_bytes"), "4KiB");
}

TEST_F(Load, ASyntaxErrorNamesItsPlaceAndTheOtherSourcesStillCount) {
  write("system.toml", "policy = \"none\"\n");
  write("project.toml", "stats = true\nbudget = \n");
  const LoadedSettings loaded = load();
  ASSERT_EQ(loaded.problems.size(), 1u);
  EXPECT_EQ(loaded.problems[0].line, 2);
  EXPECT_EQ(value(loaded, "policy"), "none");
  EXPECT_EQ(loaded.settings.stats, StatsForm::kOff);
}

// toml++ would end the process.
TEST_F(Load, AKeyThatIsSetTwiceNeedsNoOtherSpelling) {
  for (const char* const end : {"\n", "\r\n"}) {
    write("project.toml", std::string("budget = \"3GiB\"") + end + "budget = \"3GiB\"" + end);
    const LoadedSettings loaded = load();
    ASSERT_EQ(loaded.problems.size(), 1U);
    EXPECT_EQ(loaded.problems[0].line, 2);
    EXPECT_EQ(loaded.problems[0].suggestion, "");
  }
  write("project.toml", "budget = 3GiB\n");
  EXPECT_EQ(load().problems.at(0).suggestion, "budget = \"3GiB\"");
  write("project.toml", "budget = 9223372036854775808\n");
  EXPECT_EQ(load().problems.at(0).suggestion, "") << "in quotes it is too large, too";
}

TEST_F(Load, ATableWhoseNameIsNoneIsASyntaxError) {
  for (const char* text : {"[=", "[@]\n", "[[#]]\n", "[\x01"}) {
    LoadedSettings loaded = default_loaded_settings();
    write("bad.toml", text);
    load_settings_file(path("bad.toml"), &loaded);
    ASSERT_EQ(loaded.problems.size(), 1u) << text;
    EXPECT_EQ(loaded.problems[0].line, 1);
  }
}

TEST_F(Load, ALetterThatNoKeyHasIsASyntaxErrorWhereverItStands) {
  for (const char* text : {"s\xC3\xA9 = 1\n", "s\xCD\x89", "\xC3\xA9 = 1\n", "[t\xC3\xA9]\n", "stats = t\xC3\xA9\n"}) {
    write("bad.toml", text);
    LoadedSettings loaded = default_loaded_settings();
    load_settings_file(path("bad.toml"), &loaded);
    ASSERT_EQ(loaded.problems.size(), 1u) << text;
    EXPECT_EQ(loaded.problems[0].line, 1);
  }
  write("good.toml", "# caf\xC3\xA9 \xCD\x89\npolicy = \"none\" # \xC3\xA9\n");
  LoadedSettings loaded = default_loaded_settings();
  load_settings_file(path("good.toml"), &loaded);
  EXPECT_TRUE(loaded.problems.empty());
}

TEST_F(Load, ANamedFileThatIsMissingIsAProblem) {
  surroundings_.variables["THERMOCLINE_CONFIG"] = path("absent.toml");
  ASSERT_EQ(load().problems.size(), 1u);
  EXPECT_EQ(load().problems[0].text(),
            path("absent.toml") + ": there is no such settings file (named by THERMOCLINE_CONFIG)");
}

TEST_F(Load, AFolderInPlaceOfAFileIsAProblem) {
  std::filesystem::create_directories(folder_ / "project.toml");
  ASSERT_EQ(load().problems.size(), 1u);
  EXPECT_EQ(load().problems[0].source, path("project.toml"));
}

TEST_F(Load, AnUnknownVariableIsNamedWithTheNearestOne) {
  surroundings_.variables["THERMOCLINE_BUGDET"] = "1GiB";
  surroundings_.variables["THERMOCLINE_SIMULATE_DEVICE"] = "h200";
  ASSERT_EQ(load().problems.size(), 1u);
  EXPECT_EQ(load().problems[0].text(), "THERMOCLINE_BUGDET: unknown variable; did you mean 'THERMOCLINE_BUDGET'?");
}

TEST_F(Load, AnEmptyVariableIsAsGoodAsNone) {
  surroundings_.variables["THERMOCLINE_BUDGET"] = "";
  EXPECT_TRUE(load().problems.empty());
}

TEST_F(Load, AnEmptyFileIsFine) {
  write("project.toml", "");
  EXPECT_TRUE(load().problems.empty());
  EXPECT_EQ(load().files.size(), 1u);
}

// Each is reported in one line, and no file keeps the program from running.
TEST_F(Load, FilesThatNobodyShouldHaveToTrustAreNotRead) {
  write("system.toml", "stats = true\n");
  const auto complaint = [this] {
    const LoadedSettings loaded = load();
    EXPECT_EQ(loaded.problems.size(), 1u);
    EXPECT_EQ(loaded.settings.stats, StatsForm::kTable) << "the other files count";
    EXPECT_EQ(value(loaded, "policy"), "learned");
    return loaded.problems.empty() ? "" : loaded.problems[0].text().substr(path("project.toml").size());
  };
  ASSERT_EQ(mkfifo(path("project.toml").c_str(), 0600), 0);
  EXPECT_EQ(complaint(), ": is no regular file, and not read; name one that is");
  std::filesystem::remove(path("project.toml"));
  std::filesystem::create_directory(path("project.toml"));
  EXPECT_EQ(complaint(), ": is no regular file, and not read; name one that is");
  std::filesystem::remove(path("project.toml"));
  write("project.toml", "policy = \"none\"\n#" + std::string(kMostSettingsBytes, '.'));
  EXPECT_EQ(complaint(), ": is larger than 64 KiB, and not read; shorten it");
  write("project.toml", "policy = \"none\"\n");
  ASSERT_EQ(chmod(path("project.toml").c_str(), 0666), 0);
  EXPECT_EQ(complaint(), ": may be written by anybody, and is not read; run chmod o-w on it");
  ASSERT_EQ(chmod(path("project.toml").c_str(), 0664), 0);
  EXPECT_EQ(value(load(), "policy"), "none");
}

TEST_F(Load, AnotherUsersFileIsNotRead) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give a file away";
  write("project.toml", "policy = \"none\"\n");
  ASSERT_EQ(chown(path("project.toml").c_str(), 54321, 0), 0);
  const LoadedSettings loaded = load();
  ASSERT_EQ(loaded.problems.size(), 1u);
  EXPECT_EQ(loaded.problems[0].text(), path("project.toml") +
                                           ": belongs to user 54321, and not read: settings are this user's (0) or "
                                           "root's; remove it, or make it yours with chown");
  EXPECT_EQ(value(loaded, "policy"), "learned");
}

TEST_F(Load, NoFileIsNestedDeeperThanAThreadHasStack) {
  std::string dotted = "a", nested;
  for (int i = 0; i < 30'000; ++i) dotted += ".a";
  for (int i = 0; i < 5'000; ++i) nested += "[{a=";
  for (const std::string& text :
       {dotted + " = 1\n", "[" + dotted + "]\n", "[[" + dotted + "]]\n", "x = [\"\"\"a\"\"\"\"\",{" + dotted + "=1}]\n",
        "x = ['''a'''', {" + dotted + "=1}]\n", "x = " + nested, "x = \"a\\\"\"\n" + dotted + "=1\n"}) {
    write("project.toml", text);
    const LoadedSettings loaded = load();
    ASSERT_EQ(loaded.problems.size(), 1u) << text.substr(0, 40);
    EXPECT_LT(loaded.problems[0].text().size(), 1000u);
  }
  // In strings and comments any number is allowed.
  std::string rules = "operators = \"";
  for (int i = 0; i < 100; ++i) rules += (i == 0 ? "a.b.c." : ", a.b.c.") + std::to_string(i) + "=copy";
  write("project.toml", "# ....................... '\n" + rules + "\" # " + std::string(100, '.') + "\n");
  const LoadedSettings loaded = load();
  EXPECT_TRUE(loaded.problems.empty()) << loaded.problems[0].text();
  EXPECT_EQ(loaded.settings.operators.size(), 100u);
}

TEST_F(Load, WhatIsSaidOfAFileRulesNoTerminal) {
  write("project.toml", "\"\\u001b[2J\\r\" = 1\npolicy = \"\\u001b]0;x\\u0007\"\n");
  const LoadedSettings loaded = load();
  ASSERT_EQ(loaded.problems.size(), 2u);
  for (const Problem& problem : loaded.problems) {
    EXPECT_EQ(problem.text().find_first_of("\033\r\a"), std::string::npos) << problem.text();
  }
}

// As a program with more privileges than the user who starts it.
TEST_F(Load, APrivilegedProgramHeedsTheSystemFileAlone) {
  ASSERT_EQ(setenv("THERMOCLINE_POLICY", "none", 1), 0);
  const Surroundings plain = Surroundings::of_process(false), privileged = Surroundings::of_process(true);
  unsetenv("THERMOCLINE_POLICY");
  EXPECT_EQ(plain.variables.at("THERMOCLINE_POLICY"), "none");
  EXPECT_TRUE(privileged.variables.empty());
  EXPECT_EQ(settings_files(privileged), std::vector<std::string>{"/etc/thermocline/config.toml"});
}

// The kernel reports this (AT_SECURE, getauxval(3)); here for a program that runs as another user than its caller.
TEST_F(Load, AProgramOfAnotherUserIsPrivileged) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give a file away";
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the leak sanitizer makes set-user-ID programs fail";
#endif
  struct statvfs mounted {};
  ASSERT_EQ(statvfs(folder_.c_str(), &mounted), 0);
  if ((mounted.f_flag & ST_NOSUID) != 0) GTEST_SKIP() << "set-user-ID programs do not count in " << folder_;
  const std::string program = path("says_who_rules");
  std::filesystem::copy_file(SAYS_WHO_RULES, program);
  EXPECT_EQ(test::run_process({program}, {"THERMOCLINE_POLICY=none"}).out, "0 none\n");
  constexpr uid_t kNobodyElse = 54321;
  ASSERT_EQ(chown(program.c_str(), kNobodyElse, kNobodyElse), 0);
  ASSERT_EQ(chmod(program.c_str(), S_ISUID | 0755), 0);
  EXPECT_EQ(test::run_process({program}, {"THERMOCLINE_POLICY=none"}).out, "1 unset\n");
}

}  // namespace
}  // namespace thermocline
