// SPDX-License-Identifier: Apache-2.0
// docs/compatibility.md names a test in every row, and every test that it names exists.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace thermocline::test {
namespace {

namespace fs = std::filesystem;
const fs::path kRepository = REPOSITORY_FOLDER;

std::string read_file(const fs::path& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// All C++ sources of the tests, concatenated.
const std::string& sources_of_tests() {
  static const std::string all = [] {
    std::string text;
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(kRepository / "tests")) {
      if (entry.path().extension() == ".cc") text += read_file(entry.path());
    }
    return text;
  }();
  return all;
}

std::vector<std::string> cells_of(const std::string& line) {
  std::vector<std::string> cells;
  std::stringstream rest(line.substr(1));
  for (std::string cell; std::getline(rest, cell, '|');) {
    const std::size_t begin = cell.find_first_not_of(' ');
    const std::size_t end = cell.find_last_not_of(' ');
    cells.push_back(begin == std::string::npos ? "" : cell.substr(begin, end - begin + 1));
  }
  return cells;
}

// The texts of all tests but this one, which names some programs.
std::string lists_of_programs() {
  std::string all;
  for (const fs::directory_entry& entry : fs::directory_iterator(kRepository / "tests/preload")) {
    const fs::path& file = entry.path();
    if (file.extension() == ".cc" && file.filename() != "compatibility_test.cc") all += read_file(file);
  }
  return all;
}

bool is_program(const std::string& name) {
  const std::string api_paths = lists_of_programs();
  return api_paths.find('"' + name + '"') != std::string::npos;
}

// "suite.name" of each. Computed once, because the search takes long under sanitizers.
const std::set<std::string>& names_of_tests() {
  static const std::set<std::string> all = [] {
    std::set<std::string> names;
    const std::regex test("TEST(_F|_P)?\\((\\w+),\\s*(\\w+)\\)");
    const std::string& text = sources_of_tests();
    for (std::sregex_iterator it(text.begin(), text.end(), test); it != std::sregex_iterator(); ++it) {
      names.insert((*it)[2].str() + "." + (*it)[3].str());
    }
    return names;
  }();
  return all;
}

bool exists(const std::string& name) {
  if (name.find('/') != std::string::npos) return is_program(name);
  if (name.find('.') != std::string::npos) return names_of_tests().contains(name);
  return sources_of_tests().find("RULE(" + name + ",") != std::string::npos;
}

struct Row {
  std::string api_path;
  std::string tests;
};

std::vector<Row> rows_of(const std::string& text) {
  std::vector<Row> rows;
  std::size_t column = std::string::npos;  // with the tests
  std::stringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("|")) {
      column = std::string::npos;
      continue;
    }
    const std::vector<std::string> cells = cells_of(line);
    if (column == std::string::npos) {
      const auto at = std::find(cells.begin(), cells.end(), "test");
      EXPECT_NE(at, cells.end()) << "a table without tests: " << line;
      column = static_cast<std::size_t>(at - cells.begin());
    } else if (!line.starts_with("| ---")) {
      EXPECT_LT(column, cells.size()) << line;
      if (column < cells.size()) rows.push_back({cells[0], cells[column]});
    }
  }
  return rows;
}

TEST(Compatibility, EveryRowHasTestsThatExist) {
  const std::vector<Row> rows = rows_of(read_file(kRepository / "docs/compatibility.md"));
  EXPECT_GT(rows.size(), 60u);
  static const std::regex quoted("`([^`]+)`");
  for (const Row& row : rows) {
    int tests = 0;
    for (auto it = std::sregex_iterator(row.tests.begin(), row.tests.end(), quoted); it != std::sregex_iterator();
         ++it, ++tests) {
      EXPECT_TRUE(exists((*it)[1])) << (*it)[1] << ", named for: " << row.api_path;
    }
    EXPECT_GT(tests, 0) << "no test for: " << row.api_path;
  }
}

TEST(Compatibility, WhatDoesNotExistIsNotFound) {
  EXPECT_TRUE(exists("copies/rows"));
  EXPECT_TRUE(exists("Compatibility.WhatDoesNotExistIsNotFound"));
  EXPECT_TRUE(exists("nodes_run_in_order_of_their_edges"));
  EXPECT_FALSE(exists("copies/columns"));
  EXPECT_FALSE(exists("Compatibility.Whatever"));
  EXPECT_FALSE(exists("no_such_rule"));
}

TEST(Compatibility, AllFifteenPitfallsAreThere) {
  const std::string text = read_file(kRepository / "docs/compatibility.md");
  const std::size_t begin = text.find("## Fifteen ways");
  ASSERT_NE(begin, std::string::npos);
  EXPECT_EQ(rows_of(text.substr(begin, text.find("\n## ", begin + 1) - begin)).size(), 15u);
}

// A program that no test runs tests nothing.
TEST(Compatibility, EverySmallProgramIsRun) {
  const std::string api_paths = lists_of_programs();
  int programs = 0;
  for (const fs::directory_entry& folder : fs::directory_iterator(kRepository / "tests/preload/programs")) {
    if (!folder.is_directory()) continue;
    for (const fs::directory_entry& file : fs::directory_iterator(folder.path())) {
      const std::string name = folder.path().filename().string() + "/" + file.path().stem().string();
      if (name == "resolution/plugin") continue;  // opened by resolution/plugged
      const std::string kind = file.path().extension().string();
      if (name == "nccl/fake" || kind == ".h" || kind == ".cuh") continue;
      EXPECT_NE(api_paths.find(name + '"'), std::string::npos) << name;
      ++programs;
    }
  }
  EXPECT_GE(programs, 40);
}

}  // namespace
}  // namespace thermocline::test
