// SPDX-License-Identifier: Apache-2.0
// Names of other programs are shown without control characters for the terminal.
#include "driver/printable.h"

#include <gtest/gtest.h>

namespace thermocline {
namespace {

TEST(Printable, WhatIsReadableStays) {
  EXPECT_EQ(printable("python train.py --lr=1e-3 \"x\" \\"), "python train.py --lr=1e-3 \"x\" \\");
  EXPECT_EQ(printable("caf\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80"), "caf\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80");
  EXPECT_EQ(printable(""), "");
}

TEST(Printable, WhatRulesATerminalOrEndsALineDoesNot) {
  EXPECT_EQ(printable("\033[2J\a\r\n\t\x7F"), "?[2J?????");
  EXPECT_EQ(printable("\xC2\x9B"
                      "1m"),
            "?1m")
      << "ECMA-48 in 8 bits, as UTF-8";
  EXPECT_EQ(printable("\xE2\x80\xAE"
                      "txt.exe\xE2\x80\xA8"),
            "?txt.exe?")
      << "from right to left; end of line";
  EXPECT_EQ(printable_lines("one\ntwo\033c\r"), "one\ntwo?c?");
}

TEST(Printable, WhatIsNoUtf8IsShownByteByByte) {
  EXPECT_EQ(printable("\x9B"
                      "1m\xFF"),
            "?1m?");
  EXPECT_EQ(printable("\xC0\xAF"), "??") << "longer than needed";
  EXPECT_EQ(printable("\xED\xA0\x80"), "???") << "half of a pair";
  EXPECT_EQ(printable("\xF4\x90\x80\x80"), "????") << "beyond the last character";
  EXPECT_EQ(printable("a\xE2\x82"), "a??") << "cut off";
}

TEST(Printable, EndsWithAWholeCharacter) {
  EXPECT_EQ(printable("abcdef", 3), "abc");
  EXPECT_EQ(printable("ab\xE2\x82\xAC", 4), "ab");
  EXPECT_EQ(printable("ab\xE2\x82\xAC", 5), "ab\xE2\x82\xAC");
  EXPECT_EQ(printable("abc", 0), "");
}

}  // namespace
}  // namespace thermocline
