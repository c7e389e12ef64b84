// SPDX-License-Identifier: Apache-2.0
// Finds what a program does wrong with its buffers, when it is asked to (setting `debug`):
//
//   track   remembers who allocated and who freed each buffer, and reports what is freed twice or never was allocated,
//           operations on buffers that were freed, and copies and sets that go past the end of theirs
//   guard   also fills new buffers (0xA5) and freed ones (0xDD), keeps freed ones for a while, and puts a pattern
//   behind
//           each (0xFA): what is written past the end or after the free is reported, later, when the pattern is looked
//           at
//
// A report names the buffer and all sites that are known. The program goes on; so does what it did, as far as the
// driver would have let it. Switched off, it costs a test of one flag in each hook.
#pragma once

#include <atomic>
#include <optional>

#include "hooks/operands/accesses.h"
#include "hooks/runtime/runtime.h"

namespace thermocline {

enum class MisuseWatch : std::uint8_t { kOff, kTrack, kGuard };

namespace detail {
extern std::atomic<MisuseWatch> misuse_watch;
}

inline bool watches_misuse() noexcept {
  return detail::misuse_watch.load(std::memory_order_relaxed) != MisuseWatch::kOff;
}
// Before the engine hands out anything.
void watch_misuse(MisuseWatch watch);
// The engine that had these addresses is gone, and all of its buffers.
void forget_buffers(OwnRange range);

// In place of the engine's; like them, in its context and Inside.
Status allocate_watched(const ActiveEngine& active, Bytes bytes, std::optional<StreamHandle> stream,
                        DeviceAddress* out);
Status free_watched(const ActiveEngine& active, DeviceAddress address, std::optional<StreamHandle> stream);
// Before an operation.
void look_at(const AccessList& accesses, StreamHandle stream);

}  // namespace thermocline
