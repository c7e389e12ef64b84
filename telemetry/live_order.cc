// SPDX-License-Identifier: Apache-2.0
#include "telemetry/live_order.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <thread>

#include "driver/printable.h"
#include "telemetry/live_page_files.h"

namespace thermocline {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using Clock = std::chrono::steady_clock;

// The interval for checking whether the process still exists, and whether the page can be locked.
constexpr milliseconds kLook{100};
constexpr milliseconds kBetweenLocks{5};

SleepReport report_of(const LivePage& page) {
  const auto& n = page.order_numbers;
  return {.device_bytes_before = n[0].load(),
          .device_bytes = n[1].load(),
          .pinned_bytes = n[2].load(),
          .external_bytes = n[3].load(),
          .in_use_bytes = n[4].load(),
          .no_host_bytes = n[5].load(),
          .other_bytes = n[6].load(),
          .asleep_bytes = n[7].load(),
          .copied_bytes = n[8].load(),
          .untagged_bytes = n[9].load()};
}

OrderOutcome as_outcome(LiveRead found) {
  if (found == LiveRead::kRefused) return OrderOutcome::kRefused;
  return found == LiveRead::kNone ? OrderOutcome::kNone : OrderOutcome::kUnknown;
}

bool lock_in_time(OpenPage& page, Clock::time_point until) {
  while (!page.lock()) {
    if (Clock::now() >= until) return false;
    std::this_thread::sleep_for(kBetweenLocks);
  }
  return true;
}

OrderOutcome wait_for_end(OpenPage& page, std::uint32_t order, Clock::time_point begin_until, Clock::time_point until,
                          OrderAnswer* out) {
  for (;;) {
    std::uint32_t sequence = 0;
    const CopiedPage copied = copy_whole_page(page, &sequence);
    if (copied == CopiedPage::kGone) return OrderOutcome::kUnknown;
    bool has_begun = false;
    if (copied == CopiedPage::kWhole) {
      if (page.copy().order_ended.load() == order) {
        out->status = page.copy().order_status.load();
        out->report = report_of(page.copy());
        return OrderOutcome::kEnded;
      }
      has_begun = page.copy().order_begun.load() == order;
    }
    // It may have ended while it wrote.
    if (page.is_left_over()) return OrderOutcome::kNone;
    const Clock::time_point now = Clock::now();
    if (now >= until || (!has_begun && copied == CopiedPage::kWhole && now >= begin_until)) {
      if (has_begun) return OrderOutcome::kUnfinished;
      const bool taken_back = page.write_order(0) && page.read_again() && page.copy().order_begun.load() != order;
      return taken_back ? OrderOutcome::kSilent : OrderOutcome::kUnfinished;
    }
    page.wait_while(sequence, std::min<nanoseconds>(kLook, until - now));
  }
}

}  // namespace

std::array<std::uint64_t, LivePage::kOrderNumbers> order_numbers(const SleepReport& report) {
  return {report.device_bytes_before, report.device_bytes,  report.pinned_bytes, report.external_bytes,
          report.in_use_bytes,        report.no_host_bytes, report.other_bytes,  report.asleep_bytes,
          report.copied_bytes,        report.untagged_bytes};
}

OrderOutcome give_order(const std::string& folder, int pid, OrderKind kind, const std::string& tag,
                        milliseconds begin_within, milliseconds end_within, OrderAnswer* out) {
  const Clock::time_point begun = Clock::now();
  OpenPage page;
  if (const LiveRead found = find_live_page(folder, pid, &page); found != LiveRead::kAnswered) return as_outcome(found);
  // In this namespace its number belongs to another process.
  if (!page.is_of_own_namespace()) return OrderOutcome::kNone;
  out->owner = page.owner();
  const auto& program = page.copy().program;
  out->program = printable({program.data(), strnlen(program.data(), program.size())});
  const bool is_older = page.copy().takes_orders != 1 || (!tag.empty() && page.copy().takes_tags != 1);
  if (is_older) return OrderOutcome::kOlder;
  if (!lock_in_time(page, begun + end_within)) return OrderOutcome::kBusy;
  if (!page.read_again()) return OrderOutcome::kUnknown;
  // Differs from every order that may still be in the page.
  const std::uint32_t last = std::max(page.copy().order.load(), page.copy().order_begun.load());
  const std::uint32_t order = (((last >> 8) + 1) << 8) | static_cast<std::uint32_t>(kind);
  if (!page.write_tag(tag) || !page.write_order(order) || !page.ask()) return OrderOutcome::kUnknown;
  return wait_for_end(page, order, Clock::now() + begin_within, begun + end_within, out);
}

}  // namespace thermocline
