// SPDX-License-Identifier: Apache-2.0
// How long a refusal is tried again.
#include "hooks/runtime/backoff.h"

#include <gtest/gtest.h>

namespace thermocline {
namespace {

// An ask that is refused that often.
auto refused(int times, int* asked) {
  return [=] { return (*asked)++ < times ? Status::not_ready() : Status(); };
}

TEST(Backoff, AsksUntilItIsGrantedAndNoLonger) {
  int asked = 0;
  EXPECT_TRUE(with_backoff(refused(3, &asked), Backoff(std::chrono::minutes(5))).ok());
  EXPECT_EQ(asked, 4);
}

TEST(Backoff, IsOutOfMemoryWhereTheTimeIsOver) {
  int asked = 0;
  EXPECT_TRUE(with_backoff(refused(1 << 30, &asked), Backoff(std::chrono::seconds(0))).is_out_of_memory());
  EXPECT_EQ(asked, 1);
}

// Only what waiting may change.
TEST(Backoff, OtherErrorsAreFinal) {
  int asked = 0;
  const auto fails = [&] {
    ++asked;
    return Status::not_supported();
  };
  EXPECT_EQ(with_backoff(fails, Backoff(std::chrono::minutes(5))), Status::not_supported());
  EXPECT_EQ(asked, 1);
}

}  // namespace
}  // namespace thermocline
