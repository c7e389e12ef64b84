// SPDX-License-Identifier: Apache-2.0
#include "config/control_group.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace thermocline {
namespace {

class ControlGroup : public testing::Test {
 protected:
  std::filesystem::path folder;

  void SetUp() override {
    folder = std::filesystem::path(testing::TempDir()) /
             (std::string("groups_") + testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::remove_all(folder);
    std::filesystem::create_directories(folder);
  }
  void TearDown() override { std::filesystem::remove_all(folder); }

  void write(const std::string& name, const std::string& text) const {
    const std::filesystem::path file = folder / name;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  Bytes limit(const std::string& groups) const {
    write("self", groups);
    return control_group_limit(folder / "self", folder / "mount");
  }
};

TEST_F(ControlGroup, OfVersion2IsTheLeastUpToTheRoot) {
  write("mount/a/b/memory.max", "max\n");
  write("mount/a/memory.max", "1000\n");
  write("mount/memory.max", "5000\n");
  EXPECT_EQ(limit("0::/a/b\n"), 1000u);
  EXPECT_EQ(limit("0::/\n"), 5000u);
}

TEST_F(ControlGroup, OfVersion1IsReadWhereTheMemoryControllerIs) {
  write("mount/memory/a/b/memory.limit_in_bytes", "3000\n");
  write("mount/memory/a/memory.limit_in_bytes", "2000\n");
  write("mount/memory/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(limit("5:cpu,memory:/a/b\n4:pids:/a\n"), 2000u);
  EXPECT_EQ(limit("5:memory_other:/a/b\n"), 0u);
  EXPECT_EQ(limit("5:memory:/\n"), 0u);
}

// In a container the root of the mount is the container's own group.
TEST_F(ControlGroup, PathOfTheHostIsPassedOver) {
  write("mount/memory/memory.limit_in_bytes", "4000\n");
  EXPECT_EQ(limit("9:memory:/docker/0123\n"), 4000u);
}

TEST_F(ControlGroup, LeastOfBothVersionsCounts) {
  write("mount/x/memory.max", "7000\n");
  write("mount/memory/y/memory.limit_in_bytes", "6000\n");
  EXPECT_EQ(limit("0::/x\n3:memory:/y\n"), 6000u);
  EXPECT_EQ(limit("3:memory:/z\n0::/x\n"), 7000u);
}

TEST_F(ControlGroup, NoneIsNoLimit) {
  EXPECT_EQ(limit(""), 0u);
  EXPECT_EQ(limit("nonsense\n0::\n::\n"), 0u);
}

}  // namespace
}  // namespace thermocline
