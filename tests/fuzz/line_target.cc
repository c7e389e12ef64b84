// SPDX-License-Identifier: Apache-2.0
// Input: an arbitrary line as an event. An accepted line is written as JSON that another parser accepts too, and that
// is the same event when it is read again.
#include <nlohmann/json.hpp>

#include <cstddef>
#include <cstdint>
#include <string>

#include "driver/check.h"
#include "trace/event_lines.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using thermocline::EventFields;
  const std::string_view line(reinterpret_cast<const char*>(data), size);
  EventFields first, second;
  if (!thermocline::parse_event_line(line, &first).empty()) return 0;
  std::string again;
  thermocline::append_event_line(first, &again);
  THERMOCLINE_CHECK(nlohmann::json::accept(again), "what is written is JSON");
  THERMOCLINE_CHECK(thermocline::parse_event_line(again, &second).empty(), "what is written is read");
  std::string third;
  thermocline::append_event_line(second, &third);
  THERMOCLINE_CHECK(third == again, "and is the same event");
  return 0;
}
