// SPDX-License-Identifier: Apache-2.0
// Establishes the order that a program must ensure by CUDA's rules, and not more: an operation is ordered after the
// operations on the same memory with which it conflicts, by an event and a wait if nothing else orders them yet. A
// waiter is also ordered after everything that the event was recorded after.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "driver/driver.h"

namespace thermocline::fuzz_engine {

// The n-th piece of work of a stream, from 1; 0: before the first.
struct Moment {
  std::uint32_t stream = 0;
  std::uint64_t ordinal = 0;
};

// For a range of memory: the last write, and the reads since then, at most one moment per stream.
struct History {
  Moment write;
  std::vector<Moment> reads;
};

class Order {
 public:
  Order(const Driver& driver, std::uint32_t streams) : driver_(driver), streams_(streams) {
    for (Stream& stream : streams_) {
      stream.behind.resize(streams);
      stream.behind_event.resize(streams);
    }
    host_.resize(streams);
  }
  ~Order() {
    for (const Stream& stream : streams_) {
      if (stream.event != EventHandle{}) static_cast<void>(driver_.destroy_event(stream.event));
    }
  }
  Order(const Order&) = delete;
  Order& operator=(const Order&) = delete;

  bool is_open(std::uint32_t stream) const { return streams_[stream].open; }
  StreamHandle handle(std::uint32_t stream) const { return streams_[stream].handle; }
  void opened(std::uint32_t stream, StreamHandle handle) {
    streams_[stream].handle = handle;
    streams_[stream].open = true;
  }
  // Called before the stream is destroyed: records an event for work that others may still have to wait for.
  Status closes(std::uint32_t stream) {
    streams_[stream].open = false;
    return streams_[stream].submitted == 0 ? Status() : record(stream);
  }

  Status before(std::uint32_t stream, const History& history, bool writes) {
    if (Status status = wait(stream, history.write); !status.ok() || !writes) return status;
    for (const Moment& read : history.reads) {
      if (Status status = wait(stream, read); !status.ok()) return status;
    }
    return {};
  }
  // One more piece of work was submitted.
  void submitted(std::uint32_t stream) { ++streams_[stream].submitted; }
  Moment now(std::uint32_t stream) const { return {stream, streams_[stream].submitted}; }
  void used(std::uint32_t stream, History& history, bool writes) const {
    if (writes) {
      history.write = now(stream);
      history.reads.clear();
      return;
    }
    const auto same = std::ranges::find(history.reads, stream, &Moment::stream);
    if (same != history.reads.end()) {
      *same = now(stream);
    } else {
      history.reads.push_back(now(stream));
    }
  }

  // The host has waited.
  void synchronized(std::uint32_t stream) {
    for (std::uint32_t s = 0; s < host_.size(); ++s) host_[s] = std::max(host_[s], streams_[stream].behind[s]);
    host_[stream] = streams_[stream].submitted;
  }
  void synchronized_all() {
    for (std::uint32_t s = 0; s < host_.size(); ++s) host_[s] = streams_[s].submitted;
  }
  // Gives the device an opportunity to make progress.
  Status look(std::uint32_t stream) {
    if (Status status = record(stream); !status.ok()) return status;
    const Status status = driver_.query(streams_[stream].event);
    return status == Status::not_ready() ? Status() : status;
  }

 private:
  struct Stream {
    StreamHandle handle{};
    bool open = false;
    std::uint64_t submitted = 0, recorded = 0;
    EventHandle event{};
    std::vector<std::uint64_t> behind, behind_event;  // by stream: what its next work, or its event, is ordered after
  };

  Status record(std::uint32_t stream) {
    Stream& from = streams_[stream];
    if (from.event == EventHandle{}) {
      if (Status status = driver_.create_event(false, &from.event); !status.ok()) return status;
    }
    if (Status status = driver_.record(from.event, from.handle); !status.ok()) return status;
    from.recorded = from.submitted;
    from.behind_event = from.behind;
    return {};
  }

  Status wait(std::uint32_t waiter, const Moment& moment) {
    Stream& to = streams_[waiter];
    if (waiter == moment.stream || to.behind[moment.stream] >= moment.ordinal || host_[moment.stream] >= moment.ordinal)
      return {};
    Stream& from = streams_[moment.stream];
    if (from.recorded < moment.ordinal) {
      if (Status status = record(moment.stream); !status.ok()) return status;
    }
    if (Status status = driver_.wait(to.handle, from.event); !status.ok()) return status;
    for (std::uint32_t s = 0; s < host_.size(); ++s) to.behind[s] = std::max(to.behind[s], from.behind_event[s]);
    to.behind[moment.stream] = std::max(to.behind[moment.stream], from.recorded);
    return {};
  }

  const Driver& driver_;
  std::vector<Stream> streams_;
  std::vector<std::uint64_t> host_;  // by stream: what the host knows to be complete
};

}  // namespace thermocline::fuzz_engine
