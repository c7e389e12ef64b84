// SPDX-License-Identifier: Apache-2.0
// The reader's side of telemetry/live_page.h.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <ctime>

#include "driver/printable.h"
#include "telemetry/live_page.h"
#include "telemetry/live_page_files.h"
#include "telemetry/statistic_names.h"

namespace thermocline {
namespace {

using std::chrono::nanoseconds;

nanoseconds now() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return std::chrono::seconds(time.tv_sec) + nanoseconds(time.tv_nsec);
}

// A damaged page may contain any number; values below 1 mean that there is none.
int one_less(std::int32_t number) { return number > 0 ? number - 1 : -1; }

// The text may lack its terminator, or contain terminal control characters.
template <std::size_t kSize>
std::string text_of(const std::array<char, kSize>& text) {
  return printable({text.data(), strnlen(text.data(), kSize)});
}

CopiedPage copy_out(OpenPage& open, std::uint32_t* sequence, std::uint32_t* answered, LiveStatistics* out) {
  if (const CopiedPage copied = copy_whole_page(open, sequence); copied != CopiedPage::kWhole) return copied;
  const LivePage& page = open.copy();
  *answered = page.answered.load();
  // A page can not have been written in the future, whatever it claims.
  out->written = nanoseconds(
      static_cast<std::int64_t>(std::min(page.written_ns.load(), static_cast<std::uint64_t>(now().count()))));
  out->values.clear();
  const std::size_t rows = std::min<std::size_t>({page.rows, statistics_table().size(), LivePage::kMostRows});
  for (std::size_t i = 0; i < rows; ++i) out->values.push_back(page.values[i].load());
  return CopiedPage::kWhole;
}

void describe(const OpenPage& open, int pid, LiveStatistics* out) {
  const LivePage& page = open.copy();
  out->pid = pid;
  out->owner = open.owner();
  out->version = text_of(page.version);
  out->program = text_of(page.program);
  out->rank = {one_less(page.rank), one_less(page.local_rank), one_less(page.world_size)};
}

}  // namespace

LiveRead read_live_page(const std::string& folder, int pid, std::chrono::milliseconds timeout, LiveStatistics* out) {
  OpenPage page;
  const LiveRead found = find_live_page(folder, pid, &page);
  if (found != LiveRead::kAnswered) return found;
  describe(page, pid, out);
  // Requests that others made meanwhile count too: the answer to a later request also answers this one.
  if (!page.ask() || !page.read_again()) return LiveRead::kUnknown;
  const std::uint32_t request = page.copy().requests.load();
  const nanoseconds until = now() + timeout;
  bool has_copy = false;
  for (;;) {
    std::uint32_t sequence = 0, answered = 0;
    LiveStatistics copy = *out;
    const CopiedPage copied = copy_out(page, &sequence, &answered, &copy);
    if (copied == CopiedPage::kGone) return LiveRead::kUnknown;
    if (copied == CopiedPage::kWhole) {
      *out = std::move(copy);
      has_copy = true;
      // Compared as a difference, because the counter wraps around.
      if (out->written.count() > 0 && static_cast<std::int32_t>(answered - request) >= 0) return LiveRead::kAnswered;
    }
    const nanoseconds left = until - now();
    if (left.count() <= 0) break;
    page.wait_while(sequence, left);
  }
  if (!has_copy) out->values.clear();
  return LiveRead::kSilent;
}

}  // namespace thermocline
