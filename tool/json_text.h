// SPDX-License-Identifier: Apache-2.0
// JSON as the command prints it.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace thermocline {

// Names of files and programs need not be UTF-8, and JSON must be: what is not becomes U+FFFD.
inline std::string json_text(const nlohmann::ordered_json& json, int indent = -1) {
  return json.dump(indent, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace thermocline
