// SPDX-License-Identifier: Apache-2.0
#include "offload/report.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cinttypes>
#include <cstdarg>
#include <cstdio>
#include <vector>

namespace thermocline {
namespace {

constexpr std::size_t kHoldersShown = 8;

[[gnu::format(printf, 2, 3)]] void append(std::string* text, const char* format, ...) {
  std::array<char, 256> line;
  va_list arguments;
  va_start(arguments, format);
  const int length = std::vsnprintf(line.data(), line.size(), format, arguments);
  va_end(arguments);
  if (length > 0) text->append(line.data(), std::min(static_cast<std::size_t>(length), line.size() - 1));
}

double mib(Bytes bytes) { return static_cast<double>(bytes) / static_cast<double>(kMiB); }

void append_holders(std::string* text, const Heap& heap) {
  std::vector<const Block*> blocks;
  heap.for_each_block([&blocks](const Block& block) { blocks.push_back(&block); });
  std::sort(blocks.begin(), blocks.end(), [](const Block* a, const Block* b) {
    return a->live_bytes() != b->live_bytes() ? a->live_bytes() > b->live_bytes() : a->serial() < b->serial();
  });
  for (std::size_t i = 0; i < std::min(blocks.size(), kHoldersShown); ++i) {
    const Block& block = *blocks[i];
    append(text, "  %10.1f MiB at 0x%" PRIx64 " in %" PRIu32 " %s, %s\n", mib(block.live_bytes()), block.begin().value,
           block.live_buffers(), block.live_buffers() == 1 ? "buffer" : "buffers",
           block.mapped() ? "on the device" : "on the host");
  }
  if (blocks.size() > kHoldersShown) append(text, "  ... and %zu more blocks\n", blocks.size() - kHoldersShown);
}

}  // namespace

std::string out_of_memory_report(const char* what, Bytes wanted, const EngineStatistics& now, const Heap& heap,
                                 const Residency& residency) {
  std::string text;
  append(&text, "thermocline: out of memory: %s of %.1f MiB does not fit into a budget of %.1f MiB\n", what,
         mib(wanted), mib(now.budget_bytes));
  append(&text,
         "  live %.1f MiB (peak %.1f), of these on the device %.1f MiB; on the host %.1f MiB; the program's own "
         "mappings %.1f MiB\n",
         mib(now.live_bytes), mib(now.peak_live_bytes), mib(residency.resident_bytes()), mib(now.host_bytes),
         mib(now.foreign_bytes));
  append(&text, "  buffers that may not leave the device: %" PRIu64 "\n", now.pinned_buffers);
  append_holders(&text, heap);
  return text;
}

void write_report(const std::string& report) {
  for (std::size_t done = 0; done < report.size();) {
    const ssize_t n = ::write(STDERR_FILENO, report.data() + done, report.size() - done);
    if (n <= 0) return;
    done += static_cast<std::size_t>(n);
  }
}

}  // namespace thermocline
