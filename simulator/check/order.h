// SPDX-License-Identifier: Apache-2.0
// Which operations come behind which, by CUDA's documented rules alone: order in a stream, the legacy stream and
// blocking streams, events as they stood when they were waited for, and what the host has learned by waiting or by a
// successful query before it submitted. That an operation happened to run earlier is no order.
//
// All host threads count as one: their order among each other is invisible here, so every call counts as behind every
// earlier one. That can hide a race between threads and never invents one.
//
// A wait for a value is the one rule that is settled late: when it goes on, it comes behind the stream operation that
// wrote the word, and behind all that this one came behind; and so does what was submitted behind the wait long before.
// What is learned so late is passed on when operations are executed, each behind all that it comes behind.
//
// Invariants: an operation's clock covers itself; clocks of operations that may still be named (they have not been
// executed, are an event's newest record, are kept, or are among the newest kRecent) can be looked up, others count as
// known to the host.
#pragma once

#include <boost/container/small_vector.hpp>
#include <map>
#include <span>
#include <unordered_map>
#include <vector>

#include "simulator/check/clock.h"

namespace simulator {

class Order {
 public:
  struct Place {
    const Clock* clock = nullptr;
    Chain chain = 0;
  };

  explicit Order(DeviceId devices = 1);

  void stream_created(StreamId stream, bool non_blocking, DeviceId device = 0);
  // Its work still counts as a blocking stream's.
  void stream_destroyed(StreamId stream);

  // Operations are submitted in order of their numbers. Detached: only `after` counts, not the stream's order.
  void submitted(OperationId id, StreamId stream, std::span<const OperationId> after, bool detached);
  // The submitted operation records the event; it can be named as long as it is the event's newest record.
  void recorded(EventId event, OperationId id);
  void event_destroyed(EventId event);
  // The submitted operation may be named at any time until the host knows it.
  void keep(OperationId id);
  // Before its accesses are looked at, and when it has been executed.
  void executes(OperationId id);
  void executed(OperationId id);

  // The operation, which is being executed, writes the word at the address for others to wait for; or has waited for
  // what is there. `may_be_hosts`: the host may have written it.
  void released(OperationId id, Address word);
  void acquired(OperationId id, Address word, bool may_be_hosts);
  // The words there are somebody else's from now on.
  void forget_words(Address begin, Address end) { words_.erase(words_.lower_bound(begin), words_.lower_bound(end)); }

  // Valid until the next submission; of an operation that has not been executed or is being executed.
  Place place(OperationId id) const;

  void host_knows(OperationId id);
  void host_knows_stream(StreamId stream);
  void host_knows_everything();
  // Of the device's streams; what is detached is known where a stream comes behind it.
  void host_knows_device(DeviceId device);
  const Clock& host() const { return host_; }

 private:
  static constexpr std::size_t kFirstEntries = 1024;
  static constexpr OperationId kRecent = 256;
  static constexpr std::size_t kMostKept = 1024;

  struct Entry {
    Clock clock;
    Chain chain = 0;
    StreamId stream = 0;
    bool detached = false;
    bool executed = false;
    bool kept = false;
    bool late = false;                                       // its clock has grown since it was submitted
    boost::container::small_vector<OperationId, 2> waiters;  // that were submitted before it was executed
  };
  struct Stream {
    Clock clock;  // of its newest operation
    Clock late;   // of those that have been executed, where they had grown
    Chain chain = 0;
    bool has_chain = false;
    bool non_blocking = false;
    DeviceId device = 0;
  };
  struct ChainState {
    OperationId tip = 0;
    bool detached = false;
  };

  bool is_legacy(StreamId stream) const { return stream < devices_; }
  Entry& at(OperationId id) { return entries_[id & (entries_.size() - 1)]; }
  const Entry& at(OperationId id) const { return entries_[id & (entries_.size() - 1)]; }
  // nullptr: known to the host.
  const Clock* clock_of(OperationId id) const;
  Chain take_chain();
  Chain chain_behind(std::span<const OperationId> after);
  void join_stream(Stream& stream, StreamId id);
  Clock late_before(const Entry& entry) const;
  void make_room();
  void drop_known();

  std::vector<Entry> entries_;  // a ring; a power of two
  OperationId first_ = 1;       // of the ring
  OperationId next_ = 1;
  std::vector<Stream> streams_;
  std::vector<ChainState> chains_;
  std::vector<Chain> free_chains_;  // usable once the host knows their tips
  Clock host_;
  const DeviceId devices_;
  std::vector<Clock> blocking_;       // by device: of everything ever submitted to blocking streams
  std::vector<Clock> blocking_late_;  // of these, what has been executed and had grown
  std::map<Address, Clock> words_;    // that streams have written, of who wrote them last
  bool any_acquired_ = false;
  std::unordered_map<OperationId, Clock> kept_;      // of kept operations that have left the ring
  std::size_t most_kept_ = kMostKept;                // then those that the host knows are dropped
  std::unordered_map<EventId, OperationId> newest_;  // records
};

}  // namespace simulator
