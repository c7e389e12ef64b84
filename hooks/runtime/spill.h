// SPDX-License-Identifier: Apache-2.0
// The spill file of an engine, as the settings say (docs/host_spill.md).
#pragma once

#include <memory>
#include <string>

#include "config/settings.h"
#include "offload/spill/spill_file.h"

namespace thermocline {

// Null: the settings want none, or there can be none, which is said; where the settings are strict, `refused` says why.
// Else sets what the engine needs to know.
std::shared_ptr<SpillFile> open_spill_file(const Settings& settings, EngineOptions* options, std::string* refused);

}  // namespace thermocline
