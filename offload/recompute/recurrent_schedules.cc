// SPDX-License-Identifier: Apache-2.0
#include "offload/recompute/recurrent_schedules.h"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

namespace thermocline {
namespace {

constexpr std::uint32_t kFewestSteps = 4, kMostSlots = 512;
// At least this much of the time of the forward pass must be in the chain.
constexpr double kMostOfThePass = 0.8;
constexpr std::uint32_t kLongestPeriod = 64;
// The most reruns in one schedule. Few slots for many steps need about the square of them, which is of no use.
constexpr std::uint64_t kMostReruns = 200'000;

// The properties in which the operations of a step must equal those of the next step: sizes and directions of operands.
std::vector<std::uint64_t> looks_of(const Lineage& lineage, std::uint32_t place) {
  std::vector<std::uint64_t> looks;
  const std::span<const VersionedOperand> operands = lineage.operands(place);
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const std::uint64_t directions = (operands[i].reads ? 1U : 0U) + (operands[i].writes ? 2U : 0U);
    looks.push_back(lineage.buffers[lineage.operand_buffers(place)[i]].bytes * 4 + directions);
  }
  return looks;
}

// Equal numbers for equal operations.
std::vector<std::uint32_t> kinds_of(const Lineage& lineage, const ForwardPass& pass) {
  std::map<std::vector<std::uint64_t>, std::uint32_t> known;
  std::vector<std::uint32_t> kinds;
  for (std::uint32_t q = 0; q <= pass.forward_end; ++q) {
    kinds.push_back(known.try_emplace(looks_of(lineage, q), static_cast<std::uint32_t>(known.size())).first->second);
  }
  return kinds;
}

// The longest stretch in which every operation is like the one `period` places before.
struct Stretch {
  std::uint32_t begin = 0, end = 0, period = 1;
};
Stretch longest_stretch(const std::vector<std::uint32_t>& kinds, std::uint32_t period) {
  Stretch best{.period = period};
  const auto places = static_cast<std::uint32_t>(kinds.size());
  for (std::uint32_t begin = 0, q = period; q <= places; ++q) {
    if (q < places && kinds[q] == kinds[q - period]) continue;
    if (q - begin > best.end - best.begin) best = {begin, q, period};
    begin = q + 1 - period;
  }
  return best;
}

class Emitter {
 public:
  Emitter(const Lineage& lineage, const ForwardPass& pass, const RecurrentChain& chain, const RecurrentSplits& splits)
      : chain_(chain),
        splits_(splits),
        inner_(chain.steps() + 1),
        states_(chain.steps() + 1),
        needed_(chain.steps() + 1, LineageVersion::kBefore) {
    for (const Drop& drop : pass.drops) {
      const std::uint32_t made = step_of(lineage.versions[drop.version].producer);
      if (made == 0 || made > chain.steps() || drop.last_use > chain.ends.back()) continue;
      (step_of(drop.last_use) == made ? inner_ : states_)[made].push_back(drop);
      needed_[made] = std::min(needed_[made], drop.next_use);
    }
  }

  Schedule run(std::uint32_t slots) {
    schedule_ = {};
    kept_.assign(chain_.steps() + 1, false);
    go_back(0, chain_.steps(), slots, kInForwardPass);
    for (std::uint32_t s = 1; s <= chain_.steps(); ++s) {
      schedule_.drops.insert(schedule_.drops.end(), inner_[s].begin(), inner_[s].end());
      if (!kept_[s]) schedule_.drops.insert(schedule_.drops.end(), states_[s].begin(), states_[s].end());
    }
    std::ranges::stable_sort(schedule_.recomputations, {}, &Recomputation::place);
    return std::move(schedule_);
  }

 private:
  static constexpr std::uint32_t kInForwardPass = 0;

  // 0: before the chain.
  std::uint32_t step_of(std::uint32_t place) const {
    return static_cast<std::uint32_t>(std::ranges::lower_bound(chain_.ends, place) - chain_.ends.begin());
  }
  void recompute(const std::vector<Drop>& drops, std::uint32_t place) {
    for (const Drop& drop : drops) {
      if (drop.next_use >= place)
        schedule_.recomputations.push_back({.place = place, .buffer = drop.buffer, .version = drop.version});
    }
  }

  // Goes back through steps (begin, end], from the state after `begin`, which exists. `place`: where that begins.
  void go_back(std::uint32_t begin, std::uint32_t end, std::uint32_t slots, std::uint32_t place) {
    while (const std::uint32_t split = splits_.split(end - begin, slots)) {
      const std::uint32_t kept = begin + split;
      if (place == kInForwardPass) {
        kept_[kept] = true;
      } else {
        recompute(states_[kept], place);
      }
      go_back(kept, end, slots - 1, place);
      end = kept;
      place = needed_[kept];
    }
    for (std::uint32_t step = end; step > begin; --step) recompute(inner_[step], needed_[step]);
  }

  const RecurrentChain& chain_;
  const RecurrentSplits& splits_;
  std::vector<std::vector<Drop>> inner_, states_;  // by step: contents for its own backward step, and for the next step
  std::vector<std::uint32_t> needed_;              // by step: the first backward place that reads its contents
  std::vector<bool> kept_;                         // by step: its state is kept in the forward pass
  Schedule schedule_;
};

}  // namespace

