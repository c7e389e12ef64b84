// SPDX-License-Identifier: Apache-2.0
// Proxy streams, for a stream of one device that accesses memory of another device's engine. That engine can not record
// its events in such a stream; but streams of different devices can wait for each other's events. So the engine has a
// stream of its own, the proxy, for its own copies and waits. The program's stream waits for the proxy before the
// operation, and the proxy waits for the program's stream after it. The host does not wait.
//
// A proxy is used only under the lock of its engine (between begin and commit), so its events are used by one operation
// at a time.
#pragma once

#include "driver/driver.h"
#include "hooks/runtime/stream_context.h"

namespace thermocline {

class ProxyStream {
 public:
  // The proxy of `stream`, a stream of context `home`, for the engine, whose context must be current. Null: the driver
  // did not create one. The same stream gets the same proxy again; a per-thread default stream gets a new one each
  // time, which must be ended by `end`.
  static ProxyStream* of(const ActiveEngine& active, StreamHandle stream, CUcontext home);

  StreamHandle handle() const { return stream_; }
  bool is_lasting() const { return lasting_; }

  // Records the proxy's work so far, which `await_ready` waits for. The engine's context must be current.
  CUresult ready();
  // Makes the stream wait. The stream's context, or one from which it may be used, must be current.
  CUresult await_ready(StreamHandle stream) const;
  // Records the stream's work so far, which the proxy waits for after await_done. The stream's context must be current.
  CUresult done(StreamHandle stream);
  // Makes the proxy wait. The engine's context must be current.
  CUresult await_done() const;

  // Destroys a proxy that does not last; nothing may be running in it. The engine's context must be current.
  void end(const ActiveEngine& active);

 private:
  friend class ProxyStreams;
  ProxyStream() = default;
  static ProxyStream* make(bool lasting);
  void give_back();

  StreamHandle stream_{};
  EventHandle ready_{};  // created in the engine's context
  EventHandle done_{};   // created in the stream's context
  bool lasting_ = true;
};

// The program is about to destroy the stream.
void end_proxy_streams_of(StreamHandle stream);
// The context is about to end, or has ended (is_gone): removes the proxies of its streams, and those in its engine,
// which has ended already.
void end_proxy_streams_in(CUcontext context, bool is_gone);

}  // namespace thermocline
