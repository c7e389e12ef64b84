// SPDX-License-Identifier: Apache-2.0
// The flag --policy of a replay. It accepts more policies than the setting: all of the table, and those named after
// their plans.
#pragma once

#include <string>

#include "config/settings.h"

namespace thermocline {

// False: an error has been printed.
// `flag`: the flag that has the value.
bool parse_policy_flag(const std::string& text, const std::string& flag, Settings* settings);

// The policies of the table, then those named after their plans.
std::string policy_help();
// The policies of the setting: "none, reactive or learned (default: learned)".
std::string policy_setting_help();

}  // namespace thermocline
