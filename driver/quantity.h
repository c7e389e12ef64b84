// SPDX-License-Identifier: Apache-2.0
// A number and a noun for messages: "1 kernel", "2 kernels".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace thermocline {

// `many` empty: `one` with an s.
inline std::string quantity(std::uint64_t count, std::string_view one, std::string_view many = {}) {
  std::string text = std::to_string(count) + " ";
  if (count == 1) return text.append(one);
  return many.empty() ? text.append(one).append("s") : text.append(many);
}

}  // namespace thermocline
