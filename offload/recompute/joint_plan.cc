// SPDX-License-Identifier: Apache-2.0
#include "offload/recompute/joint_plan.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>
#include <queue>
#include <set>
#include <utility>

#include "offload/recompute/forward_pass.h"
#include "offload/recompute/kept_inputs.h"
#include "offload/recompute/lasting_contents.h"
#include "offload/recompute/segment_schedules.h"

namespace thermocline {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
// Shorter gaps gain little, and there are many; except gaps of buffers larger than this part of the memory.
constexpr std::uint32_t kLeastGap = 20;
constexpr Bytes kLargePart = 32;

// kPlain: without short gaps of large buffers, and without contents that need kept inputs. If these look cheap and
// crowd out others, lists without them are better. kShort: includes short gaps of small buffers.
enum class Candidates { kAll, kPlain, kShort };

class Ranking {
 public:
  Ranking(const Profile& profile, const Lineage& lineage, const LastingContents& lasting, Bytes limit,
          double ns_per_drop, std::uint32_t kept_for, Candidates which)
      : profile_(profile),
        lineage_(lineage),
        kept_inputs_(lineage),
        lasting_(lasting),
        limit_(limit),
        which_(which),
        ns_per_drop_(ns_per_drop),
        kept_for_(kept_for),
        chosen_of_(lineage.buffers.size()),
        readers_(lineage.buffers.size()) {
    find_crowded(limit);
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

  void find_crowded(Bytes limit) {
    const std::vector<double> live = live_bytes_of(profile_);
    crowded_.assign(live.size() + 1, 0);
    for (std::size_t q = 0; q < live.size(); ++q) {
      crowded_[q + 1] = crowded_[q] + (live[q] > static_cast<double>(limit) ? 1 : 0);
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
    kept_.push_back(which_ != Candidates::kPlain ? kept_inputs_.of(drop) : std::vector<VersionId>());
    has_special_ |= gap < kLeastGap || !kept_.back().empty();
  }
  bool is_worth_a_look(std::uint32_t b, std::uint32_t gap) const {
    if (gap >= kLeastGap || which_ == Candidates::kShort) return true;
    return which_ == Candidates::kAll && lineage_.buffers[b].bytes >= limit_ / kLargePart;
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
      if (!drop.covers(other.next_use) || ns == kNever) continue;
      const double again = contents_[c] == kNoVersion ? 0 : cost(c, other.next_use, nullptr);
      // A version that is recomputed for the other one is kept until its own use.
      if (again == kNever || drop.goes_round() || drop.next_use > other.next_use + kept_for_) ns += again;
    }
    return ns == kNever ? 0 : bytes / std::max(ns + ns_per_drop_, 1.0);
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
      ns = kNever;
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
  const Bytes limit_;
  const Candidates which_;
  bool has_special_ = false;
  const double ns_per_drop_;
  const std::uint32_t kept_for_;
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

std::vector<Drop> rank_drops(const Profile& profile, const Lineage& lineage, Bytes limit, double ns_per_drop,
                             std::uint32_t kept_for) {
  const LastingContents lasting(profile, lineage);
  return Ranking(profile, lineage, lasting, limit, ns_per_drop, kept_for, Candidates::kAll).run();
}

namespace {

constexpr std::size_t kLengths = 20, kLengthsOfMany = 10;
constexpr std::uint32_t kKeptLong = 40, kKeptShortly = 12, kKeptForTheNext = 4;
// This many of the list lengths that look best at first are planned with full effort.
constexpr std::size_t kPlannedFully = 3;
constexpr std::size_t kRefinements = 5;
// Exchanges of one drop for another that are tried at most; each takes about as long as a list length.
constexpr std::size_t kMostExchanges = 200;
// For iterations of more operations, fewer lengths are tried, and each with less effort.
constexpr std::size_t kFewPlaces = 4000;
constexpr double kFaster = 0.999;
// If a step takes longer than this multiple of its operations, segments are tried as well.
constexpr double kSlow = 1.5;
// If it takes longer than this multiple, lists that keep fewer recomputed contents are tried as well.
constexpr double kNearlyFast = 1.05;
// A schedule from which drops have to be removed more often than this is not the same schedule any more.
constexpr std::size_t kRepairs = 3;
// Host time for removing a buffer's pages and giving it others, without static page assignment: about ten of the
// driver's mapping calls.
constexpr double kHostNsPerDrop = 300e3;

class JointPlanner {
 public:
  JointPlanner(const Profile& profile, const Lineage& lineage, Bytes limit, const Link& link, Mapping mapping,
               PlanEffort effort)
      : profile_(profile),
        lineage_(lineage),
        lasting_(profile, lineage),
        limit_(limit),
        link_(link),
        mapping_(mapping),
        effort_(effort),
        operations_ns_(nanoseconds_of(profile)) {}

  Plan best() {
    best_ = plan_iteration(profile_, limit_, link_, effort_);
    try_lists();
    const bool has_list = std::ranges::any_of(lists_, [](const List& list) { return !list.ranked.empty(); });
    if (best_.rewriting == nullptr && !has_list && no_drops_.has_value()) best_.no_drops = *no_drops_;
    for (const List& list : lists_)
      best_.droppable = std::max(best_.droppable, static_cast<std::uint32_t>(list.ranked.size()));
    best_.tried_drops = tried_drops_;
    best_.fastest_drops_ns = fastest_drops_ns_;
    return std::move(best_);
  }

  Plan without_copies() {
    wanted_ = &without_copies_;
    take(plan_iteration(profile_, limit_, link_, effort_), nullptr);
    try_lists();
    return std::move(without_copies_);
  }

  Plan exchanged() {
    without_copies_ = without_copies();
    if (has_few_places()) exchange();
    return std::move(without_copies_);
  }

  // The fastest of the schedules.
  Plan as_scheduled(const ScheduleSource& source) {
    take(plan_iteration(profile_, limit_, link_, effort_), nullptr);
    source.search(profile_, lineage_, limit_, [this](const Schedule& schedule) { return attempt(schedule); });
    return std::move(without_copies_);
  }

 private:
  void try_lists() {
    const bool has_special = sweep(0, kKeptLong);
    sweep(0, kKeptShortly);
    if (has_special) {
      sweep(0, kKeptLong, Candidates::kPlain);
      sweep(0, kKeptShortly, Candidates::kPlain);
    }
    if (mapping_ == Mapping::kEachTime) sweep(kHostNsPerDrop, kKeptLong);
    if (!wanted_->fits) {
      for (const std::uint32_t kept_for : {kKeptLong, kKeptShortly, 0U}) sweep(0, kept_for, Candidates::kShort);
    }
    // If large buffers crowd, contents recomputed early for another one are in the way: they are recomputed twice.
    if (takes_longer_than(kNearlyFast)) {
      for (const std::uint32_t kept_for : {kKeptForTheNext, 0U}) sweep(0, kept_for);
    }
    refine();
    if (takes_longer_than(kSlow)) try_segments();
    if (effort_ == PlanEffort::kFull) {
      std::ranges::stable_sort(promising_, {}, &Promising::predicted_ns);
      for (std::size_t i = 0; i < std::min(promising_.size(), kPlannedFully); ++i) {
        keep_if_faster(promising_[i].rewriting, effort_);
      }
    }
  }

  // Whether the best plan takes longer than its operations by this factor.
  bool takes_longer_than(double factor) const {
    return !wanted_->fits || wanted_->predicted_ns >= factor * operations_ns_;
  }
  // The time of an iteration's operations alone.
  static double nanoseconds_of(const Profile& profile) {
    const std::vector<std::uint64_t>& ns = profile.nanoseconds;
    return static_cast<double>(std::accumulate(ns.begin(), ns.end(), std::uint64_t{0}));
  }

  // In chains, where each content is made from the one before it, lists drop too many in a row. Segments do not.
  void try_segments() {
    for (const Schedule& schedule : SqrtSchedules().schedules(profile_, lineage_, limit_)) {
      // The plan is carried out with kept inputs, which these schedules do not count.
      if (!lineage_.keeps_inputs || schedule.recomputations.empty()) attempt(schedule);
    }
  }

  ScheduleFit attempt(const Schedule& schedule) {
    const RewritingTerms terms{mapping_, schedule.kept_for, schedule.recomputations};
    const auto rewriting = rewritten(schedule.drops, terms, kRepairs);
    if (rewriting == nullptr) return ScheduleFit::kImpossible;
    return plan(rewriting) < kNever ? ScheduleFit::kFits : ScheduleFit::kTooLarge;
  }

  // One length that has been tried.
  struct Promising {
    double predicted_ns;
    std::shared_ptr<const Rewriting> rewriting;
  };
  struct List {
    std::vector<Drop> ranked;
    std::uint32_t kept_for;
  };

  bool has_few_places() const { return profile_.places() <= kFewPlaces; }
  PlanEffort effort_of_each() const { return has_few_places() ? PlanEffort::kMedium : PlanEffort::kQuick; }
  // The more has been dropped already, the less difference one drop makes.
  static std::size_t length_of(std::size_t i, std::size_t lengths, std::size_t all) {
    const double part = static_cast<double>(i) / static_cast<double>(lengths);
    return std::min(all, static_cast<std::size_t>(std::ceil(part * std::sqrt(part) * static_cast<double>(all))));
  }

  // False: there is no other list with these candidates than with plain ones.
  bool sweep(double ns_per_drop, std::uint32_t kept_for, Candidates which = Candidates::kAll) {
    Ranking ranking(profile_, lineage_, lasting_, limit_, ns_per_drop, kept_for, which);
    lists_.push_back({ranking.run(), kept_for});
    if (!no_drops_.has_value()) no_drops_ = ranking.why_none();
    const std::size_t lengths = has_few_places() ? kLengths : kLengthsOfMany;
    for (std::size_t i = 1; i <= lengths; ++i) {
      attempt(lists_.size() - 1, length_of(i, lengths, lists_.back().ranked.size()));
    }
    return ranking.has_special();
  }

  // Searches around the best length in decreasing steps.
  void refine() {
    if (!refined_) return;
    const std::size_t all = lists_[refined_->list].ranked.size();
    for (std::size_t step = all / kLengths, i = 0; step > 0 && i < kRefinements; step /= 2, ++i) {
      const std::size_t length = refined_->length;
      if (length > step) attempt(refined_->list, length - step);
      attempt(refined_->list, std::min(all, length + step));
    }
  }

  // The last drops of a list may free more than is needed, and others that come later in it may take less time.
  void exchange() {
    if (chosen_.rewriting == nullptr || chosen_.rewriting != without_copies_.rewriting) return;
    const List& list = lists_[chosen_.list];
    const auto middle = list.ranked.begin() + static_cast<std::ptrdiff_t>(chosen_.length);
    std::vector<Drop> in(list.ranked.begin(), middle), out(middle, list.ranked.end());
    std::size_t left = kMostExchanges;
    while (exchange_one(list.kept_for, &left, &in, &out)) {
    }
  }

  // Exchanges one drop, of those that take longest first, for one that takes less time, or for none. False: none fits and
  // makes the plan faster, or no more may be tried.
  bool exchange_one(std::uint32_t kept_for, std::size_t* left, std::vector<Drop>* in, std::vector<Drop>* out) {
    std::ranges::stable_sort(*in, std::ranges::greater(), [this](const Drop& drop) { return time_of(drop); });
    for (std::size_t i = 0; i < in->size(); ++i) {
      const Drop removed = (*in)[i];
      std::vector<Drop> tried = *in;
      tried.erase(tried.begin() + static_cast<std::ptrdiff_t>(i));
      if (fits_and_is_faster(tried, kept_for, left)) {
        *in = std::move(tried);
        return true;
      }
      tried.emplace_back();
      for (Drop& other : *out) {
        if (time_of(other) >= time_of(removed)) continue;
        tried.back() = other;
        if (!fits_and_is_faster(tried, kept_for, left)) continue;
        *in = std::move(tried);
        other = removed;
        return true;
      }
    }
    return false;
  }

  bool fits_and_is_faster(const std::vector<Drop>& drops, std::uint32_t kept_for, std::size_t* left) {
    if (*left == 0) return false;
    --*left;
    const auto rewriting = rewritten(drops, {mapping_, kept_for, {}, &lasting_});
    if (nanoseconds_of(rewriting->profile) >= kFaster * without_copies_.predicted_ns) return false;
    if (std::ranges::max(live_bytes_of(rewriting->profile)) > static_cast<double>(limit_)) return false;
    keep_if_faster(rewriting, effort_);
    return without_copies_.rewriting == rewriting;
  }

  // The time of the operation alone that makes the dropped content.
  std::uint64_t time_of(const Drop& drop) const {
    if (drop.version == kNoVersion) return 0;
    const std::uint32_t producer = lineage_.versions[drop.version].producer;
    return producer == LineageVersion::kBefore ? 0 : profile_.nanoseconds[producer];
  }

  void attempt(std::size_t list, std::size_t length) {
    if (length == 0 || !tried_.insert({list, length}).second) return;
    const auto begin = lists_[list].ranked.begin();
    const std::shared_ptr<const Rewriting> rewriting =
        rewritten({begin, begin + static_cast<std::ptrdiff_t>(length)},
                  {mapping_, lists_[list].kept_for, {}, &lasting_, most_recomputed_ns()});
    const double predicted_ns = plan(rewriting);
    if (without_copies_.rewriting == rewriting) chosen_ = Chosen{list, length, rewriting};
    if (predicted_ns < (refined_ ? refined_->predicted_ns : kNever)) refined_ = Tried{list, length, predicted_ns};
  }

  // keep_if_faster(), with the effort that can be spent on each of many plans.
  double plan(const std::shared_ptr<const Rewriting>& rewriting) {
    const double predicted_ns = keep_if_faster(rewriting, std::min(effort_, effort_of_each()));
    if (effort_ == PlanEffort::kFull && predicted_ns < kNever) promising_.push_back({predicted_ns, rewriting});
    return predicted_ns;
  }

  // Leaves out drops that cannot be recomputed without others. Null: too often, so that little is left of the list.
  std::shared_ptr<const Rewriting> rewritten(std::vector<Drop> drops, const RewritingTerms& terms,
                                             std::size_t most_repairs = SIZE_MAX) const {
    auto rewriting = std::make_shared<Rewriting>();
    std::vector<std::size_t> failed;
    while (!rewrite(profile_, lineage_, drops, terms, rewriting.get(), &failed)) {
      if (most_repairs-- == 0) return nullptr;
      for (std::size_t i = failed.size(); i-- > 0;) {
        drops.erase(drops.begin() + static_cast<std::ptrdiff_t>(failed[i]));
      }
    }
    return rewriting;
  }

  // A plan that takes longer is of no use.
  double useful_ns() const { return wanted_ == &best_ && best_.fits ? kFaster * best_.predicted_ns : kNever; }
  // The same for recomputing alone; but the fastest plan that drops something is named, though it is not used.
  double most_recomputed_ns() const { return std::max(useful_ns(), fastest_drops_ns_) - operations_ns_; }

  // The duration of the plan; infinite if it does not fit.
  double keep_if_faster(const std::shared_ptr<const Rewriting>& rewriting, PlanEffort effort) {
    const double useful_ns = this->useful_ns();
    ++tried_drops_;
    if (rewriting->is_too_slow) return kNever;
    if (const double least = nanoseconds_of(rewriting->profile); least >= useful_ns) {
      fastest_drops_ns_ = std::min(fastest_drops_ns_, least);
      return kNever;
    }
    Plan plan = plan_iteration(rewriting->profile, limit_, link_, effort, useful_ns);
    if (!plan.fits) return kNever;
    const double predicted_ns = plan.predicted_ns;
    fastest_drops_ns_ = std::min(fastest_drops_ns_, predicted_ns);
    if (plan.gaps.empty()) take(plan, rewriting);
    if (!plan.gaps.empty() && effort_ == PlanEffort::kQuick) return kNever;
    if (!best_.fits || predicted_ns < kFaster * best_.predicted_ns) {
      best_ = std::move(plan);
      best_.rewriting = rewriting;
    }
    return predicted_ns;
  }

  void take(const Plan& plan, const std::shared_ptr<const Rewriting>& rewriting) {
    if (!plan.fits || !plan.gaps.empty()) return;
    if (without_copies_.fits && plan.predicted_ns >= kFaster * without_copies_.predicted_ns) return;
    without_copies_ = plan;
    without_copies_.rewriting = rewriting;
  }

  const Profile& profile_;
  const Lineage& lineage_;
  const LastingContents lasting_;
  const Bytes limit_;
  const Link& link_;
  const Mapping mapping_;
  const PlanEffort effort_;
  const double operations_ns_;
  std::vector<List> lists_;
  std::optional<NoDrops> no_drops_;                      // if all lists are empty
  std::set<std::pair<std::size_t, std::size_t>> tried_;  // list, length
  struct Tried {
    std::size_t list, length;
    double predicted_ns;
  };
  std::optional<Tried> refined_;  // the best of these
  struct Chosen {
    std::size_t list = 0, length = 0;
    std::shared_ptr<const Rewriting> rewriting;
  };
  Chosen chosen_;  // without_copies_, if it is of a list
  std::vector<Promising> promising_;
  std::uint32_t tried_drops_ = 0;  // Plan
  double fastest_drops_ns_ = kNever;
  Plan best_;
  Plan without_copies_;          // the fastest without copies
  const Plan* wanted_ = &best_;  // the plan that was requested
};

}  // namespace

Plan plan_jointly(const Profile& profile, const Lineage& lineage, Bytes limit, const Link& link, Mapping mapping,
                  RecomputePlans plans, PlanEffort effort) {
  JointPlanner planner(profile, lineage, limit, link, mapping, effort);
  switch (plans) {
    case RecomputePlans::kRecomputeOnly:
      return planner.without_copies();
    case RecomputePlans::kRecomputeExchanged:
      return planner.exchanged();
    case RecomputePlans::kJoint:
      break;
  }
  return planner.best();
}

Plan plan_scheduled(const Profile& profile, const Lineage& lineage, Bytes limit, const Link& link, Mapping mapping,
                    const ScheduleSource& source) {
  return JointPlanner(profile, lineage, limit, link, mapping, PlanEffort::kQuick).as_scheduled(source);
}

}  // namespace thermocline
