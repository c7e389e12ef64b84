// SPDX-License-Identifier: Apache-2.0
// Backpropagation through time in a given memory: Gruslys et al., Memory-efficient backpropagation through time, 2016.
//
// The forward pass is a chain of equal steps. To go back through `steps` of them from the state before the first, with
// room for `slots` further states: run forward over some, keep the state there, go back through the steps after it with
// one slot less, then through the steps before it with all slots. Dynamic programming finds where to keep a state.
#pragma once

#include <cstdint>
#include <vector>

#include "offload/recompute/forward_pass.h"
#include "offload/recompute/schedule.h"

namespace thermocline {

// The least number of forward steps, and where to keep the first state.
class RecurrentSplits {
 public:
  RecurrentSplits(std::uint32_t most_steps, std::uint32_t most_slots);

  // The number of forward steps, for 1 <= steps <= most_steps and slots <= most_slots. Includes the first pass over the
  // chain; each step also runs right before its backward step, which needs its inner contents.
  std::uint64_t runs(std::uint32_t steps, std::uint32_t slots) const { return at(steps, slots).runs; }
  // The state after this many steps is kept first; 0: none is, because there is one step or no slot.
  std::uint32_t split(std::uint32_t steps, std::uint32_t slots) const { return at(steps, slots).split; }

 private:
  struct Best {
    std::uint64_t runs = 0;
    std::uint32_t split = 0;
  };
  const Best& at(std::uint32_t steps, std::uint32_t slots) const { return best_[slots * (most_steps_ + 1) + steps]; }

  std::size_t most_steps_;
  std::vector<Best> best_;
};

// The chain of equal steps that makes up most of the forward pass.
struct RecurrentChain {
  // `ends`: the last places of what comes before the chain, and of each of its steps; ascending. Empty: no chain.
  std::vector<std::uint32_t> ends;

  std::uint32_t steps() const { return ends.empty() ? 0 : static_cast<std::uint32_t>(ends.size() - 1); }
};

RecurrentChain find_recurrent_chain(const Profile& profile, const Lineage& lineage, const ForwardPass& pass);

class RecurrentSchedules : public ScheduleSource {
 public:
  // For increasing numbers of slots.
  std::vector<Schedule> schedules(const Profile& profile, const Lineage& lineage, Bytes limit) const override;
  // The more slots, the more memory and the less time: bisects for the most that fit.
  void search(const Profile& profile, const Lineage& lineage, Bytes limit,
              const std::function<ScheduleFit(const Schedule&)>& plan) const override;
  std::string why_none(const Profile& profile, const Lineage& lineage) const override;
};

}  // namespace thermocline
