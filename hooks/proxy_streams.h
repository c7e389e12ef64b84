// SPDX-License-Identifier: Apache-2.0
// Copies in a stream of another device than the memory's. A driver does them in any stream; memory that is mapped, as
// ours is, is open to its own device alone, and the copy would meet an illegal address. So it is done in the shadow of
// the stream (shadows.h), which waits for what the stream was given before, and for which the stream waits behind it.
#pragma once

#include "hooks/places.h"
#include "hooks/shadows.h"
#include "hooks/submit.h"

namespace thermocline {

// The engine that all of it belongs to, where the stream's device may not use that engine's memory; else null.
// `owners`: whose memory it is.
const ActiveEngine* out_of_reach(const EngineSet& engines, EngineBits owners, const StreamPlace& place);

// Of a stream, for one copy. The owner's context is current from before it is made until it is gone.
class ProxyStream {
 public:
  ProxyStream(const ActiveEngine& owner, const StreamPlace& place, StreamHandle stream)
      : owner_(owner), place_(place), stream_(stream), shadow_(Shadow::of(owner, stream, place.context)) {}
  ~ProxyStream();
  ProxyStream(const ProxyStream&) = delete;
  ProxyStream& operator=(const ProxyStream&) = delete;

  // False: the driver did not give a stream.
  bool is_there() const { return shadow_ != nullptr; }
  StreamHandle handle() const { return shadow_->handle(); }
  // Under the lock of the owner's engine. `waits`: so does the host.
  CUresult run(CallIn copy, bool waits);

 private:
  CUresult come_behind();
  CUresult come_before();

  const ActiveEngine& owner_;
  const StreamPlace& place_;
  const StreamHandle stream_;
  Shadow* const shadow_;
};

}  // namespace thermocline
