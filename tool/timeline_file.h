// SPDX-License-Identifier: Apache-2.0
// The file that the simulated device writes its timeline to.
#pragma once

#include <string>

namespace thermocline {

// Call it before a long replay: the device would only warn, and there would be no timeline. Prints why not.
bool can_be_written(const std::string& path);
// Whether the file is complete: its last line is the closing bracket.
bool is_whole_timeline(const std::string& path);

}  // namespace thermocline
