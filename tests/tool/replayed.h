// SPDX-License-Identifier: Apache-2.0
// Recorded programs that the command's tests replay, and the results that a replay reports.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/support/subprocess.h"

namespace thermocline::test {

inline const std::string kTraces = THERMOCLINE_TRACES;
inline const std::string kUnet = kTraces + "/unet3d_b1_128.jsonl.gz";
inline const std::string kResnet = kTraces + "/resnet50_b64.jsonl.gz";

// One line with one object.
inline nlohmann::json replay_json(const ProcessResult& result) {
  EXPECT_EQ(std::ranges::count(result.out, '\n'), 1) << result.err;
  return nlohmann::json::parse(result.out, nullptr, false);
}

}  // namespace thermocline::test
