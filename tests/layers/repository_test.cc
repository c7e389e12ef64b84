// SPDX-License-Identifier: Apache-2.0
// Checks the layer rules on the repository itself.
#include "tests/layers/rules.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>

namespace layers {
namespace {

namespace fs = std::filesystem;

const fs::path kRoot = THERMOCLINE_SOURCE_DIR;

bool has_extension(const fs::path& path, std::initializer_list<std::string_view> extensions) {
  return std::ranges::find(extensions, path.extension().string()) != extensions.end();
}

bool is_source(const fs::path& path) { return has_extension(path, {".h", ".cc", ".cpp", ".c", ".cu", ".cuh", ".S"}); }

bool is_text(const fs::path& path) {
  return is_source(path) ||
         has_extension(path, {".py", ".sh", ".cmake", ".md", ".txt", ".toml", ".json", ".def", ".map", ".svg", ""});
}

// Skips build trees, git's folder and those of editors.
bool is_skipped(const fs::path& folder) {
  const std::string name = folder.filename().string();
  return (name.starts_with(".") && name != ".ci") || name.starts_with("build") || name == "__pycache__";
}

std::vector<Source> read_repository() {
  std::vector<Source> sources;
  for (auto entry = fs::recursive_directory_iterator(kRoot); entry != fs::recursive_directory_iterator(); ++entry) {
    if (entry->is_directory() && is_skipped(entry->path())) {
      entry.disable_recursion_pending();
    } else if (entry->is_regular_file() && is_text(entry->path())) {
      std::ifstream file(entry->path(), std::ios::binary);
      sources.push_back(
          {fs::relative(entry->path(), kRoot).generic_string(), std::string(std::istreambuf_iterator<char>(file), {})});
    }
  }
  return sources;
}

class Repository : public testing::Test {
 protected:
  static void SetUpTestSuite() { sources_ = read_repository(); }

  static std::vector<Violation> collect(const std::function<std::vector<Violation>(const Source&)>& rule, bool code) {
    std::vector<Violation> all;
    for (const Source& source : sources_) {
      if (!code || is_source(source.path)) {
        std::ranges::move(rule(source), std::back_inserter(all));
      }
    }
    return all;
  }

  inline static std::vector<Source> sources_;
};

TEST_F(Repository, IsRead) {
  const auto itself = std::ranges::find(sources_, "tests/layers/repository_test.cc", &Source::path);
  ASSERT_NE(itself, sources_.end());
  EXPECT_NE(itself->text.find("IsRead"), std::string::npos);
}

TEST_F(Repository, SourcesAreInKnownFolders) {
  for (const Source& source : sources_) {
    EXPECT_TRUE(!is_source(source.path) || is_known_folder(source.path.substr(0, source.path.find('/'))))
        << source.path;
  }
}

TEST_F(Repository, LayersIncludeOnlyWhatIsBelowThem) {
  const Exists exists = [](const std::string& path) { return fs::is_regular_file(kRoot / path); };
  const auto violations = collect([&](const Source& source) { return check_includes(source, exists); }, true);
  EXPECT_TRUE(violations.empty()) << describe(violations);
}

TEST_F(Repository, OnlyDriverHooksAndSimulatorNameDriverFunctions) {
  const auto violations = collect(check_driver_names, true);
  EXPECT_TRUE(violations.empty()) << describe(violations);
}

TEST_F(Repository, WhatHasOnePlaceIsNowhereElse) {
  const auto violations = collect(check_single_places, true);
  EXPECT_TRUE(violations.empty()) << describe(violations);
}

// The table in docs/architecture.md, "What lives as long as the process", names the file of each such object, and no other.
TEST_F(Repository, WhatIsNeverDestroyedIsListed) {
  std::set<std::string> used;
  for (const Source& source : sources_) {
    if (is_source(source.path) && !process_lifetimes(source).empty()) used.insert(source.path.substr(6));
  }
  const auto page = std::ranges::find(sources_, "docs/architecture.md", &Source::path);
  ASSERT_NE(page, sources_.end());
  const std::string section = page->text.substr(page->text.find("## What lives as long as the process"));
  const std::string table = section.substr(section.find("\n|"));
  static const std::regex file(R"(`(\w+/\w+\.(cc|h))`)");
  std::set<std::string> listed;
  for (auto at = std::sregex_iterator(table.begin(), table.end(), file); at != std::sregex_iterator(); ++at) {
    if ((*at)[1].str() != "interpose/process_lifetime.h") listed.insert((*at)[1]);
  }
  EXPECT_EQ(listed, used);
}

TEST_F(Repository, FilesAreShort) {
  const auto violations = collect(check_length, false);
  EXPECT_TRUE(violations.empty()) << describe(violations);
}

}  // namespace
}  // namespace layers
