// SPDX-License-Identifier: Apache-2.0
#include "config/problem.h"

#include "driver/printable.h"

namespace thermocline {

std::string Problem::text() const {
  std::string out = source;
  if (line > 0) out += ":" + std::to_string(line);
  if (line > 0 && column > 0) out += ":" + std::to_string(column);
  out += ": " + message;
  if (!suggestion.empty()) out += "; did you mean '" + suggestion + "'?";
  // Keys and values may come from a file that somebody else wrote.
  return printable(out);
}

}  // namespace thermocline
