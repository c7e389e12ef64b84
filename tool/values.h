// SPDX-License-Identifier: Apache-2.0
// Flags' values that several commands take. What is wrong is said on stderr; then nothing is returned and the usage was
// wrong.
#pragma once

#include <optional>
#include <string>

#include "config/settings.h"
#include "config/size.h"
#include "simulator/profile.h"
#include "trace/trace.h"

namespace thermocline {

// `flag` is named in the message. Percentages above 100 are allowed: they are of what a trace needs, not of a device.
std::optional<SizeSetting> parse_budget_flag(const std::string& text, const std::string& flag);

const simulator::Profile* find_device_flag(const std::string& name, const std::string& flag);

// A value for the option `key` of the settings table, into `settings`.
bool parse_setting_flag(const std::string& key, const std::string& text, const std::string& flag, Settings* settings);

// Reads the trace and says what is wrong with it, or remarkable.
bool read_trace_file(const std::string& path, Trace* out);

DeviceRates rates_of(const simulator::Profile& profile);

}  // namespace thermocline