RecurrentSplits::RecurrentSplits(std::uint32_t most_steps, std::uint32_t most_slots)
    : most_steps_(most_steps), best_((most_steps + std::size_t{1}) * (most_slots + std::size_t{1})) {
  for (std::uint64_t t = 1; t <= most_steps; ++t) best_[t].runs = t * (t + 1) / 2;
  for (std::uint32_t m = 1; m <= most_slots; ++m) {
    Best* const here = &best_[m * (most_steps_ + 1)];
    const Best* const fewer = here - (most_steps_ + 1);
    if (most_steps > 0) here[1].runs = 1;
    // Costs are convex in the number of steps: one step more moves the best split by one at most.
    std::uint32_t split = 1;
    const auto runs = [&](std::uint32_t steps, std::uint32_t y) { return y + fewer[steps - y].runs + here[y].runs; };
    for (std::uint32_t t = 2; t <= most_steps; ++t) {
      while (split + 1 < t && runs(t, split + 1) <= runs(t, split)) ++split;
      here[t] = {runs(t, split), split};
    }
  }
}

RecurrentChain find_recurrent_chain(const Profile& profile, const Lineage& lineage, const ForwardPass& pass) {
  const std::vector<std::uint32_t> kinds = kinds_of(lineage, pass);
  std::vector<std::uint64_t> before(pass.forward_end + std::size_t{2});  // nanoseconds
  for (std::uint32_t q = 0; q <= pass.forward_end; ++q) before[q + 1] = before[q] + profile.nanoseconds[q];
  RecurrentChain chain;
  const std::vector<Bytes> bytes = pass.crossing_bytes(lineage, false), leaving = pass.crossing_bytes(lineage, true);
  for (std::uint32_t period = 1; period <= kLongestPeriod && period * kFewestSteps <= pass.forward_end + 1; ++period) {
    const Stretch stretch = longest_stretch(kinds, period);
    const auto time = static_cast<double>(before[stretch.end] - before[stretch.begin]);
    if (stretch.end - stretch.begin < period * kFewestSteps) continue;
    if (time < kMostOfThePass * static_cast<double>(before.back())) continue;
    // Steps end where all crossing contents stay, and least crosses.
    std::uint32_t first = stretch.begin;
    for (std::uint32_t q = first; q < stretch.begin + period; ++q) {
      if (std::pair(leaving[q], bytes[q]) < std::pair(leaving[first], bytes[first])) first = q;
    }
    for (std::uint32_t q = first; q < stretch.end; q += period) chain.ends.push_back(q);
    if (chain.steps() < kFewestSteps || bytes[chain.ends.front()] == 0) {
      chain.ends.clear();
      continue;
    }
    // Contents that later steps keep reading are not a state.
    const bool is_level = bytes[chain.ends[chain.ends.size() / 2]] < 2 * bytes[chain.ends[1]];
    if (!is_level) chain.ends.clear();
    break;
  }
  return chain;
}

std::vector<Schedule> RecurrentSchedules::schedules(const Profile& profile, const Lineage& lineage,
                                                    Bytes /*limit*/) const {
  const ForwardPass pass(profile, lineage);
  const RecurrentChain chain = find_recurrent_chain(profile, lineage, pass);
  if (chain.ends.empty()) return {};
  const std::uint32_t most = std::min(chain.steps(), kMostSlots);
  const RecurrentSplits splits(chain.steps(), most);
  Emitter emitter(lineage, pass, chain, splits);
  std::vector<Schedule> all;
  for (std::uint32_t slots = 0; slots <= most; slots += 1 + slots / 32) all.push_back(emitter.run(slots));
  return all;
}

void RecurrentSchedules::search(const Profile& profile, const Lineage& lineage, Bytes /*limit*/,
                                const std::function<ScheduleFit(const Schedule&)>& plan) const {
  const ForwardPass pass(profile, lineage);
  const RecurrentChain chain = find_recurrent_chain(profile, lineage, pass);
  if (chain.ends.empty()) return;
  const std::uint32_t steps = chain.steps(), most = std::min(steps, kMostSlots);
  const RecurrentSplits splits(steps, most);
  const std::uint64_t step_places = (chain.ends.back() - chain.ends.front()) / steps;
  std::uint32_t least = 0;
  while (least < most && splits.runs(steps, least) * step_places > kMostReruns) ++least;
  Emitter emitter(lineage, pass, chain, splits);
  // [least, end) have not been tried.
  for (std::uint32_t end = most + 1; least < end;) {
    const std::uint32_t slots = least + (end - least) / 2;
    // With more slots recipes are shorter.
    if (plan(emitter.run(slots)) == ScheduleFit::kTooLarge) {
      end = slots;
    } else {
      least = slots + 1;
    }
  }
}

std::string RecurrentSchedules::why_none(const Profile& profile, const Lineage& lineage) const {
  const ForwardPass pass(profile, lineage);
  if (!find_recurrent_chain(profile, lineage, pass).ends.empty()) return "";
  return "gruslys needs a recurrent net, whose forward pass is a chain of " + std::to_string(kFewestSteps) +
         " or more equal steps; sqrt and checkpoint-all plan any forward pass";
}

}  // namespace thermocline
