// SPDX-License-Identifier: Apache-2.0
// Orders to running processes: to sleep, to wake (docs/sleep.md). The process that gives an order locks the target's
// page (telemetry/live_page.h), writes the order there and makes a request. The target carries it out on a separate
// thread, whatever its program does, and writes the result to the page. An order that was not begun in time is taken
// back.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <string>

#include "offload/sleep.h"
#include "telemetry/live_page.h"

namespace thermocline {

enum class OrderKind : std::uint8_t { kNone, kSleep, kWake };

inline OrderKind kind_of(std::uint32_t order) {
  const std::uint32_t kind = order & 0xff;
  return kind <= static_cast<std::uint32_t>(OrderKind::kWake) ? static_cast<OrderKind>(kind) : OrderKind::kNone;
}

// The numbers of a report in their order on the page. New ones are only added at the end.
std::array<std::uint64_t, LivePage::kOrderNumbers> order_numbers(const SleepReport& report);

enum class OrderOutcome : std::uint8_t {
  kEnded,       // see OrderAnswer
  kUnfinished,  // the order was begun, and continues
  kSilent,      // the process did not begin in time; the order was taken back
  kBusy,        // another process is giving it orders
  kOlder,       // the process's library does not take orders, or no tags
  // As in LiveRead.
  kNone,
  kRefused,
  kUnknown,
};

struct OrderAnswer {
  uid_t owner = 0;
  std::string program;
  int status = 0;  // a CUresult
  SleepReport report;
};

// `begin_within`: how long the process may take to begin; `end_within`: to end.
// `tag`: only what has it; "": everything.
OrderOutcome give_order(const std::string& folder, int pid, OrderKind kind, const std::string& tag,
                        std::chrono::milliseconds begin_within, std::chrono::milliseconds end_within, OrderAnswer* out);

}  // namespace thermocline
