// SPDX-License-Identifier: Apache-2.0
// The interface between an engine and its policy. The engine itself evicts under pressure and fetches on access. A
// policy may choose the victims (victim_order), and move contents ahead of need: in submitted() it calls Residency's
// write_behind, begin_evictions and prefetch. All of this is only advice: Residency stays correct whatever a policy
// does, so a policy changes times, never results.
//
// The base class observes nothing and decides nothing: eviction on demand, least recently used first. A new policy
// derives from it, overrides what it needs, and gets a row in offload/policies.h.
//
// All calls are made with the engine's lock held, and none may call the engine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "allocator/heap.h"
#include "allocator/stream_clock.h"
#include "offload/operation_info.h"
#include "offload/options.h"
#include "offload/policy/recent_allocations.h"
#include "offload/residency/migration.h"
#include "offload/residency/residency.h"
#include "offload/residency/victim_order.h"

namespace thermocline {

class RecomputePolicy;

// The constructor arguments of a policy; all of them outlive the policy.
struct PolicyParts {
  const Driver& driver;
  Heap& heap;
  StreamClock& clock;
  Migration& migration;
  Residency& residency;
  const RecentAllocations& allocations;
  const EngineOptions& options;
};

// An operation that is being prepared.
struct Arrival {
  const OperationInfo& info;
  std::uint64_t accesses = 0;             // as the caller counted them
  std::span<BlockState* const> operands;  // in order of their first accesses, each once
  Bytes live_bytes = 0;                   // as the program asked for them
  Bytes live_block_bytes = 0;             // whole blocks
  // Equal for operations that are equal in all of the above except live bytes and durations, and whose operands are the
  // same allocations, none of them pinned (known_operations.h). 0: nothing is known.
  std::uint64_t known = 0;
};

struct PolicyStatistics {
  std::uint64_t write_behinds = 0;
  std::uint64_t plans = 0, divergences = 0;  // iterations learned, and departures from them
  std::uint64_t predicted_step_ns = 0;       // of an iteration under the plan in force; 0: there is none
};

class EvictionPolicy {
 public:
  EvictionPolicy() = default;
  virtual ~EvictionPolicy() = default;
  EvictionPolicy(const EvictionPolicy&) = delete;
  EvictionPolicy& operator=(const EvictionPolicy&) = delete;

  // Which calls the policy needs. Not virtual, because it is read for each operation and allocation.
  struct Wants {
    bool arrivals = false;    // arriving()
    bool submitting = false;  // submitting()
    bool submitted = true;    // submitted()
    bool allocating = false;  // allocating()
    bool addresses = false;   // reserved_block(), placed(), keeps_addresses()
  };
  const Wants& wants() const { return wants_; }

  // An operation as it came last, in a policy that expects it next: Arrival::known, its duration as given, and the live
  // bytes at that time.
  struct Expected {
    std::uint64_t known = 0;
    std::uint64_t nanoseconds = 0;
    Bytes live_bytes = 0, live_block_bytes = 0;
    friend bool operator==(const Expected&, const Expected&) = default;
  };
  // Whether the operation is the expected one in every respect. Then it has been counted, and arriving() is not told of
  // it. Not virtual, because it is asked for each operation. `arrival.known` is not 0.
  bool arrives_as_expected(const Expected& arrival) {
    if (next_ == nullptr || *next_ != arrival) return false;
    next_ = next_ + 1 == expected_end_ ? expected_begin_ : next_ + 1;
    ++arrived_;
    return true;
  }
  // For each other operation, in this order.
  virtual void arriving(const Arrival&) {}
  // Operands were not on the device, so the operation waits for them.
  virtual void missed() {}
  // Everything that the operation waits for has been submitted to the stream; the operation is submitted next.
  virtual void submitting(StreamHandle) {}
  // The operation has been submitted: time to evict and to prefetch. May block only while the device has enough work.
  virtual void submitted(StreamIndex) {}
  // A buffer is about to get addresses, and the pages of free buffers if there are any: time to prefetch into these.
  // May block as submitted() may.
  virtual void allocating() {}
  // The program marked the end of a step.
  virtual void step() {}

  // The block has got its first buffer, or one of another owner. Called only after the first arriving().
  virtual void allocated(const Block&) {}
  // Unseen work may use the block, so it cannot be evicted.
  virtual void pinned(const Block&) {}
  // The block's last buffer is about to be freed, or to change owners.
  virtual void freed(const Block&) {}

  // Null: least recently used first. Called once, after the policy was made.
  virtual VictimOrder* victim_order() { return nullptr; }
  // The order in which host copies go to the spill file. Null: least recently used first.
  virtual VictimOrder* spill_order() { return victim_order(); }
  // The device is about to run out of work: work that can be done later is put off.
  virtual bool is_hurried() { return false; }

  // Addresses reserved for the buffers of a repeated iteration.
  // For a buffer about to be allocated: a vacant block that is reserved for it; null: any block will do.
  virtual Block* reserved_block(Bytes) { return nullptr; }
  // A buffer has got this block to itself, with no other buffer in it.
  virtual void placed(Bytes, Block&) {}
  // The block's only buffer is about to be freed: true if its addresses stay reserved.
  virtual bool keeps_addresses(const Block&) { return false; }
  // Addresses run short: no more are reserved from now on.
  virtual void release_addresses() {}

  // Null: the policy has no plans that recompute.
  virtual RecomputePolicy* recompute() { return nullptr; }
  virtual PolicyStatistics statistics() const { return {}; }

 protected:
  explicit EvictionPolicy(Wants wants) : wants_(wants) {}
  // The needs may change from one operation to the next.
  void set_wants(Wants wants) { wants_ = wants; }
  // The operations that are expected from now on, over and over; the next one is at `place`. They stay where they are
  // until expect_nothing(). Only while neither submitting() nor submitted() is wanted.
  void expect(std::span<const Expected> all, std::size_t place) {
    expected_begin_ = all.data();
    expected_end_ = all.data() + all.size();
    next_ = expected_begin_ + place;
  }
  void expect_nothing() { next_ = nullptr; }
  // How many operations have arrived as expected since the last call.
  std::uint64_t take_arrived() { return std::exchange(arrived_, 0); }

 private:
  Wants wants_;
  // next_ is null, or one of [expected_begin_, expected_end_).
  const Expected* next_ = nullptr;
  const Expected *expected_begin_ = nullptr, *expected_end_ = nullptr;
  std::uint64_t arrived_ = 0;
};

}  // namespace thermocline
