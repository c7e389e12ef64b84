// SPDX-License-Identifier: Apache-2.0
#include "simulator/profile.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace simulator {
namespace {

class ProfileFile : public testing::Test {
 protected:
  ~ProfileFile() override {
    for (const std::string& path : written_) std::filesystem::remove(path);
  }
  // A different name each time, because files are read only once.
  std::string write(const std::string& text) {
    written_.push_back((std::filesystem::temp_directory_path() /
                        ("profile_" + std::to_string(getpid()) + "_" + std::to_string(++count_) + ".toml"))
                           .string());
    std::ofstream(written_.back()) << text;
    return written_.back();
  }
  void expect_refused(const std::string& text, const std::string& reason) {
    std::string why;
    const std::string path = write(text);
    EXPECT_EQ(read_profile(path, &why), nullptr);
    EXPECT_EQ(why, path + ":" + reason);
    EXPECT_EQ(find_profile(path), nullptr);
  }

  std::vector<std::string> written_;
  static inline int count_ = 0;
};

TEST_F(ProfileFile, HasItsOwnFiguresAndThoseOfTheDeviceThatItIsLike) {
  const std::string path = write(
      "# measured\nlike = \"h200\"  # a known one\ntitle = \"An H200\"\nsource = \"measured today\"\n\n"
      "link_to_device = 53.5e9\nhost_map_ns = 0\n  memory_bytes = 1000000  # less\n");
  const Profile* const found = find_profile(path);
  ASSERT_NE(found, nullptr);
  const Profile& h200 = *find_profile("h200");
  EXPECT_EQ(found->link_to_device.value, 53.5e9);
  EXPECT_STREQ(found->link_to_device.source, "measured today");
  EXPECT_EQ(found->memory_bytes.value, 1000000u);
  EXPECT_EQ(found->host.map.value, 0);
  EXPECT_EQ(found->link_to_host.value, h200.link_to_host.value);
  EXPECT_STREQ(found->link_to_host.source, h200.link_to_host.source);
  EXPECT_STREQ(found->title, "An H200");
  EXPECT_EQ(find_profile(found->name), found) << "its name finds it again";
}

TEST_F(ProfileFile, EmptyIsTheReference) {
  const Profile* const found = find_profile(write(""));
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->fp32_flops.value, find_profile("reference")->fp32_flops.value);
}

TEST_F(ProfileFile, WhatIsWrongIsSaidWithItsLine) {
  expect_refused("link_to_device 5\n", "1: expected key = number or key = \"text\"");
  expect_refused("\nlink_to_device = fast\n", "2: expected key = number or key = \"text\"");
  expect_refused("title = \"unfinished\n", "1: expected key = number or key = \"text\"");
  expect_refused("bandwidth = 5\n", "1: unknown key 'bandwidth'");
  expect_refused("link_to_device = 0\n", "1: link_to_device is out of range");
  expect_refused("host_map_ns = -1\n", "1: host_map_ns is out of range");
  expect_refused("link_to_device = \"5\"\n", "1: link_to_device is a number");
  expect_refused("like = 5\n", "1: like is a text");
  expect_refused("like = \"abacus\"\n", "like: there is no device 'abacus'");
  expect_refused("like = \"./other.toml\"\n", "like: there is no device './other.toml'");
  std::string why;
  EXPECT_EQ(read_profile("/nowhere/x.toml", &why), nullptr);
  EXPECT_EQ(why, "/nowhere/x.toml: can not be read");
}

}  // namespace
}  // namespace simulator
