// SPDX-License-Identifier: Apache-2.0
// Which buffers stay where those that are used again and again do not all fit, and no plan is followed: weights beyond
// the budget in a program whose steps differ, because a cache grows or other experts are asked for.
//
// Least recently used first is the worst there is for buffers in turn: each leaves just before its next use. So a set
// stays, of those that are used most often, and all others pass through the rest of the memory: they are chosen to
// leave as soon as they have been used, and go in the order of their uses. What comes in joins the set only for members
// that are used clearly less often, so that nothing is exchanged for its equal. This is the idea of TinyLFU (Einziger,
// Friedman, Manes 2017).
//
// How often a buffer is used is told by its own history. The clock counts the bytes that operations access, so nothing
// depends on times; uses that follow each other at once are one.
//   - A buffer whose gaps from use to use are alike is *regular*: its usual gap says how often it comes, until it has
//     not come for two of them. A gap of many usual ones belongs to another phase of the program and says nothing of
//     this one.
//   - Of any other, uses are counted, and the count decays. It also counts as likely to come for a *turn* after its use,
//     which is the gap of regular buffers: what one token has asked for the next one often asks for.
//
// Slabs have no history: many operations in a row use one for different buffers.
//
// Activity. Training steps use their activations twice and keep few buffers longer; for these the order of last use is
// right. So the set is there only while buffers that have come back several times, each time after much else, are more
// than half of what the budget holds. With a spill file there is none: room on the host is made in the order of last
// use, and where the device's order was another, host memory came to be in pieces too small to read back from the file.
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

  // An operation that no plan knows is being prepared. While everything fits there is nothing to learn.
  void arriving(const Arrival& arrival) {
    if (!spills_ && residency_.has_evicted_for_room()) note(arrival);
  }
  // It has been submitted.
  void submitted(StreamIndex stream) {
    if (now_ > 0) act(stream);
  }
  // It decides what leaves.
  bool is_active() const { return active_; }

 private:
  struct History {
    std::uint64_t serial = 0;  // of the block that it is of
    std::uint64_t born = 0, last_use = 0;
    double gap = 0;               // the usual one, by the clock; 0: none was seen
    std::uint32_t alike = 0;      // gaps before the last one that were like it, one after the other
    std::uint32_t long_gaps = 0;  // that were half a budget and more
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
  // `end`: the clock behind the operation, whose own accesses are no gap.
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
  Bytes known_bytes_ = 0;           // of the blocks that were live when the set was chosen
  // The most that was live beside these since then; and in the time before that.
  Bytes newest_ = 0, newest_before_ = 0;
  Bytes largest_ = 0;  // of what passes through for one operation
  Bytes room_ = 0;     // for more members
  std::uint32_t operations_since_fence_ = 0;
  bool active_ = false;
  std::vector<Member>
      leaves_next_;                // members, when they were chosen last; the one that is used least often is the last
  std::vector<Operand> operands_;  // of the operation in preparation, those that do not stay
};

}  // namespace thermocline
