// SPDX-License-Identifier: Apache-2.0
// Memory that the driver may check during a call that submits no work: a copy or a set is validated when it is added to
// a graph (cuGraphAddMemcpyNode: to which context the memory belongs). The buffers are on the device until the call has
// returned.
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

  // On an error the call must not be made. `reason` is a string literal.
  CUresult hold(const EngineSet& engines, const AccessList& accesses, const char* reason);

 private:
  std::vector<std::pair<const ActiveEngine*, std::uint64_t>> held_;
};

}  // namespace thermocline
