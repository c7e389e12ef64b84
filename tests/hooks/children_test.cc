// SPDX-License-Identifier: Apache-2.0
// Of LD_PRELOAD only this library goes.
#include "hooks/children.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

namespace thermocline {
namespace {

std::string left_of(const char* preload) {
  const char* const before = std::getenv("LD_PRELOAD");
  const std::string own = before == nullptr ? "" : before;
  setenv("LD_PRELOAD", preload, 1);
  leave_children_alone();
  const char* const left = std::getenv("LD_PRELOAD");
  const std::string text = left == nullptr ? "(unset)" : left;
  if (before == nullptr) {
    unsetenv("LD_PRELOAD");
  } else {
    setenv("LD_PRELOAD", own.c_str(), 1);
  }
  return text;
}

TEST(Children, AreNotGivenTheLibraryAndKeepAllOthers) {
  EXPECT_EQ(left_of("/opt/lib/libthermocline.so.1"), "(unset)");
  EXPECT_EQ(left_of("libthermocline.so"), "(unset)");
  EXPECT_EQ(left_of("/usr/lib/libjemalloc.so.2:/opt/lib/libthermocline.so.1"), "/usr/lib/libjemalloc.so.2");
  EXPECT_EQ(left_of("a.so libthermocline.so.1 b.so::c.so"), "a.so:b.so:c.so");
  EXPECT_EQ(left_of("/libthermocline.so.1/other.so"), "/libthermocline.so.1/other.so");
}

}  // namespace
}  // namespace thermocline
