// SPDX-License-Identifier: Apache-2.0
#include "config/problem.h"

namespace thermocline {

std::string Problem::text() const {
  std::string out = source;
  if (line > 0) out += ":" + std::to_string(line);
  if (line > 0 && column > 0) out += ":" + std::to_string(column);
  out += ": " + message;
  if (!suggestion.empty()) out += "; did you mean '" + suggestion + "'?";
  return out;
}

}  // namespace thermocline
