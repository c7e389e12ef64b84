// SPDX-License-Identifier: Apache-2.0
// Which source wins, and what is said about values that are wrong.
#include "config/load.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "config/option_table.h"

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

TEST_F(Load, TheUserFileIsFoundThroughHomeWhereThereIsNoXdgFolder) {
  surroundings_.variables.erase("XDG_CONFIG_HOME");
  surroundings_.variables["HOME"] = path("home");
  std::filesystem::create_directories(folder_ / "home/.config/thermocline");
  write("home/.config/thermocline/config.toml", "stats = true\n");
  EXPECT_TRUE(load().settings.stats);
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

TEST_F(Load, AWrongValueLeavesWhatAnEarlierSourceGave) {
  write("system.toml", "budget = \"1GiB\"\n");
  surroundings_.variables["THERMOCLINE_BUDGET"] = "12GB";
  const LoadedSettings loaded = load();
  EXPECT_EQ(value(loaded, "budget"), "1GiB");
  ASSERT_EQ(loaded.problems.size(), 1u);
  EXPECT_EQ(loaded.problems[0].text(),
            "THERMOCLINE_BUDGET: budget: '12GB' has the unknown unit 'GB'; units are B, KiB, MiB, GiB and %; did you "
            "mean '12GiB'?");
}

TEST_F(Load, AValueOfTheWrongTypeIsRejected) {
  write("project.toml",
        "budget = true\nstrict = \"true\"\npolicy = 3\nlow_water = 1.5\nhost_limit = [1]\nmin_offload_bytes = 4096\n");
  const LoadedSettings loaded = load();
  ASSERT_EQ(loaded.problems.size(), 5u);
  EXPECT_EQ(loaded.problems[0].message, "budget: expected a size or a percentage (12GiB, 512MiB, 60%), found 'true'");
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
  EXPECT_FALSE(loaded.settings.stats);
}

// toml++ would end the process.
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

}  // namespace
}  // namespace thermocline
