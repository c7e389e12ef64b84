// SPDX-License-Identifier: Apache-2.0
// Host memory that the program pins beside the library.
#include <gtest/gtest.h>

#include "tests/preload/running.h"

namespace thermocline::test {
namespace {

// The driver pins 64 MiB: the library keeps what it does not use, until the program is refused. Copies on the host are
// handles, which do not count, unless no device address may map to them.
TEST(HostRoom, WhatTheLibraryKeepsUnusedIsTheProgramsWhenItIsShort) {
  const std::vector<std::string> arguments = {"api_paths/memory/pins_what_is_left"};
  const std::string most = "THERMOCLINE_SIMULATE_DRIVER=pinned=64MiB,host_mapping=off";
  const ProcessResult plain = run_program(arguments, {.preload = {}, .budget = "", .environment = {most}});
  EXPECT_NE(plain.out.find("cuMemHostRegister(own, PINNED, 0): 0"), std::string::npos) << plain.out << plain.err;
  EXPECT_NE(plain.out.find("cuMemHostAlloc(&at, 2 * PINNED, 0): 2"), std::string::npos) << plain.out;
  for (const std::uint64_t order : orders()) {
    const ProcessResult squeezed =
        run_program(arguments, {.preload = {LIBRARY_FILE}, .budget = "12MiB", .order = order, .environment = {most}});
    expect_same(plain, squeezed);
    EXPECT_GT(statistic(squeezed, "evicted_bytes"), 0u);
    EXPECT_GT(statistic(squeezed, "peak_host_bytes"), 24 * kMiB) << "both together are more than the driver pins";
    EXPECT_EQ(statistic(squeezed, "peak_pageable_bytes"), 0u);
  }
}

}  // namespace
}  // namespace thermocline::test
