// SPDX-License-Identifier: Apache-2.0
#include "allocator/assigned_pages.h"

#include <vector>

#include <gtest/gtest.h>

namespace thermocline {
namespace {

constexpr PageHandle kRed{1}, kGreen{2}, kBlue{3};

AssignedPages of_a_second() {
  AssignedPages table;
  table.set_period(1000);
  return table;
}

TEST(AssignedPages, OfSeveralHomesTheOneWhoseTimeIsNearestIsMeant) {
  AssignedPages table = of_a_second();
  table.add(7, 100, 200, kRed);
  table.add(7, 600, 700, kGreen);
  for (const auto& [now, physical] :
       {std::pair{90u, kRed}, {300u, kRed}, {500u, kGreen}, {650u, kGreen}, {980u, kRed}}) {
    table.now(now);
    EXPECT_EQ(table.physical_of(7), physical) << now;
  }
  EXPECT_EQ(table.physical_of(8), PageHandle{});
}

TEST(AssignedPages, APageIsMissedWhenItsNextVisitorComesRoundTheEndToo) {
  AssignedPages table = of_a_second();
  table.add(7, 100, 200, kRed);
  table.add(8, 600, 700, kRed);
  for (const auto& [now, idle] : {std::pair{0u, 100u}, {100u, 500u}, {700u, 400u}}) {
    table.now(now);
    EXPECT_EQ(table.idle_for(kRed), idle) << now;
  }
  EXPECT_EQ(table.idle_for(kBlue), 1000u) << "nobody ever comes";
}

TEST(AssignedPages, WhoComesBeforeAnybodyElseIsNext) {
  AssignedPages table = of_a_second();
  table.add(7, 100, 200, kRed);
  table.add(8, 600, 700, kRed);
  table.now(300);
  EXPECT_FALSE(table.is_next(7));
  EXPECT_TRUE(table.is_next(8));
  table.now(650);
  EXPECT_TRUE(table.is_next(8)) << "it is there";
  table.now(800);
  EXPECT_TRUE(table.is_next(7));
  EXPECT_FALSE(table.is_next(8));
  EXPECT_TRUE(table.is_next(9)) << "it has no physical";
}

TEST(AssignedPages, NobodyHasAHomeWhileItRests) {
  AssignedPages table = of_a_second();
  table.add(7, 100, 200, kRed);
  table.rest();
  EXPECT_TRUE(table.empty());
  EXPECT_EQ(table.physical_of(7), PageHandle{});
  table.resume();
  EXPECT_EQ(table.physical_of(7), kRed);
}

TEST(AssignedPages, WhoIsElsewhereAtTheBeginningMovesTogetherWithAllWhoShareTheHome) {
  AssignedPages table = of_a_second();
  table.add(7, 0, 200, kRed);
  table.add(8, 600, 700, kRed);
  const std::vector<AssignedPages::Held> held{{7, kBlue}};
  table.rebind(held, {});
  EXPECT_EQ(table.physical_of(7), kBlue);
  EXPECT_EQ(table.physical_of(8), kBlue);
  EXPECT_EQ(table.idle_for(kRed), 1000u);
}

TEST(AssignedPages, WhoComesEarlyIsAtHome) {
  AssignedPages table = of_a_second();
  table.add(7, 0, 100, kRed);
  table.add(8, 900, 950, kGreen);
  const std::vector<AssignedPages::Held> held{{7, kRed}, {8, kGreen}};
  table.rebind(held, {});
  table.now(900);
  EXPECT_EQ(table.physical_of(7), kRed);
  EXPECT_EQ(table.physical_of(8), kGreen);
}

TEST(AssignedPages, AHomeThatIsTakenIsExchangedForALoosePageOrNone) {
  AssignedPages table = of_a_second();
  table.add(7, 500, 600, kRed);
  table.add(8, 500, 600, kGreen);
  // Addresses without an assignment have taken both pages; one page is free.
  const std::vector<AssignedPages::Held> held{{20, kRed}, {21, kGreen}};
  const std::vector<PageHandle> loose{kBlue};
  table.rebind(held, loose);
  EXPECT_EQ(table.physical_of(7), kBlue) << "the lower page first";
  EXPECT_EQ(table.physical_of(8), PageHandle{});
  EXPECT_FALSE(table.is_assigned(8));
}

}  // namespace
}  // namespace thermocline
