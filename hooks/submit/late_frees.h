// SPDX-License-Identifier: Apache-2.0
// Buffers that the program has freed and that can not be waited for yet: others may use them whom the engine does not
// see (escaped.h), and while any stream records nobody may wait for the context. They stay where they are until
// somebody has waited, or their context is gone.
#pragma once

#include <vector>

#include "hooks/runtime/runtime.h"

namespace thermocline {

// What such a buffer waits for was submitted before this call.
void free_later(const ActiveEngine& active, DeviceAddress at);
// The program has freed it already.
bool is_freed_late(const ActiveEngine& active, DeviceAddress at);

// Those of an engine, taken before a wait for all of its context; given back afterwards, where that failed.
class LateFrees {
 public:
  explicit LateFrees(const ActiveEngine& active);
  // Those that nobody has waited for stay.
  ~LateFrees();
  LateFrees(const LateFrees&) = delete;
  LateFrees& operator=(const LateFrees&) = delete;

  bool none() const { return taken_.empty(); }
  // All that was submitted before has passed.
  void waited();

 private:
  const ActiveEngine& active_;
  std::vector<DeviceAddress> taken_;
};

// Waits, where that is allowed now; true if any memory came free. The engine's context is current.
bool wait_for_late_frees(const ActiveEngine& active);

}  // namespace thermocline
