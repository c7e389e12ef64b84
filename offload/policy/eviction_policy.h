// SPDX-License-Identifier: Apache-2.0
// What an engine tells a policy, and asks it. The engine itself evicts under pressure and fetches on access. A policy
// may choose the victims (victim_order), and move contents ahead of need: from submitted() it calls Residency's
// write_behind, leave and prefetch. All that it says is advice: Residency keeps every promise whatever a
// policy does, so a policy changes times, never results.
//
// The base class observes nothing and decides nothing: eviction on demand, least recently used first. A new policy
// derives from it, overrides what it needs, and gets a row in offload/policies.h.
//
// All calls are made with the engine's lock held, and none may call the engine.
#pragma once

#include <cstdint>
#include <span>

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

// What a policy is made with; all of it outlives the policy.
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
  // Equal for operations that are equal in all of this but for how much is live and how long they take, and whose
  // operands are the same allocations, none of them pinned (known_operations.h). 0: nothing is known.
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

  // What it wants to be told and asked of. Not virtual: looked at for each operation and allocation.
  struct Wants {
    bool arrivals = false;    // arriving()
    bool submitting = false;  // submitting()
    bool submitted = true;    // submitted()
    bool allocating = false;  // allocating()
    bool addresses = false;   // reserved_block(), placed(), keeps_addresses()
  };
  const Wants& wants() const { return wants_; }

  // An operation, in this order.
  virtual void arriving(const Arrival&) {}
  // Operands were not on the device, and it waited for them.
  virtual void missed() {}
  // All that it waits for has been submitted to the stream, and it is the next to be.
  virtual void submitting(StreamHandle) {}
  // It has been submitted: the time to evict and to prefetch. Blocks at most while the device has enough to do.
  virtual void submitted(StreamIndex) {}
  // A buffer is about to get addresses, with the pages of free ones if there are any: the time to prefetch into these.
  // Blocks as submitted() does.
  virtual void allocating() {}
  // The program says that a step ends here.
  virtual void step() {}

  // The block has got its first buffer, or one of another owner. Only once arriving() is called.
  virtual void allocated(const Block&) {}
  // The block may be used by what is not seen, and can not leave.
  virtual void pinned(const Block&) {}
  // The block's last buffer is about to be freed, or changes hands.
  virtual void freed(const Block&) {}

  // Null: least recently used first. Asked once, when the policy has been made.
  virtual VictimOrder* victim_order() { return nullptr; }
  // The order in which host copies go to the spill file. Null: least recently used first.
  virtual VictimOrder* spill_order() { return victim_order(); }
  // The device is about to run out of work: what can be done later is put off.
  virtual bool is_hurried() { return false; }

  // Addresses that are kept for the buffers of a repeated iteration.
  // For a buffer that is about to be allocated: a vacant block that is reserved for it; null: any will do.
  virtual Block* reserved_block(Bytes) { return nullptr; }
  // A buffer has got this block to itself.
  virtual void placed(Bytes, Block&) {}
  // The block's only buffer is about to be freed: true if its addresses stay reserved.
  virtual bool keeps_addresses(const Block&) { return false; }
  // Addresses run short: nothing is reserved from now on.
  virtual void release_addresses() {}

  // Null: it has no plans that recompute.
  virtual RecomputePolicy* recompute() { return nullptr; }
  virtual PolicyStatistics statistics() const { return {}; }

 protected:
  explicit EvictionPolicy(Wants wants) : wants_(wants) {}
  // May change from one operation to the next.
  void set_wants(Wants wants) { wants_ = wants; }

 private:
  Wants wants_;
};

}  // namespace thermocline
