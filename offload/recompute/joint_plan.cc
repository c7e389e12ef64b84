// SPDX-License-Identifier: Apache-2.0
#include "offload/recompute/joint_plan.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

#include "offload/recompute/drop_ranking.h"
#include "offload/recompute/forward_pass.h"
#include "offload/recompute/lasting_contents.h"
#include "offload/recompute/segment_schedules.h"

namespace thermocline {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
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
    for (const Promising& one : promising_) keep_if_faster(one.rewriting, effort_);
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
    RankedDrops ranked = rank_drops(profile_, lineage_, lasting_, {limit_, ns_per_drop, kept_for, which});
    lists_.push_back({std::move(ranked.drops), kept_for});
    if (!no_drops_.has_value()) no_drops_ = ranked.why_none;
    const std::size_t lengths = has_few_places() ? kLengths : kLengthsOfMany;
    for (std::size_t i = 1; i <= lengths; ++i) {
      attempt(lists_.size() - 1, length_of(i, lengths, lists_.back().ranked.size()));
    }
    return ranked.has_special;
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

  // The last drops of a list may free more than is needed, and others that come later in it may take less time. Those that
  // take longest are exchanged first.
  void exchange() {
    if (chosen_.rewriting == nullptr || chosen_.rewriting != without_copies_.rewriting) return;
    const List& list = lists_[chosen_.list];
    const auto middle = list.ranked.begin() + static_cast<std::ptrdiff_t>(chosen_.length);
    std::vector<Drop> in(list.ranked.begin(), middle), out(middle, list.ranked.end());
    std::ranges::stable_sort(in, std::ranges::greater(), [this](const Drop& drop) { return time_of(drop); });
    std::size_t left = kMostExchanges;
    for (std::size_t i = 0; i < in.size() && left > 0;) {
      if (!exchange_one(i, list.kept_for, &left, &in, &out)) ++i;
    }
  }

  // Exchanges in[i] for one that takes less time, or for none. False: none fits and makes the plan faster.
  bool exchange_one(std::size_t i, std::uint32_t kept_for, std::size_t* left, std::vector<Drop>* in,
                    std::vector<Drop>* out) {
    const Drop removed = (*in)[i];
    std::vector<Drop> tried = *in;
    tried.erase(tried.begin() + static_cast<std::ptrdiff_t>(i));
    Excess excess;
    if (fits_and_is_faster(tried, kept_for, left, &excess)) {
      *in = std::move(tried);
      return true;
    }
    if (excess.bytes == 0) return false;
    for (Drop& other : *out) {
      if (time_of(other) >= time_of(removed) || !frees(other, excess)) continue;
      tried = *in;
      tried[i] = other;
      if (!fits_and_is_faster(tried, kept_for, left, nullptr)) continue;
      *in = std::move(tried);
      other = removed;
      return true;
    }
    return false;
  }

  // Where an iteration lacks most memory; 0 bytes: nowhere, or it is not known.
  struct Excess {
    std::uint32_t place = 0;  // of the program's operations
    double bytes = 0;
  };
  Excess excess_of(const Rewriting& rewriting) const {
    const std::vector<double> live = live_bytes_of(rewriting.profile);
    const auto most = std::ranges::max_element(live);
    const auto at = static_cast<std::uint32_t>(most - live.begin());
    const auto place = std::ranges::lower_bound(rewriting.place_of, at);
    return {static_cast<std::uint32_t>(place - rewriting.place_of.begin()),
            std::max(0.0, *most - static_cast<double>(limit_))};
  }
  bool frees(const Drop& drop, const Excess& excess) const {
    const Bytes bytes = profile_.buffers[lineage_.buffers[drop.buffer].name].bytes;
    return static_cast<double>(bytes) >= excess.bytes && drop.covers(excess.place);
  }

  // `excess`: set if the drops are not enough.
  bool fits_and_is_faster(const std::vector<Drop>& drops, std::uint32_t kept_for, std::size_t* left, Excess* excess) {
    if (*left == 0) return false;
    --*left;
    const double useful_ns = kFaster * without_copies_.predicted_ns;
    const auto rewriting = rewritten(drops, {mapping_, kept_for, {}, &lasting_, useful_ns - operations_ns_});
    if (rewriting->is_too_slow || nanoseconds_of(rewriting->profile) >= useful_ns) return false;
    if (const Excess found = excess_of(*rewriting); found.bytes > 0) {
      if (excess != nullptr) *excess = found;
      return false;
    }
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
    if (effort_ == PlanEffort::kFull && predicted_ns < kNever) {
      const auto slower = std::ranges::upper_bound(promising_, predicted_ns, {}, &Promising::predicted_ns);
      promising_.insert(slower, {predicted_ns, rewriting});
      if (promising_.size() > kPlannedFully) promising_.pop_back();
    }
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
  Chosen chosen_;                     // without_copies_, if it is of a list
  std::vector<Promising> promising_;  // the fastest kPlannedFully, fastest first
  std::uint32_t tried_drops_ = 0;     // Plan
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
