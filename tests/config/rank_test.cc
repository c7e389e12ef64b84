// SPDX-License-Identifier: Apache-2.0
#include "config/rank.h"

#include <gtest/gtest.h>

namespace thermocline {
namespace {

using Variables = std::map<std::string, std::string>;

TEST(Rank, IsWhatEachLauncherCallsIt) {
  struct Case {
    Variables variables;
    int rank, local, size;
  };
  const Case cases[] = {
      {{{"RANK", "3"}, {"LOCAL_RANK", "1"}, {"WORLD_SIZE", "8"}}, 3, 1, 8},
      {{{"OMPI_COMM_WORLD_RANK", "5"}, {"OMPI_COMM_WORLD_LOCAL_RANK", "2"}, {"OMPI_COMM_WORLD_SIZE", "6"}}, 5, 2, 6},
      {{{"MV2_COMM_WORLD_RANK", "1"}, {"MV2_COMM_WORLD_LOCAL_RANK", "0"}, {"MV2_COMM_WORLD_SIZE", "2"}}, 1, 0, 2},
      {{{"PMI_RANK", "7"}, {"MPI_LOCALRANKID", "3"}, {"PMI_SIZE", "9"}}, 7, 3, 9},
      {{{"SLURM_PROCID", "4"}, {"SLURM_LOCALID", "0"}, {"SLURM_NTASKS", "16"}}, 4, 0, 16},
  };
  for (const Case& one : cases) {
    const std::optional<Rank> rank = rank_in(one.variables);
    ASSERT_TRUE(rank.has_value()) << one.variables.begin()->first;
    EXPECT_EQ(rank->rank, one.rank);
    EXPECT_EQ(rank->local, one.local);
    EXPECT_EQ(rank->size, one.size);
  }
}

TEST(Rank, TheInnermostLauncherNamesTheProcess) {
  Variables variables = {{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}};
  EXPECT_EQ(rank_in(variables)->rank, 0);
  variables["OMPI_COMM_WORLD_RANK"] = "2";
  EXPECT_EQ(rank_in(variables)->rank, 2);
  EXPECT_FALSE(rank_in(variables)->size.has_value()) << "of another launcher";
  variables["RANK"] = "17";
  EXPECT_EQ(rank_in(variables)->rank, 2) << "RANK alone may mean anything";
  variables["WORLD_SIZE"] = "32";
  EXPECT_EQ(rank_in(variables)->rank, 17);
}

TEST(Rank, WhatIsNoNumberIsNone) {
  for (const char* text : {"", "-1", "two", "1x", "99999999999"}) {
    EXPECT_FALSE(rank_in({{"PMI_RANK", text}}).has_value()) << text;
  }
  EXPECT_FALSE(rank_in({}).has_value());
  EXPECT_EQ(rank_in({{"PMIX_RANK", "0"}})->rank, 0);
}

}  // namespace
}  // namespace thermocline
