// SPDX-License-Identifier: Apache-2.0
// Formats JSON for the command's output.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace thermocline {

// Names of files and programs need not be UTF-8, but JSON must be: invalid bytes become U+FFFD.
inline std::string json_text(const nlohmann::ordered_json& json, int indent = -1) {
  return json.dump(indent, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace thermocline
