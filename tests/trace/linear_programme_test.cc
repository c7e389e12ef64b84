// SPDX-License-Identifier: Apache-2.0
#include "trace/linear_programme.h"

#include <gtest/gtest.h>

namespace thermocline::test {
namespace {

// x + y has its minimum at (1.6, 1.2), where both rows meet.
class TwoRows : public testing::Test {
 protected:
  TwoRows() {
    const int x = programme_.add_variable(0, 10, 1);
    const int y = programme_.add_variable(0, 10, 1);
    first_ = programme_.add_row(4, kUnlimited);
    programme_.add_term(first_, x, 1);
    programme_.add_term(first_, y, 2);
    second_ = programme_.add_row(-kUnlimited, -6);
    programme_.add_term(second_, x, -3);
    programme_.add_term(second_, y, -1);
  }

  LinearProgramme programme_;
  int first_, second_;
};

TEST_F(TwoRows, TheBoundIsTheMinimumOnceItIsSolved) { EXPECT_NEAR(programme_.lower_bound(1000), 2.8, 1e-9); }

TEST_F(TwoRows, ASolverThatIsStoppedGivesALowerBoundAllTheSame) {
  const double bound = programme_.lower_bound(0);
  EXPECT_LE(bound, 2.8);
  EXPECT_GE(bound, 0);
}

TEST_F(TwoRows, MultipliersAreWhatALimitCosts) {
  programme_.lower_bound(1000);
  EXPECT_NEAR(programme_.multiplier(first_), 0.4, 1e-9);
  EXPECT_NEAR(programme_.multiplier(second_), -0.2, 1e-9);
}

TEST_F(TwoRows, ValuesAreWhereTheMinimumIs) {
  EXPECT_FALSE(programme_.is_solved());
  programme_.lower_bound(0);
  EXPECT_FALSE(programme_.is_solved()) << "it was stopped";
  programme_.lower_bound(1000);
  ASSERT_TRUE(programme_.is_solved());
  EXPECT_NEAR(programme_.value(0), 1.6, 1e-9);
  EXPECT_NEAR(programme_.value(1), 1.2, 1e-9);
}

TEST_F(TwoRows, LimitsOfRowsMayChange) {
  programme_.lower_bound(1000);
  programme_.set_row(first_, 9, kUnlimited);
  EXPECT_NEAR(programme_.lower_bound(1000), 0.4 * 9 + 0.2 * 6, 1e-9);
  programme_.set_row(first_, -kUnlimited, kUnlimited);
  EXPECT_NEAR(programme_.lower_bound(1000), 2.0, 1e-9);
}

TEST(LinearProgramme, WithoutRowsEveryVariableTakesItsCheaperLimit) {
  LinearProgramme programme;
  programme.add_variable(2, 5, 1);
  programme.add_variable(-1, 4, -3);
  EXPECT_DOUBLE_EQ(programme.lower_bound(10), 2 - 12);
}

}  // namespace
}  // namespace thermocline::test
