// SPDX-License-Identifier: Apache-2.0
// Copies in a stream of another device than the memory's. A driver does them in any stream; memory that is mapped, as
// ours is, is open to its own device alone, and the copy would meet an illegal address. So it is done in the proxy of
// the stream (proxy_streams.h), which waits for what the stream was given before, and for which the stream waits behind
// it.
#pragma once

#include "hooks/runtime/guarded.h"
#include "hooks/runtime/stream_context.h"
#include "hooks/submit/proxy_streams.h"
#include "hooks/submit/submit.h"

namespace thermocline {

// The engine that all of it belongs to, where the stream's device may not use that engine's memory; else null.
// `owners`: whose memory it is.
const ActiveEngine* out_of_reach(const EngineSet& engines, EngineBits owners, const StreamPlace& place);

// Of a stream, for one copy. The owner's context is current from before it is made until it is gone.
class ProxyCopy {
 public:
  ProxyCopy(const ActiveEngine& owner, const StreamPlace& place, StreamHandle stream)
      : owner_(owner), place_(place), stream_(stream), proxy_(ProxyStream::of(owner, stream, place.context)) {}
  ~ProxyCopy();
  ProxyCopy(const ProxyCopy&) = delete;
  ProxyCopy& operator=(const ProxyCopy&) = delete;

  // False: the driver did not give a stream.
  bool is_there() const { return proxy_ != nullptr; }
  StreamHandle handle() const { return proxy_->handle(); }
  // Under the lock of the owner's engine. `waits`: so does the host.
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
