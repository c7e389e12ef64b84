// SPDX-License-Identifier: Apache-2.0
// A stream of one device that accesses memory of another device's engine. That engine can not record its events in such
// a stream; but streams of different devices can wait for each other's events. So the engine has a stream of its own
// that stands for it, its proxy: what the engine orders goes there; the program's stream waits for the proxy before
// the operation, and the proxy for the program's stream behind it. The host waits for nothing.
//
// A proxy is used under the lock of its engine (between begin and commit), so that its events are nobody else's.
#pragma once

#include "driver/driver.h"
#include "hooks/runtime/stream_context.h"

namespace thermocline {

class ProxyStream {
 public:
  // Of `stream`, which is of `home`; for the engine, whose context is current. Null: the driver did not give one.
  // Found again for the same stream; for a thread's own default stream made anew, and to be ended by `end`.
  static ProxyStream* of(const ActiveEngine& active, StreamHandle stream, CUcontext home);

  StreamHandle handle() const { return stream_; }
  bool is_lasting() const { return lasting_; }

  // The engine's context is current: what the proxy has been given is what `await_ready` waits for.
  CUresult ready();
  // The stream's context, or any from which it may be used, is current: it waits.
  CUresult await_ready(StreamHandle stream) const;
  // The stream's context is current. Behind this, the proxy waits for what the stream was given.
  CUresult done(StreamHandle stream);
  // The engine's context is current.
  CUresult await_done() const;

  // Of one that does not last; nothing of it may be running. The engine's context is current.
  void end(const ActiveEngine& active);

 private:
  friend class ProxyStreams;
  ProxyStream() = default;
  static ProxyStream* make(bool lasting);
  void give_back();

  StreamHandle stream_{};
  EventHandle ready_{};  // of the engine's context
  EventHandle done_{};   // of the stream's
  bool lasting_ = true;
};

// The program is about to destroy the stream.
void end_proxy_streams_of(StreamHandle stream);
// The context is about to end, or has ended (is_gone): proxy streams of its streams go, and those in its engine, which
// is gone already.
void end_proxy_streams_in(CUcontext context, bool is_gone);

}  // namespace thermocline
