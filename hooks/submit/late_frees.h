// SPDX-License-Identifier: Apache-2.0
// Work that is postponed until the device is done with work that is not seen, that is, until somebody has waited for
// the context, or it has ended. It concerns: freed buffers that cannot be waited for yet (they have escaped, escaped.h,
// and waiting for the context is not allowed while any stream captures); textures that the program has destroyed after
// such a free; and pinned buffers that nothing names any longer, but that work in flight may use.
#pragma once

#include <vector>

#include "hooks/runtime/refusals.h"
#include "hooks/runtime/runtime.h"
#include "hooks/submit/holding.h"
#include "hooks/submit/stream_queues.h"

namespace thermocline {

// All work that the buffer must wait for was submitted before this call.
void free_later(const ActiveEngine& active, DeviceAddress at);
void unpin_later(const std::vector<PinnedBuffer>& pinned);
// True if the program has already freed it.
bool is_freed_late(const ActiveEngine& active, DeviceAddress at);

// The driver's free of the memory under a texture waits for its readers, so a program may destroy the texture right
// after it. True if frees of this engine could not wait: then the texture is destroyed when they have been waited for.
bool destroy_texture_later(const ActiveEngine& active, CUtexObject texture);
// True if the program has already destroyed it.
bool is_destroyed_late(const ActiveEngine& active, CUtexObject texture);
// The driver has created this texture: the postponed destruction of its handle is dropped.
void is_a_new_texture(const ActiveEngine& active, CUtexObject texture);

// Takes the late frees, textures and unpins of an engine before a wait for its context; puts them back on failure.
class LateFrees {
 public:
  explicit LateFrees(const ActiveEngine& active);
  // Puts them back if there was no successful wait.
  ~LateFrees();
  LateFrees(const LateFrees&) = delete;
  LateFrees& operator=(const LateFrees&) = delete;

  bool none() const { return taken_.empty() && textures_.empty() && unpins_.empty(); }
  // The wait succeeded: everything submitted before it has completed.
  void waited();

 private:
  const ActiveEngine& active_;
  std::vector<DeviceAddress> taken_;
  std::vector<CUtexObject> textures_;
  std::vector<PinnedBuffer> unpins_;
};

// Waits, if that is allowed now; true if any memory was freed or unpinned. The engine's context must be current.
bool wait_for_late_frees(const ActiveEngine& active);

// wait_for_late_frees(), and makes observers free what they do not need (EngineObserver::memory_is_short).
bool make_way(const ActiveEngine& active);

// Asks again after make_way() if memory was short. Does not wait if streams may be blocked: this very thread may have
// to unblock them.
template <class Ask>
Status with_late_frees(const ActiveEngine& active, Ask ask) {
  const Status status = ask();
  if (!status.is_out_of_memory() || any_stream_may_block() || !make_way(active)) return status;
  forget_report();
  return ask();
}

}  // namespace thermocline
