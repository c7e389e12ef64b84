// SPDX-License-Identifier: Apache-2.0
#include "offload/recompute/drop_ranking.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <queue>
#include <span>
#include <utility>

#include "offload/recompute/forward_pass.h"
#include "offload/recompute/kept_inputs.h"
#include "offload/recompute/recipe.h"

namespace thermocline {
namespace {

constexpr double kImpossibleNs = std::numeric_limits<double>::infinity();
// Shorter gaps gain little, and there are many; except gaps of buffers larger than this part of the memory.
constexpr std::uint32_t kLeastGap = 20;
constexpr Bytes kLargePart = 32;

class Ranking {
 public:
  Ranking(const Profile& profile, const Lineage& lineage, const LastingContents& lasting, const RankingTerms& terms)
      : profile_(profile),
        lineage_(lineage),
        kept_inputs_(lineage),
        lasting_(lasting),
        terms_(terms),
        chosen_of_(lineage.buffers.size()),
        readers_(lineage.buffers.size()) {
    find_crowded();
    find_candidates();
  }

  std::vector<Drop> run() {
    for (std::uint32_t c = 0; c < candidates_.size(); ++c) push(c);
    std::vector<Drop> chosen;
    while (!open_.empty()) {
      const Entry best = open_.top();
      open_.pop();
      std::vector<VersionId> inputs;
      const double key = key_of(best.candidate, &inputs);
      if (key <= 0) continue;
      // Other choices have made the candidate more expensive since.
      if (!open_.empty() && Entry{key, best.candidate} < open_.top()) {
        open_.push({key, best.candidate});
        continue;
      }
      choose(best.candidate, inputs);
      chosen.push_back(candidates_[best.candidate]);
    }
    return chosen;
  }

  bool has_special() const { return has_special_; }

  // Why run() has chosen nothing.
  NoDrops why_none() const {
    const auto made = [](VersionId content) { return content != kNoVersion; };
    const auto is_repeatable = [this](VersionId content) {
      const std::uint32_t producer = lineage_.versions[content].producer;
      return producer != LineageVersion::kBefore && lineage_.is_repeatable(producer);
    };
    if (std::ranges::none_of(contents_, made)) return NoDrops::kSlower;
    const bool may = std::ranges::any_of(contents_, [&](VersionId c) { return made(c) && is_repeatable(c); });
    return may ? NoDrops::kInputsGone : NoDrops::kNotRepeatable;
  }

 private:
  struct Entry {
    double key;
    std::uint32_t candidate;
    bool operator<(const Entry& other) const {
      return key != other.key ? key < other.key : candidate > other.candidate;
    }
  };

  // Buffers that are dropped at a place if `candidate` is, too.
  struct DroppedAt {
    const Ranking& ranking;
    std::uint32_t candidate, place;
    bool operator[](std::uint32_t buffer) const {
      const auto covers = [this](std::uint32_t e) { return ranking.candidates_[e].covers(place); };
      return buffer == candidate || std::ranges::any_of(ranking.chosen_of_[buffer], covers);
    }
  };

  void find_crowded() {
    const std::vector<double> live = live_bytes_of(profile_);
    crowded_.assign(live.size() + 1, 0);
    for (std::size_t q = 0; q < live.size(); ++q) {
      crowded_[q + 1] = crowded_[q] + (live[q] > static_cast<double>(terms_.limit) ? 1 : 0);
    }
  }
  bool is_crowded_between(std::uint32_t last_use, std::uint32_t next_use) const {
    if (next_use <= last_use) return crowded_.back() > crowded_[last_use + 1] || crowded_[next_use] > 0;
    return crowded_[next_use] > crowded_[last_use + 1];
  }

  void find_candidates() {
    std::vector<Drop> last(lineage_.buffers.size());  // by buffer: its last use (`last_use`), and the version after it
    std::vector<bool> used(lineage_.buffers.size());
    for (std::uint32_t q = 0; q < lineage_.places(); ++q) {
      const std::span<const VersionedOperand> operands = lineage_.operands(q);
      const std::span<const std::uint32_t> buffers = lineage_.operand_buffers(q);
      for (std::size_t i = 0; i < buffers.size(); ++i) {
        const std::uint32_t b = buffers[i];
        Drop& drop = last[b];
        // For lasting buffers, dead contents are handled below.
        const bool may = may_be_dropped(profile_, lineage_, b) || (lasting_.is_lasting(b) && operands[i].reads);
        if (used[b] && may) drop.last_use = std::max(drop.last_use, held_until(b));
        if (used[b] && may && q > drop.last_use) {
          drop.next_use = q;
          drop.version = operands[i].reads ? operands[i].read : kNoVersion;
          add_if_worth_it(drop, q - drop.last_use, drop.version);
        }
        drop = {.buffer = b, .last_use = q, .next_use = q, .version = kNoVersion};
        used[b] = true;
      }
    }
    const auto places = static_cast<std::uint32_t>(lineage_.places());
    for (const Drop& dead : lasting_.dead()) {
      const std::uint32_t gap = dead.next_use + (dead.goes_round() ? places : 0) - dead.last_use;
      add_if_worth_it(dead, gap, lasting_.content_of(dead));
    }
  }
  void add_if_worth_it(const Drop& drop, std::uint32_t gap, VersionId content) {
    if (!is_worth_a_look(drop.buffer, gap) || !is_crowded_between(drop.last_use, drop.next_use)) return;
    candidates_.push_back(drop);
    contents_.push_back(content);
    kept_.push_back(terms_.which != Candidates::kPlain ? kept_inputs_.of(drop) : std::vector<VersionId>());
    has_special_ |= gap < kLeastGap || !kept_.back().empty();
  }
  bool is_worth_a_look(std::uint32_t b, std::uint32_t gap) const {
    if (gap >= kLeastGap || terms_.which == Candidates::kShort) return true;
    return terms_.which == Candidates::kAll && lineage_.buffers[b].bytes >= terms_.limit / kLargePart;
  }
  std::uint32_t held_until(std::uint32_t b) const { return profile_.buffers[lineage_.buffers[b].name].held_until; }
  void push(std::uint32_t c) {
    std::vector<VersionId> inputs;
    if (const double key = key_of(c, &inputs); key > 0) open_.push({key, c});
  }

