// SPDX-License-Identifier: Apache-2.0
#include "config/duration.h"

#include <gtest/gtest.h>

namespace thermocline {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

TEST(Duration, IsAWholeNumberOfAUnit) {
  ParseError error;
  EXPECT_EQ(parse_duration("1s", &error), seconds(1));
  EXPECT_EQ(parse_duration("250ms", &error), milliseconds(250));
  EXPECT_EQ(parse_duration(" 3 min ", &error), minutes(3));
  EXPECT_EQ(parse_duration("1000h", &error), hours(1000));
  EXPECT_EQ(parse_duration("off", &error), milliseconds(0));
  EXPECT_EQ(parse_duration("0", &error), milliseconds(0));
}

TEST(Duration, IsShownAsItIsRead) {
  for (const char* text : {"1s", "250ms", "3min", "1001ms", "2h", "90min", "off"}) {
    ParseError error;
    const auto parsed = parse_duration(text, &error);
    ASSERT_TRUE(parsed.has_value()) << error.message;
    EXPECT_EQ(duration_text(*parsed), text);
  }
}

TEST(Duration, WhatIsNoneIsRefusedWithAReason) {
  const auto why = [](const char* text) {
    ParseError error;
    EXPECT_FALSE(parse_duration(text, &error).has_value()) << text;
    return error;
  };
  EXPECT_EQ(why("").message, "'' is no duration; write for example 1s, 250ms or off");
  EXPECT_EQ(why("soon").message, "'soon' is no duration; write for example 1s, 250ms or off");
  EXPECT_EQ(why("-1s").message, "'-1s' is no duration; write for example 1s, 250ms or off");
  EXPECT_EQ(why("5").message, "'5' has no unit; units are ms, s, min and h");
  EXPECT_EQ(why("5").suggestion, "5s");
  EXPECT_EQ(why("1.5s").message, "'1.5s' has the unknown unit '.5s'; units are ms, s, min and h");
  EXPECT_EQ(why("5 parsec").message, "'5 parsec' has the unknown unit 'parsec'; units are ms, s, min and h");
  EXPECT_EQ(why("1001h").message, "'1001h' is too long");
  EXPECT_EQ(why("99999999999999999999s").message, "'99999999999999999999s' is too long");
}

}  // namespace
}  // namespace thermocline
