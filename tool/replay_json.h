// SPDX-License-Identifier: Apache-2.0
// The JSON object that `replay --json` prints.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "tool/replay_job.h"

namespace thermocline {

nlohmann::ordered_json replay_json(const ReplayFlags& flags, const ReplayJob& job, const ReplayFindings& outcome);

// The checksum in the form of results: 16 digits.
std::string checksum_text(std::uint64_t checksum);

}  // namespace thermocline
