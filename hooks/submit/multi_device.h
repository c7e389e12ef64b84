// SPDX-License-Identifier: Apache-2.0
// The scope of an operation that belongs to several engines, or to one whose context is not the current one: all that
// it accesses is made resident in each, and stays there until it has been submitted.
//
// Engines are opened in the order of their set, whatever stream it is, so that two threads do not wait for each other.
#pragma once

#include <boost/container/small_vector.hpp>
#include <optional>

#include "hooks/operands/accesses.h"
#include "hooks/runtime/stream_context.h"
#include "hooks/submit/proxy_streams.h"

namespace thermocline {

class MultiDeviceOperation {
 public:
  MultiDeviceOperation(const StreamPlace& place, StreamHandle stream) : place_(place), stream_(stream) {}
  ~MultiDeviceOperation();
  MultiDeviceOperation(const MultiDeviceOperation&) = delete;
  MultiDeviceOperation& operator=(const MultiDeviceOperation&) = delete;

  // Of these engines, with what of the accesses is theirs; or (`unknown`) with all that is live in them. An error: the
  // operation must not be submitted.
  CUresult open(const EngineSet& engines, EngineBits bits, const AccessList& accesses, const OperationInfo& info,
                bool unknown = false);
  // An engine knows the stream, or its proxy, to be behind one that stands.
  bool is_held_up() const;
  // It has been submitted. `completed`: it has run, too.
  void commit(bool completed);

  // As the engine knows the stream; the stream itself where it is not open.
  StreamHandle stream_in(const Engine* engine) const;

 private:
  struct Share {
    const ActiveEngine* active;
    ProxyStream* proxy;  // null: the stream is of the engine's context
    Operation operation;
  };

  CUresult open_one(const ActiveEngine& active, const AccessList& accesses, const OperationInfo& info, bool unknown);
  bool follow(Share& share);

  const StreamPlace place_;
  const StreamHandle stream_;
  boost::container::small_vector<Share, 2> shares_;
  boost::container::small_vector<std::pair<const ActiveEngine*, ProxyStream*>, 2>
      passing_;  // proxy streams to be ended
};

// What of them is the engine's.
AccessList part_of(const AccessList& accesses, const ActiveEngine& active);

}  // namespace thermocline