  // Bytes freed per nanosecond of recomputation; 0: it can not be recomputed, or others no longer could be.
  double key_of(std::uint32_t c, std::vector<VersionId>* inputs) {
    const Drop& drop = candidates_[c];
    const auto bytes = static_cast<double>(profile_.buffers[lineage_.buffers[drop.buffer].name].bytes);
    double ns = drop.version == kNoVersion ? 0 : cost(c, drop.next_use, inputs);
    for (const std::uint32_t e : readers_[drop.buffer]) {
      const Drop& other = candidates_[e];
      if (!drop.covers(other.next_use) || ns == kImpossibleNs) continue;
      const double again = contents_[c] == kNoVersion ? 0 : cost(c, other.next_use, nullptr);
      // A version that is recomputed for the other one is kept until its own use.
      if (again == kImpossibleNs || drop.goes_round() || drop.next_use > other.next_use + terms_.kept_for) ns += again;
    }
    return ns == kImpossibleNs ? 0 : bytes / std::max(ns + terms_.ns_per_drop, 1.0);
  }

  // Nanoseconds to recompute the candidate's content at the place, if it is dropped too.
  double cost(std::uint32_t c, std::uint32_t place, std::vector<VersionId>* inputs) {
    const DroppedAt dropped{*this, candidates_[c].buffer, place};
    const RecomputableAt world(lineage_, dropped, place, nullptr, 0, {}, kept_[c]);
    RecipeBuilder builder(world);
    double ns = 0;
    if (builder.add(contents_[c])) {
      for (const Recipe::Run& run : builder.recipe().runs)
        ns += static_cast<double>(profile_.nanoseconds[run.operation]);
      if (inputs != nullptr) *inputs = builder.recipe().inputs;
    } else {
      ns = kImpossibleNs;
    }
    return ns;
  }

  void choose(std::uint32_t c, const std::vector<VersionId>& inputs) {
    chosen_of_[candidates_[c].buffer].push_back(c);
    const auto reads = [this](std::uint32_t e, std::uint32_t b) {
      std::vector<std::uint32_t>& readers = readers_[b];
      if (std::ranges::find(readers, e) == readers.end()) readers.push_back(e);
    };
    for (const VersionId input : inputs) reads(c, lineage_.versions[input].buffer);
    // Contents that were computed from this version must be computed from its inputs now.
    const Drop& drop = candidates_[c];
    for (const std::uint32_t e : std::vector<std::uint32_t>(readers_[drop.buffer])) {
      if (!drop.covers(candidates_[e].next_use)) continue;
      for (const VersionId input : inputs) reads(e, lineage_.versions[input].buffer);
    }
  }

  const Profile& profile_;
  const Lineage& lineage_;
  const KeptInputs kept_inputs_;
  const LastingContents& lasting_;
  const RankingTerms terms_;
  bool has_special_ = false;
  std::vector<std::uint32_t> crowded_;  // number of earlier places with more live bytes than the limit
  std::vector<Drop> candidates_;
  // By candidate: the version that is recomputed; kNoVersion: none, as far as known.
  std::vector<VersionId> contents_;
  std::vector<std::vector<VersionId>> kept_;           // by candidate: inputs that are kept for it
  std::vector<std::vector<std::uint32_t>> chosen_of_;  // by buffer: chosen candidates, at most one for each gap
  std::vector<std::vector<std::uint32_t>> readers_;    // by buffer: chosen candidates that are computed from it
  std::priority_queue<Entry> open_;
};

}  // namespace

RankedDrops rank_drops(const Profile& profile, const Lineage& lineage, const LastingContents& lasting,
                       const RankingTerms& terms) {
  Ranking ranking(profile, lineage, lasting, terms);
  std::vector<Drop> drops = ranking.run();
  return {std::move(drops), ranking.has_special(), ranking.why_none()};
}

}  // namespace thermocline
