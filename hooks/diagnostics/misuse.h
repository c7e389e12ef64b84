// SPDX-License-Identifier: Apache-2.0
// Detects errors that a program makes with its buffers, if enabled (setting `debug`):
//
//   track   remembers who allocated and who freed each buffer. Reports buffers that are freed twice or were never
//           allocated, operations on freed buffers, and copies and sets that go past the end of their buffer.
//   guard   also fills new buffers (0xA5) and freed ones (0xDD), keeps freed ones for a while,
//           and places a pattern (0xFA) after the end of each.
//           Writes past the end or after the free are reported later,
//           when the pattern is checked.
//
// A report names the buffer and all known call sites. The program continues. Its erroneous operation is executed as far
// as the driver would have executed it; copies and sets that end beyond their buffer are refused (hooks/submit/ends.h).
// If disabled, this costs a test of one flag in each hook.
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
// Must be called before the engine hands out any buffer.
void watch_misuse(MisuseWatch watch);
// The engine that owned these addresses no longer exists, and neither do its buffers.
void forget_buffers(OwnRange range);

// Called instead of the engine's functions; like these, in the engine's context and under Inside.
Status allocate_watched(const ActiveEngine& active, Bytes bytes, std::optional<StreamHandle> stream,
                        DeviceAddress* out);
Status free_watched(const ActiveEngine& active, DeviceAddress address, std::optional<StreamHandle> stream);
// Called before an operation.
void look_at(const AccessList& accesses, StreamHandle stream);

}  // namespace thermocline
