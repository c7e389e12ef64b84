// SPDX-License-Identifier: Apache-2.0
// Streams: which operations a new one is ordered after. Each stream is a queue. In addition, an operation in a device's
// legacy stream is ordered after all earlier work of its blocking streams, and work in a blocking stream after all
// earlier work of the legacy stream (CUDA Runtime API, stream synchronization behavior). Non-blocking streams are
// independent.
#pragma once

#include <boost/container/small_vector.hpp>
#include <deque>
#include <vector>

#include "simulator/core/check.h"
#include "simulator/core/streams/timeline.h"
#include "simulator/core/types.h"

namespace simulator {

class Streams {
 public:
  using Operations = boost::container::small_vector<OperationId, 4>;

  Streams(const Timeline& timeline, DeviceId devices) : timeline_(timeline), devices_(devices), streams_(devices) {
    for (DeviceId device = 0; device < devices; ++device) streams_[device].device = device;
  }

  StreamId create(bool non_blocking, DeviceId device);
  void destroy(StreamId stream);
  bool exists(StreamId stream) const { return stream < streams_.size() && streams_[stream].alive; }

  bool is_legacy(StreamId stream) const { return stream < devices_; }
  DeviceId device(StreamId stream) const { return streams_[stream].device; }

  // The operations that the next operation in `stream` is ordered after, without completed ones.
  void predecessors(StreamId stream, Operations& out) const;
  void submitted(StreamId stream, OperationId id) { streams_[stream].tail = id; }
  // Operations that host calls have put into the stream, oldest first; completed ones are removed when the queue is
  // read.
  void queued(StreamId stream, OperationId id) { streams_[stream].queue.push_back(id); }
  // The operation that has to end before the stream has fewer than `most` operations; 0: it has fewer now.
  OperationId holding_up(StreamId stream, std::size_t most);
  OperationId tail(StreamId stream) const { return streams_[stream].tail; }

 private:
  struct Stream {
    OperationId tail = 0;
    bool non_blocking = false;
    DeviceId device = 0;
    bool alive = true;  // a destroyed blocking stream still delays the legacy stream until its tail has completed
    std::deque<OperationId> queue;
  };

  void add(OperationId id, Operations& out) const {
    if (!timeline_.completed(id)) out.push_back(id);
  }

  const Timeline& timeline_;
  const DeviceId devices_;
  std::vector<Stream> streams_;  // the legacy ones first, by device
  std::vector<StreamId> dead_;   // destroyed streams, in order
};

inline StreamId Streams::create(bool non_blocking, DeviceId device) {
  if (!dead_.empty() && timeline_.completed(streams_[dead_.front()].tail)) {
    const StreamId reused = dead_.front();
    dead_.erase(dead_.begin());
    streams_[reused] = {0, non_blocking, device, true, {}};
    return reused;
  }
  streams_.push_back({0, non_blocking, device, true, {}});
  return static_cast<StreamId>(streams_.size() - 1);
}

inline void Streams::destroy(StreamId stream) {
  SIMULATOR_CHECK(!is_legacy(stream) && exists(stream), "only a stream that was created is destroyed");
  streams_[stream].alive = false;
  dead_.push_back(stream);
}

inline OperationId Streams::holding_up(StreamId stream, std::size_t most) {
  std::deque<OperationId>& queue = streams_[stream].queue;
  while (!queue.empty() && timeline_.completed(queue.front())) queue.pop_front();
  return queue.size() < most ? 0 : queue[queue.size() - most];
}

inline void Streams::predecessors(StreamId stream, Operations& out) const {
  SIMULATOR_CHECK(exists(stream), "work goes to a stream that exists");
  const DeviceId device = streams_[stream].device;
  if (is_legacy(stream)) {
    for (const Stream& other : streams_) {
      if (!other.non_blocking && other.device == device) add(other.tail, out);
    }
    return;
  }
  add(streams_[stream].tail, out);
  if (!streams_[stream].non_blocking) add(streams_[device].tail, out);
}

}  // namespace simulator
