// SPDX-License-Identifier: Apache-2.0
// Chooses the buffers that stay on the device if those that are used repeatedly do not all fit, and no plan is
// followed. Example: weights beyond the budget in a program whose steps differ, because a cache grows or experts vary.
//
// Least recently used first is the worst order for buffers that are used in turn: each is evicted just before its next
// use. So a set of the most often used buffers stays. All others pass through the rest of the memory: they are chosen
// for eviction right after their use, and go in the order of their uses. A fetched buffer joins the set only in place
// of members that are used clearly less often, so that equal buffers are not exchanged. This is the idea of TinyLFU
// (Einziger, Friedman, Manes 2017).
//
// The buffer's own history tells how often it is used. The clock counts bytes that operations access, so nothing
// depends on times. Uses that follow each other at once count as one.
//   - A buffer whose gaps from use to use are alike is *regular*: its usual gap tells how often it is used, until it
//     has not been used for two gaps. A gap many times the usual one belongs to another phase of the program, and says
//     nothing about this one.
//   - For all other buffers, uses are counted, and the count decays. Such a buffer also counts as likely to be used for
//     a *turn* after its use (the gap of regular buffers): what one token selects, the next often selects again.
//
// Slabs have no history: many operations in a row use one for different buffers.
//
// Activity. Training steps use their activations twice and keep few buffers longer; for these the order of last use is
// right. So the set exists only while buffers that have come back several times, each time after much else, are more
// than half of what the budget holds. With a spill file there is no set: room on the host is made in the order of last
// use, and with another order on the device host memory became too fragmented to read contents back from the file.
#pragma once

#include <cstdint>
#include <vector>

#include "offload/policy/eviction_policy.h"

namespace thermocline {

class ResidentSet {
 public:
  explicit ResidentSet(const PolicyParts& parts)
      : heap_(parts.heap),
        clock_(parts.clock),
        residency_(parts.residency),
        min_offload_bytes_(parts.options.min_offload_bytes),
        spills_(parts.options.spill_limit_bytes > 0) {}

  // An operation that no plan knows is being prepared. While everything fits, nothing is learned.
  void arriving(const Arrival& arrival) {
    if (!spills_ && residency_.has_evicted_for_room()) note(arrival);
  }
  // The operation has been submitted.
  void submitted(StreamIndex stream) {
    if (now_ > 0) act(stream);
  }
  // Whether the set decides what is evicted.
  bool is_active() const { return active_; }

 private:
  struct History {
    std::uint64_t serial = 0;  // the serial of the block
    std::uint64_t born = 0, last_use = 0;
    double gap = 0;               // the usual gap, by the clock; 0: none was seen
    std::uint32_t alike = 0;      // gaps in a row before the last one that were like it
    std::uint32_t long_gaps = 0;  // gaps of half a budget or more
    double uses = 0;              // decayed to last_use
    bool is_written = false;
    bool stays = false;
    bool is_regular() const;
  };
  struct Operand {
    BlockState* state;
    std::uint64_t serial;
  };
  struct Member {
    double value;
    Operand block;
  };

  void note(const Arrival& arrival);
  void act(StreamIndex stream);
  History& history_of(const Block& block);
  // `end`: the clock after the operation, so that its own accesses do not count as a gap.
  void use(const BlockState& state, std::uint64_t end);
  bool is_established(const History& history) const;
  double uses_now(const History& history) const;
  double value_of(const History& history) const;
  void choose();
  bool joins(const Operand& operand);
  void let_go(BlockState& state);
  History* live_history_of(const Operand& operand);

  const Heap& heap_;
  StreamClock& clock_;
  Residency& residency_;
  const Bytes min_offload_bytes_;
  const bool spills_;
  std::vector<History> histories_;  // by Block::index()
  std::uint64_t now_ = 0;           // bytes that operations have accessed
  double turn_ = 0;                 // the gap of regular buffers; 0: there is none
  std::uint64_t choose_at_ = 0;     // by the clock
  Bytes known_bytes_ = 0;           // bytes of the blocks that were live when the set was chosen
  // The most other bytes that were live since then; and in the time before that.
  Bytes newest_ = 0, newest_before_ = 0;
  Bytes largest_ = 0;  // largest bytes that pass through for one operation
  Bytes room_ = 0;     // room for more members
  std::uint32_t operations_since_fence_ = 0;
  bool active_ = false;
  std::vector<Member>
      leaves_next_;                // members, when they were chosen last; the one that is used least often is the last
  std::vector<Operand> operands_;  // of the operation in preparation: those that do not stay
};

}  // namespace thermocline
