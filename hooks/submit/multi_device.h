// SPDX-License-Identifier: Apache-2.0
// A multi-device operation: it belongs to several engines, or to one whose context is not the current one. Each engine
// makes everything that the operation accesses resident, and keeps it so until the operation has been submitted.
//
// Engines are always locked in the order of their set, so that two threads can not deadlock.
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

  // Begins in these engines, each with its part of the accesses; or (`unknown`) with all its live buffers. On an error
  // the operation must not be submitted. `accesses` must live until it has been committed.
  CUresult open(const EngineSet& engines, EngineBits bits, const AccessList& accesses, const OperationInfo& info,
                bool unknown = false);
  // An engine knows that the stream, or its proxy, is ordered after a blocked stream.
  bool is_behind_blocked() const;
  // The operation has been submitted. `completed`: it has also run. An error: the memory of some other device is used
  // by work that could be waited for neither by its engine nor by the host; it stays (unwaited.h).
  CUresult commit(bool completed);

  // The handle by which the engine knows the stream; the stream itself if the engine is not part of the operation.
  StreamHandle stream_in(const Engine* engine) const;

 private:
  struct Share {
    const ActiveEngine* active;
    ProxyStream* proxy;  // null: the stream belongs to the engine's context
    Operation operation;
  };

  CUresult open_one(const ActiveEngine& active, const AccessList& accesses, const OperationInfo& info, bool unknown);
  bool follow(Share& share);

  const StreamPlace place_;
  const StreamHandle stream_;
  const AccessList* accesses_ = nullptr;
  boost::container::small_vector<Share, 2> shares_;
  boost::container::small_vector<std::pair<const ActiveEngine*, ProxyStream*>, 2>
      passing_;  // proxy streams that must be ended
};

// The accesses to the engine's own memory.
AccessList part_of(const AccessList& accesses, const ActiveEngine& active);

}  // namespace thermocline
