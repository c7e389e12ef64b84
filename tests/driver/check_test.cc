// SPDX-License-Identifier: Apache-2.0
#include "driver/check.h"

#include <string>

#include <gtest/gtest.h>

namespace thermocline {
namespace {

std::string heard;

void listen(const char*, int, const char* condition, const char* sentence) {
  heard = std::string(condition) + ": " + sentence;
}

TEST(Check, TheInstalledHandlerHearsOfIt) {
  heard.clear();
  const CheckHandler before = set_check_handler(listen);
  THERMOCLINE_CHECK(1 + 1 == 2, "Arithmetic holds.");
  EXPECT_EQ(heard, "");
  THERMOCLINE_CHECK(1 + 1 == 3, "Arithmetic is different here.");
  EXPECT_EQ(heard, "1 + 1 == 3: Arithmetic is different here.");
  EXPECT_EQ(set_check_handler(before), &listen);
}

TEST(CheckDeathTest, WithoutAHandlerItAborts) {
  EXPECT_DEATH(THERMOCLINE_CHECK(false, "This does not hold."), "This does not hold");
}

}  // namespace
}  // namespace thermocline
