// SPDX-License-Identifier: Apache-2.0
// Opens the spill file of an engine according to the settings (docs/host_spill.md).
#pragma once

#include <memory>
#include <string>

#include "config/settings.h"
#include "offload/spill/spill_file.h"

namespace thermocline {

// Null: the settings want none, or none can be had, which is logged; if the settings are strict, `refused` says why.
// Otherwise also sets the engine's options for it.
std::shared_ptr<SpillFile> open_spill_file(const Settings& settings, EngineOptions* options, std::string* refused);

}  // namespace thermocline
