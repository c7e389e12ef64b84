// SPDX-License-Identifier: Apache-2.0
// Orders to running processes: to sleep, to wake (docs/sleep.md). Whoever gives one locks the process's page
// (telemetry/live_page.h), writes the order there and makes a request. The process carries it out on a thread of its
// own, whatever the program does, and writes what has come of it to the page. What has not been begun in time is taken
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

// As they stand on the page. New ones are only ever added at the end.
std::array<std::uint64_t, LivePage::kOrderNumbers> order_numbers(const SleepReport& report);

enum class OrderOutcome : std::uint8_t {
  kEnded,       // see OrderAnswer
  kUnfinished,  // it was begun, and goes on
  kSilent,      // the process did not begin in time; the order was taken back
  kBusy,        // somebody else gives it orders
  kOlder,       // the process's library takes none
  // As LiveRead says.
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
OrderOutcome give_order(const std::string& folder, int pid, OrderKind kind, std::chrono::milliseconds begin_within,
                        std::chrono::milliseconds end_within, OrderAnswer* out);

}  // namespace thermocline
