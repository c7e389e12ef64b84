// SPDX-License-Identifier: Apache-2.0
// Buffers that the program has freed but that can not be waited for yet: they have escaped (escaped.h), and while any
// stream captures, waiting for the context is not allowed. They stay allocated until somebody has waited, or their
// context has ended.
#pragma once

#include <vector>

#include "hooks/runtime/runtime.h"

namespace thermocline {

// All work that the buffer must wait for was submitted before this call.
void free_later(const ActiveEngine& active, DeviceAddress at);
// True if the program has already freed it.
bool is_freed_late(const ActiveEngine& active, DeviceAddress at);

// Takes the late frees of an engine before a wait for its whole context; puts them back if the wait fails.
class LateFrees {
 public:
  explicit LateFrees(const ActiveEngine& active);
  // Puts back the buffers that were not waited for.
  ~LateFrees();
  LateFrees(const LateFrees&) = delete;
  LateFrees& operator=(const LateFrees&) = delete;

  bool none() const { return taken_.empty(); }
  // Everything submitted before has completed.
  void waited();

 private:
  const ActiveEngine& active_;
  std::vector<DeviceAddress> taken_;
};

// Waits, if that is allowed now; true if any memory was freed. The engine's context must be current.
bool wait_for_late_frees(const ActiveEngine& active);

}  // namespace thermocline
