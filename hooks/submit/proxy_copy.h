// SPDX-License-Identifier: Apache-2.0
// Copies in a stream of a device that cannot access the memory. A driver makes such copies in any stream. But mapped
// memory, such as the engine's, is accessible only to its own device, and the copy would fail with an illegal address.
// So it is submitted to the stream's proxy (proxy_streams.h). The proxy waits for earlier work of the stream, and the
// stream waits for the copy.
#pragma once

#include "hooks/runtime/guarded.h"
#include "hooks/runtime/stream_context.h"
#include "hooks/submit/proxy_streams.h"
#include "hooks/submit/submit.h"

namespace thermocline {

// The engine that owns all of the memory, if the stream's device may not use that memory; else null. `owners`: the
// engines that own parts of it.
const ActiveEngine* out_of_reach(const EngineSet& engines, EngineBits owners, const StreamPlace& place);

// For one copy in one stream. The owner's context must be current for the lifetime of the object.
class ProxyCopy {
 public:
  ProxyCopy(const ActiveEngine& owner, const StreamPlace& place, StreamHandle stream)
      : owner_(owner), place_(place), stream_(stream), proxy_(ProxyStream::of(owner, stream, place.context)) {}
  ~ProxyCopy();
  ProxyCopy(const ProxyCopy&) = delete;
  ProxyCopy& operator=(const ProxyCopy&) = delete;

  // False: the driver did not create a stream.
  bool is_there() const { return proxy_ != nullptr; }
  StreamHandle handle() const { return proxy_->handle(); }
  // Called under the lock of the owner's engine. `waits`: the host waits too.
  CUresult run(CallIn copy, bool waits);

 private:
  CUresult come_behind();
  CUresult come_before();

  const ActiveEngine& owner_;
  const StreamPlace& place_;
  const StreamHandle stream_;
  ProxyStream* const proxy_;
};

}  // namespace thermocline
