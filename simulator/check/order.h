// SPDX-License-Identifier: Apache-2.0
// Determines which operations are ordered after which, by CUDA's documented rules alone: order in a stream, the legacy
// stream and blocking streams, events as recorded when they were waited for, and what the host knew to be complete, by
// waiting or by a successful query, when it submitted. That an operation happened to run earlier is no order.
//
// All host threads count as one, because their order among each other is not visible here: every call counts as after
// every earlier one. That can hide a race between threads but never invents one.
//
// Two rules are decided late. When a wait for a value ends, it is ordered after the stream operation that wrote the
// word and after everything before that one; a host function that returns is ordered after everything that the host
// knows then, because it may have waited for the host. So are operations that were submitted after them long before.
// Late knowledge is passed on when operations are executed.
//
// Invariants: an operation's clock includes the operation itself. Clocks can be looked up for operations that may still
// be named: those that have not been executed, are an event's newest record, are kept, or are among the newest kRecent.
// All others count as known to the host.
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
  struct ChainPosition {
    const Clock* clock = nullptr;
    Chain chain = 0;
  };

  explicit Order(DeviceId devices = 1);

  void stream_created(StreamId stream, bool non_blocking, DeviceId device = 0);
  // The stream's earlier work still counts as work of a blocking stream.
  void stream_destroyed(StreamId stream);

  // Operations are submitted in order of their numbers. `detached`: ordered only by `after`, not by the stream.
  void submitted(OperationId id, StreamId stream, std::span<const OperationId> after, bool detached);
  // The submitted operation records the event; it can be named as long as it is the event's newest record.
  void recorded(EventId event, OperationId id);
  void event_destroyed(EventId event);
  // The submitted operation may be named at any time until the host knows that it is complete.
  void keep(OperationId id);
  // executes: called before the operation's accesses are checked; the next function: after it has been executed.
  void executes(OperationId id);
  void executed(OperationId id);

  // The operation that is being executed writes the word at the address, for others to wait for; or it has waited for
  // the word. `may_be_hosts`: the host may have written it.
  void released(OperationId id, Address word);
  void acquired(OperationId id, Address word, bool may_be_hosts);
  // The operation's end depended on the host, so it follows every earlier call: a host function has returned.
  void follows_host(OperationId id);
  // The words in this range belong to another owner from now on.
  void forget_words(Address begin, Address end) { words_.erase(words_.lower_bound(begin), words_.lower_bound(end)); }

  // Valid until the next submission; for an operation that has not been executed, or is being executed.
  ChainPosition place(OperationId id) const;

  void host_knows(OperationId id);
  void host_knows_stream(StreamId stream);
  void host_knows_everything();
  // All work in the device's streams is known; detached operations are included where a stream is ordered after them.
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
    boost::container::small_vector<OperationId, 2> waiters;  // submitted before this operation was executed
  };
  struct Stream {
    Clock clock;  // of its newest operation
    Clock late;   // of its executed operations whose clock has grown
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
  // nullptr: the host knows that the operation is complete.
  const Clock* clock_of(OperationId id) const;
  Chain take_chain();
  Chain chain_behind(std::span<const OperationId> after);
  void join_stream(Stream& stream, StreamId id);
  Clock late_before(const Entry& entry) const;
  void make_room();
  void drop_known();

  std::vector<Entry> entries_;  // a ring; its size is a power of two
  OperationId first_ = 1;       // the oldest operation in the ring
  OperationId next_ = 1;
  std::vector<Stream> streams_;
  std::vector<ChainState> chains_;
  std::vector<Chain> free_chains_;  // reusable once the host knows their last operation
  Clock host_;
  const DeviceId devices_;
  std::vector<Clock> blocking_;       // by device: of everything ever submitted to blocking streams
  std::vector<Clock> blocking_late_;  // by device: of the executed ones whose clock has grown
  std::map<Address, Clock> words_;    // words written by streams: clock of the last writer
  bool any_acquired_ = false;
  std::unordered_map<OperationId, Clock> kept_;      // of kept operations that have left the ring
  std::size_t most_kept_ = kMostKept;                // above this, those that the host knows are dropped
  std::unordered_map<EventId, OperationId> newest_;  // newest record of each event
};

}  // namespace simulator
