// SPDX-License-Identifier: Apache-2.0
// Memory that the driver may look at within a call that orders no work: a copy or a set that is given to a graph is
// checked then (cuGraphAddMemcpyNode: of which context the memory is). What of a buffer it names is on the device until
// the call has returned.
#pragma once

#include <utility>
#include <vector>

#include "hooks/submit/submit.h"

namespace thermocline {

class HeldForCall {
 public:
  HeldForCall() = default;
  ~HeldForCall();
  HeldForCall(const HeldForCall&) = delete;
  HeldForCall& operator=(const HeldForCall&) = delete;

  // An error: the call must not be made. `reason` is a literal.
  CUresult hold(const EngineSet& engines, const AccessList& accesses, const char* reason);

 private:
  std::vector<std::pair<const ActiveEngine*, std::uint64_t>> held_;
};

}  // namespace thermocline
