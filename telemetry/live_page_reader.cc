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

LiveRead open_or_remove(const std::string& path, int pid, OpenPage* page) {
  const LiveRead found = page->open(path, pid);
  if (found != LiveRead::kAnswered || !page->is_left_over()) return found;
  unlink(path.c_str());
  return LiveRead::kNone;
}

// Prefers a page of this PID namespace to one of another namespace that shares the folder.
LiveRead find_page(const std::string& folder, int pid, OpenPage* out) {
  LiveRead found = LiveRead::kNone;
  for (const LivePageName& entry : live_page_names(folder)) {
    if (entry.pid != pid) continue;
    OpenPage page;
    const LiveRead result = open_or_remove(folder + "/" + entry.name, pid, &page);
    if (result == LiveRead::kAnswered) {
      const bool is_near = page.is_of_own_namespace();
      if (is_near || found != LiveRead::kAnswered) *out = std::move(page);
      if (is_near) return result;
    }
    if (found == LiveRead::kNone || result == LiveRead::kAnswered) found = result;
  }
  return found;
}

// A damaged page may contain any number; values below 1 mean that there is none.
int one_less(std::int32_t number) { return number > 0 ? number - 1 : -1; }

// The text may lack its terminator, or contain terminal control characters.
template <std::size_t kSize>
std::string text_of(const std::array<char, kSize>& text) {
  return printable({text.data(), strnlen(text.data(), kSize)});
}

enum class Copied : std::uint8_t { kWhole, kTorn, kGone };

// Orders two reads. A fence instruction would do, but the thread sanitizer does not support fences.
void keep_order() {
  static std::atomic<std::uint32_t> passed{0};
  passed.fetch_add(1, std::memory_order_seq_cst);
}

// Reads one whole copy; kTorn if a copy is being written, or was written while this read.
Copied copy_out(OpenPage& open, std::uint32_t* sequence, std::uint32_t* answered, LiveStatistics* out) {
  std::uint32_t after = 0;
  if (!open.read_sequence(sequence)) return Copied::kGone;
  keep_order();
  if (!open.read_again()) return Copied::kGone;
  keep_order();
  if (!open.read_sequence(&after)) return Copied::kGone;
  if (*sequence % 2 != 0 || after != *sequence) return Copied::kTorn;
  const LivePage& page = open.copy();
  *answered = page.answered.load();
  // A page can not have been written in the future, whatever it claims.
  out->written = nanoseconds(
      static_cast<std::int64_t>(std::min(page.written_ns.load(), static_cast<std::uint64_t>(now().count()))));
  out->values.clear();
  const std::size_t rows = std::min<std::size_t>({page.rows, statistics_table().size(), LivePage::kMostRows});
  for (std::size_t i = 0; i < rows; ++i) out->values.push_back(page.values[i].load());
  return Copied::kWhole;
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

LiveRead read_live_page(const std::string& folder, int pid, std::chrono::milliseconds patience, LiveStatistics* out) {
  OpenPage page;
  const LiveRead found = find_page(folder, pid, &page);
  if (found != LiveRead::kAnswered) return found;
  describe(page, pid, out);
  // Requests that others made meanwhile count too: the answer to a later request also answers this one.
  if (!page.ask() || !page.read_again()) return LiveRead::kUnknown;
  const std::uint32_t request = page.copy().requests.load();
  const nanoseconds until = now() + patience;
  bool has_copy = false;
  for (;;) {
    std::uint32_t sequence = 0, answered = 0;
    LiveStatistics copy = *out;
    const Copied copied = copy_out(page, &sequence, &answered, &copy);
    if (copied == Copied::kGone) return LiveRead::kUnknown;
    if (copied == Copied::kWhole) {
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

std::vector<int> live_processes(const std::string& folder) {
  std::vector<int> found;
  for (const LivePageName& entry : live_page_names(folder)) {
    OpenPage page;
    const bool lives = open_or_remove(folder + "/" + entry.name, entry.pid, &page) == LiveRead::kAnswered;
    if (lives && (found.empty() || found.back() != entry.pid)) found.push_back(entry.pid);
  }
  return found;
}

}  // namespace thermocline
