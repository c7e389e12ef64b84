// SPDX-License-Identifier: Apache-2.0
// Only this library is removed from LD_PRELOAD.
#include "hooks/entry/children.h"

#include <gtest/gtest.h>

namespace thermocline {
namespace {

TEST(Children, AreNotGivenTheLibraryAndKeepAllOthers) {
  EXPECT_EQ(preload_of_others("/opt/lib/libthermocline.so.1"), "");
  EXPECT_EQ(preload_of_others("libthermocline.so"), "");
  EXPECT_EQ(preload_of_others(""), "");
  EXPECT_EQ(preload_of_others("/usr/lib/libjemalloc.so.2:/opt/lib/libthermocline.so.1"), "/usr/lib/libjemalloc.so.2");
  EXPECT_EQ(preload_of_others("a.so libthermocline.so.1 b.so::c.so"), "a.so:b.so:c.so");
  EXPECT_EQ(preload_of_others("/libthermocline.so.1/other.so"), "/libthermocline.so.1/other.so");
}

}  // namespace
}  // namespace thermocline
