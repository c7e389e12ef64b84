// SPDX-License-Identifier: Apache-2.0
// Sizes as users write them, and the nearest name to what was written.
#include "config/size.h"

#include <gtest/gtest.h>

#include "config/suggest.h"

namespace thermocline {
namespace {

SizeSetting parsed(std::string_view text, const SizeRules& rules = {}) {
  ParseError error;
  const auto size = parse_size(text, rules, &error);
  EXPECT_TRUE(size.has_value()) << text << ": " << error.message;
  return size.value_or(SizeSetting());
}

ParseError rejected(std::string_view text, const SizeRules& rules = {}) {
  ParseError error;
  EXPECT_FALSE(parse_size(text, rules, &error).has_value()) << text;
  return error;
}

TEST(Size, BytesAndBinaryUnitsAreExact) {
  EXPECT_EQ(parsed("4096").resolve(0), 4096u);
  EXPECT_EQ(parsed("7B").resolve(0), 7u);
  EXPECT_EQ(parsed("3KiB").resolve(0), 3072u);
  EXPECT_EQ(parsed("12GiB").resolve(0), Bytes{12} << 30);
  EXPECT_EQ(parsed(" 1.5 gib ").resolve(0), Bytes{3} << 29);
  EXPECT_EQ(parsed("4611686018427387904").resolve(0), Bytes{1} << 62);
}

TEST(Size, APercentageIsOfTheWholeAndRoundsDown) {
  EXPECT_EQ(parsed("60%").resolve(1000), 600u);
  EXPECT_EQ(parsed("80%").resolve(9'897'194'304), 7'917'755'443u);
  EXPECT_EQ(parsed("62.5%").resolve(16), 10u);
  EXPECT_EQ(parsed("33.333333%").resolve(100), 33u);
  EXPECT_EQ(parsed("100%").resolve(~Bytes{0}), ~Bytes{0});
}

TEST(Size, TextReadsBackAsTheSameSize) {
  for (const char* text : {"1", "1023", "12GiB", "1536MiB", "3KiB", "60%", "62.5%", "0.000001%"}) {
    EXPECT_EQ(parsed(parsed(text).text()), parsed(text)) << text;
  }
  EXPECT_EQ(parsed("1.5GiB").text(), "1536MiB");
  EXPECT_EQ(human_bytes(parsed("1.5TiB").resolve(0)), "1.50 TiB");
  EXPECT_EQ(human_bytes(parsed("1023GiB").resolve(0)), "1023.00 GiB");
  EXPECT_EQ(SizeSetting().text(), "");
}

TEST(Size, WhatIsWrongIsNamed) {
  EXPECT_EQ(rejected("").message, "the value is empty; write for example 12GiB, 512MiB, 60%");
  EXPECT_EQ(rejected("-1GiB").message, "'-1GiB' is negative");
  EXPECT_EQ(rejected("lots").message, "'lots' does not begin with a number; write for example 12GiB, 512MiB, 60%");
  EXPECT_EQ(rejected("0").message, "'0' is nothing at all; it must be above zero");
  EXPECT_EQ(rejected("0%").message, "'0%' is nothing at all; it must be above zero");
  EXPECT_EQ(rejected("101%").message, "'101%' is more than 100%");
  EXPECT_EQ(rejected("100.5%").message, "'100.5%' is more than 100%");
  EXPECT_EQ(rejected("1.5").message, "'1.5' has a fraction of a byte");
  EXPECT_EQ(rejected("1.5").suggestion, "1.5GiB");
  EXPECT_EQ(rejected("0.6").suggestion, "60%");
  EXPECT_EQ(rejected("0.625").suggestion, "62.5%");
  EXPECT_EQ(rejected("1.5B").suggestion, "");
  EXPECT_EQ(rejected("0.5 b").suggestion, "");
  EXPECT_EQ(rejected("18446744073709551617").message, "'18446744073709551617' is too large");
  EXPECT_EQ(rejected("4294967297GiB").message, "'4294967297GiB' is too large");
  EXPECT_EQ(rejected("60%", {.allow_percent = false}).message,
            "'60%' is a percentage; a size in bytes, KiB, MiB or GiB is needed");
  EXPECT_EQ(rejected("1GiB", {.allow_bytes = false}).message, "'1GiB' is a size; a percentage is needed (60%)");
}

TEST(Size, EveryWayToWriteAUnitMeansThePowerOf1024) {
  for (const char* text : {"12GiB", "12G", "12g", "12GB", "12 gb", "12Gi", "12288M", "12288MB", "12582912K"})
    EXPECT_EQ(parsed(text).resolve(0), Bytes{12} << 30) << text;
  EXPECT_EQ(parsed("2TiB").resolve(0), Bytes{2} << 40);
  EXPECT_EQ(parsed("0.5T").resolve(0), Bytes{1} << 39);
  EXPECT_EQ(parsed("2TiB").text(), "2TiB");
  EXPECT_EQ(parsed("7b").resolve(0), 7u);
}

TEST(Size, AnotherUnitIsNotGuessedButOneMayBeSuggested) {
  EXPECT_EQ(rejected("60percent").suggestion, "60%");
  EXPECT_EQ(rejected("12 bytes").suggestion, "12B");
  for (const char* text : {"12parsec", "12Gbit", "12bi", "12bb", "12i", "12GG", "12P"})
    EXPECT_EQ(rejected(text).suggestion, "") << text;
}

TEST(Suggestion, IsTheNearestNameWithinAThirdOfTheLetters) {
  constexpr std::string_view kNames[] = {"budget", "policy", "host_limit"};
  EXPECT_EQ(nearest_name("bugdet", kNames), "budget");
  EXPECT_EQ(nearest_name("polcy", kNames), "policy");
  EXPECT_EQ(nearest_name("hostlimit", kNames), "host_limit");
  EXPECT_EQ(nearest_name("colour", kNames), "");
}

TEST(Suggestion, DistanceCountsEditsAndSwaps) {
  EXPECT_EQ(edit_distance("", "abc"), 3u);
  EXPECT_EQ(edit_distance("abc", "abc"), 0u);
  EXPECT_EQ(edit_distance("abdc", "abcd"), 1u);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3u);
}

}  // namespace
}  // namespace thermocline
