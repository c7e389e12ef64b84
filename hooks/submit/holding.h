// SPDX-License-Identifier: Apache-2.0
// Memory that the driver may check during a call that submits no work: it validates a copy or a set when that is added
// to a graph (cuGraphAddMemcpyNode: to which context the memory belongs). The buffers are on the device until the call
// has returned. Memory whose addresses are kept beyond the call is pinned for longer.
#pragma once

#include <set>
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

// Waits until unseen work may access the pinned buffer. The engine's context must be current. Out of memory after ten
// seconds if streams may be blocked.
CUresult wait_until_fetched(const ActiveEngine& active, DeviceAddress at);

// A buffer with one pin of ours. If it was freed, it is not pinned any more, even if another buffer has its address.
struct PinnedBuffer {
  const ActiveEngine* active;
  DeviceAddress at;
  std::uint64_t number;

  // Unpins it. Unseen work has accessed it, and may have written to it.
  void unpin() const noexcept;
};

// Buffers that are fetched and pinned. When the object ends they are unpinned, unless they are to stay.
class PinnedBuffers {
 public:
  PinnedBuffers() = default;
  ~PinnedBuffers();
  PinnedBuffers(const PinnedBuffers&) = delete;
  PinnedBuffers& operator=(const PinnedBuffers&) = delete;

  // Pins the live buffers in which the accesses begin, each once. `reason` is a string literal.
  CUresult pin(const EngineSet& engines, const AccessList& accesses, const char* reason);
  // Keeps them pinned until they are freed.
  void stay();
  // Keeps them pinned until the caller unpins them.
  std::vector<PinnedBuffer> take() { return std::exchange(pinned_, {}); }

 private:
  CUresult pin_in(const ActiveEngine& active, const AccessList& accesses);
  CUresult pin_buffer(const ActiveEngine& active, const BufferFacts& buffer);

  const char* reason_ = "";
  std::vector<PinnedBuffer> pinned_;
  std::set<std::pair<const ActiveEngine*, std::uint64_t>> numbers_;
};

}  // namespace thermocline
