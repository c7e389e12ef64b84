// SPDX-License-Identifier: Apache-2.0
#include "simulator/check/order.h"

#include <algorithm>
#include <utility>

#include "simulator/core/check.h"

namespace simulator {

Order::Order(DeviceId devices)
    : entries_(kFirstEntries), streams_(devices), devices_(devices), blocking_(devices), blocking_late_(devices) {
  for (DeviceId device = 0; device < devices; ++device) streams_[device].device = device;
}

void Order::stream_created(StreamId stream, bool non_blocking, DeviceId device) {
  if (streams_.size() <= stream) streams_.resize(stream + 1);
  streams_[stream] = Stream();
  streams_[stream].non_blocking = non_blocking;
  streams_[stream].device = device;
}

void Order::stream_destroyed(StreamId stream) {
  if (streams_[stream].has_chain) free_chains_.push_back(streams_[stream].chain);
  streams_[stream].has_chain = false;
}

const Clock* Order::clock_of(OperationId id) const {
  if (id >= first_ && id < next_) return &at(id).clock;
  const auto kept = kept_.find(id);
  return kept == kept_.end() ? nullptr : &kept->second;
}

Order::ChainPosition Order::place(OperationId id) const {
  SIMULATOR_CHECK(id >= first_ && id < next_, "an operation that is executed can be looked up");
  return {&at(id).clock, at(id).chain};
}

// A chain whose last operation the host knows is ordered before all future work, so it can be reused: its larger
// numbers are new to everybody.
Chain Order::take_chain() {
  for (std::size_t i = 0; i < free_chains_.size(); ++i) {
    const Chain chain = free_chains_[i];
    if (!host_.covers(chain, chains_[chain].tip)) continue;
    free_chains_[i] = free_chains_.back();
    free_chains_.pop_back();
    chains_[chain].detached = false;
    return chain;
  }
  chains_.emplace_back();
  return static_cast<Chain>(chains_.size() - 1);
}

// A detached operation continues the chain of the one that it is ordered after.
Chain Order::chain_behind(std::span<const OperationId> after) {
  for (const OperationId id : after) {
    if (id < first_ || id >= next_) continue;
    const Chain chain = at(id).chain;
    if (chains_[chain].detached && chains_[chain].tip == id) return chain;
  }
  const Chain chain = take_chain();
  chains_[chain].detached = true;
  free_chains_.push_back(chain);
  return chain;
}

void Order::join_stream(Stream& stream, StreamId id) {
  if (!stream.has_chain) {
    stream.chain = take_chain();
    stream.has_chain = true;
  }
  stream.clock.join(host_);
  stream.clock.join(stream.late);
  if (is_legacy(id)) {
    stream.clock.join(blocking_[stream.device]);
  } else if (!stream.non_blocking) {
    stream.clock.join(streams_[stream.device].clock);
  }
}

void Order::submitted(OperationId id, StreamId stream, std::span<const OperationId> after, bool detached) {
  SIMULATOR_CHECK(id == next_, "operations are submitted in order of their numbers");
  make_room();
  ++next_;
  Entry& entry = at(id);
  entry.executed = entry.kept = entry.late = false;
  entry.stream = stream;
  entry.detached = detached;
  entry.waiters.clear();
  for (const OperationId before : after) {
    if (before >= first_ && before < id && !at(before).executed) at(before).waiters.push_back(id);
  }
  if (detached) {
    entry.clock = host_;
    for (const OperationId before : after) {
      if (const Clock* clock = clock_of(before)) entry.clock.join(*clock);
    }
    entry.chain = chain_behind(after);
    entry.clock.set(entry.chain, id);
  } else {
    Stream& s = streams_[stream];
    join_stream(s, stream);
    for (const OperationId before : after) {
      if (const Clock* clock = clock_of(before)) s.clock.join(*clock);
    }
    s.clock.set(s.chain, id);
    if (!s.non_blocking && !is_legacy(stream)) blocking_[s.device].join(s.clock);
    entry.clock = s.clock;
    entry.chain = s.chain;
  }
  chains_[entry.chain].tip = id;
}

void Order::make_room() {
  while (first_ + kRecent < next_ && at(first_).executed) {
    Entry& oldest = at(first_);
    if (oldest.kept && !host_.covers(oldest.clock)) kept_[first_] = oldest.clock;
    ++first_;
  }
  if (kept_.size() > most_kept_) drop_known();
  if (next_ - first_ < entries_.size()) return;
  std::vector<Entry> larger(entries_.size() * 2);
  for (OperationId id = first_; id < next_; ++id) larger[id & (larger.size() - 1)] = std::move(at(id));
  entries_ = std::move(larger);
}

void Order::drop_known() {
  std::erase_if(kept_, [this](const auto& kept) { return host_.covers(kept.second); });
  most_kept_ = std::max(kMostKept, 2 * kept_.size());
}

void Order::recorded(EventId event, OperationId id) {
  OperationId& newest = newest_[event];
  kept_.erase(newest);
  if (newest >= first_ && newest != 0) at(newest).kept = false;
  newest = id;
  at(id).kept = true;
}

void Order::event_destroyed(EventId event) {
  const auto newest = newest_.find(event);
  if (newest == newest_.end()) return;
  kept_.erase(newest->second);
  newest_.erase(newest);
}

void Order::keep(OperationId id) { at(id).kept = true; }

// The knowledge that operations of its stream, and of streams ordered with that, have gained after their submission.
// All of those operations have been executed; none of them is ordered after this one.
Clock Order::late_before(const Entry& entry) const {
  const Stream& stream = streams_[entry.stream];
  Clock late = stream.late;
  if (is_legacy(entry.stream)) {
    late.join(blocking_late_[stream.device]);
  } else if (!stream.non_blocking) {
    late.join(streams_[stream.device].late);
  }
  return late;
}

void Order::executes(OperationId id) {
  if (!any_acquired_) return;
  Entry& entry = at(id);
  if (!entry.detached && entry.clock.join(late_before(entry))) entry.late = true;
}

void Order::released(OperationId id, Address word) { words_[word] = at(id).clock; }

void Order::acquired(OperationId id, Address word, bool may_be_hosts) {
  any_acquired_ = true;
  Entry& entry = at(id);
  const auto written = words_.find(word);
  if (written != words_.end() && entry.clock.join(written->second)) entry.late = true;
  if (may_be_hosts && entry.clock.join(host_)) entry.late = true;
}

void Order::follows_host(OperationId id) {
  any_acquired_ = true;
  Entry& entry = at(id);
  if (entry.clock.join(host_)) entry.late = true;
}

void Order::executed(OperationId id) {
  Entry& entry = at(id);
  entry.executed = true;
  if (!entry.late) return;
  for (const OperationId waiter : entry.waiters) {
    if (at(waiter).clock.join(entry.clock)) at(waiter).late = true;
  }
  if (entry.detached) return;
  Stream& stream = streams_[entry.stream];
  stream.late.join(entry.clock);
  if (!stream.non_blocking && !is_legacy(entry.stream)) blocking_late_[stream.device].join(entry.clock);
}

void Order::host_knows(OperationId id) {
  if (const Clock* clock = clock_of(id)) host_.join(*clock);
}

void Order::host_knows_stream(StreamId stream) {
  if (is_legacy(stream)) {
    host_.join(blocking_[stream]);
    host_.join(blocking_late_[stream]);
  }
  host_.join(streams_[stream].clock);
  host_.join(streams_[stream].late);
}

void Order::host_knows_device(DeviceId device) {
  host_.join(blocking_[device]);
  host_.join(blocking_late_[device]);
  for (const Stream& stream : streams_) {
    if (stream.device != device) continue;
    host_.join(stream.clock);
    host_.join(stream.late);
  }
}

void Order::host_knows_everything() {
  for (Chain chain = 0; chain < chains_.size(); ++chain) {
    if (chains_[chain].tip != 0 && !host_.covers(chain, chains_[chain].tip)) host_.set(chain, chains_[chain].tip);
  }
}

}  // namespace simulator
