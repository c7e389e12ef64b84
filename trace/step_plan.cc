// SPDX-License-Identifier: Apache-2.0
#include "trace/step_plan.h"

#include <algorithm>
#include <numeric>

#include "offload/recompute/joint_plan.h"
#include "trace/step_profile.h"

namespace thermocline {
namespace {

constexpr double kNsPerMs = 1e6;

Plan planned(const StepProfile& step, Bytes budget, const Link& link, StepPlanKind kind, PlanEffort effort,
             const ScheduleSource* schedules) {
  if (schedules != nullptr)
    return plan_scheduled(step.profile, step.lineage, budget, link, Mapping::kForGood, *schedules);
  const auto jointly = [&](RecomputePlans plans, PlanEffort of_copies) {
    return plan_jointly(step.profile, step.lineage, budget, link, Mapping::kForGood, plans, of_copies);
  };
  switch (kind) {
    case StepPlanKind::kJoint:
      return jointly(RecomputePlans::kJoint, effort);
    case StepPlanKind::kRecompute:
      return jointly(RecomputePlans::kRecomputeExchanged, PlanEffort::kQuick);
    case StepPlanKind::kOffload:
      break;
  }
  return plan_iteration(step.profile, budget, link);
}

// Turns a plan, whose places may be those of a rewritten step, into one in the places of the recorded step.
class Translation {
 public:
  Translation(const StepProfile& step, const StepTerms& terms, const Plan& plan, StepPlan* out)
      : step_(step), terms_(terms), plan_(plan), out_(*out) {}

  void run() {
    if (plan_.rewriting) add_drops(*plan_.rewriting);
    for (const PlannedGap& gap : plan_.gaps) add_offload(gap);
    std::ranges::stable_sort(out_.offloads, {}, &PlannedOffload::last_use);
    std::ranges::stable_sort(out_.moves, {}, &PlannedMove::last_use);
    out_.peak_bytes = peak();
  }

 private:
  const Profile& profile() const { return plan_.rewriting ? plan_.rewriting->profile : step_.profile; }

  void add_drops(const Rewriting& rewriting) {
    std::vector<std::uint32_t> open(step_.buffers.size(), PlannedDrop::kNotRecomputed);  // by name: its index in drops
    for (std::uint32_t q = 0; q < rewriting.drops.size(); ++q) {
      for (const std::uint32_t name : rewriting.recomputations[q]) {
        if (open[name] != PlannedDrop::kNotRecomputed) out_.drops[open[name]].next_use = q;
        open[name] = PlannedDrop::kNotRecomputed;
      }
      for (const std::uint32_t name : rewriting.drops[q]) {
        open[name] = static_cast<std::uint32_t>(out_.drops.size());
        out_.drops.push_back({.buffer = step_.buffers[name], .last_use = q});
      }
    }
    out_.reruns = rewriting.reruns;
    for (std::uint32_t q = 0; q < rewriting.runs_before.size(); ++q) {
      out_.rerun_before.insert(out_.rerun_before.end(), rewriting.runs_before[q], q);
    }
    out_.recomputed_ms = static_cast<double>(rewriting.recomputed_ns) / kNsPerMs;
  }

  void add_offload(const PlannedGap& gap) {
    const std::uint32_t name = plan_.rewriting ? plan_.rewriting->names[gap.buffer] : gap.buffer;
    if (name == kNoBuffer) return;
    const Bytes bytes = step_.profile.buffers[name].bytes;
    out_.offloaded_bytes += bytes;
    if (terms_.moves[step_.buffers[name]]) {
      out_.moves.push_back({.buffer = step_.buffers[name],
                            .last_use = gap.last_use,
                            .next_use = gap.next_use,
                            .fetch_after = gap.fetch_after,
                            .is_fetched = gap.is_fetched});
      return;
    }
    out_.offloads.push_back({.buffer = step_.buffers[name],
                             .last_use = original(gap.last_use),
                             .next_use = original(gap.next_use),
                             .fetch_after = original(gap.fetch_after),
                             .is_fetched = gap.is_fetched});
  }

  // The first operator of the recorded step that is not before the place.
  std::uint32_t original(std::uint32_t place) const {
    if (!plan_.rewriting) return place;
    const std::vector<std::uint32_t>& places = plan_.rewriting->place_of;
    const auto at = static_cast<std::uint32_t>(std::ranges::lower_bound(places, place) - places.begin());
    return std::min(at, static_cast<std::uint32_t>(places.size() - 1));
  }

  // The places of a gap are within one iteration: the one after the last place is 0.
  std::size_t behind_death(const PlannedGap& gap) const {
    return gap.next_use > gap.last_use ? gap.next_use : profile().places();
  }

  // An executor offloads whole buffers.
  Bytes peak() const {
    std::vector<std::int64_t> change(profile().places() + 1);
    const auto add = [&change](std::size_t from, std::size_t to, std::int64_t bytes) {
      change[from] += bytes;
      change[to] -= bytes;
    };
    for (const ProfiledBuffer& buffer : profile().buffers) {
      add(buffer.birth, buffer.death + std::size_t{1}, static_cast<std::int64_t>(buffer.bytes));
    }
    for (const PlannedGap& gap : plan_.gaps) {
      const auto bytes = static_cast<std::int64_t>(profile().buffers[gap.buffer].bytes);
      if (gap.is_fetched && gap.fetch_after < gap.last_use) {  // in the next step
        add(gap.last_use + std::size_t{1}, profile().places(), -bytes);
        add(0, gap.fetch_after + std::size_t{1}, -bytes);
      } else {
        add(gap.last_use + std::size_t{1}, gap.is_fetched ? gap.fetch_after + std::size_t{1} : behind_death(gap),
            -bytes);
      }
    }
    std::int64_t now = 0, most = 0;
    for (std::size_t q = 0; q < profile().places(); ++q) {
      now += change[q];
      most = std::max(most, now + static_cast<std::int64_t>(profile().unplanned_bytes[q]));
    }
    return static_cast<Bytes>(most);
  }

  const StepProfile& step_;
  const StepTerms& terms_;
  const Plan& plan_;
  StepPlan& out_;
};

Bytes largest(const std::vector<Bytes>& bytes) { return *std::ranges::max_element(bytes); }

}  // namespace

StepTerms StepTerms::free_for(const Trace& trace, std::size_t operators) {
  StepTerms terms;
  terms.held_until.assign(trace.buffers.size(), 0);
  terms.is_aside.assign(trace.buffers.size(), false);
  terms.is_result.assign(trace.buffers.size(), false);
  terms.moves.assign(trace.buffers.size(), false);
  terms.runs_once.assign(operators, false);
  return terms;
}

std::size_t last_step_operators(const Trace& trace) {
  if (trace.steps.empty()) return 0;
  const auto begin = trace.events.begin();
  return static_cast<std::size_t>(
      std::count_if(begin + static_cast<std::ptrdiff_t>(trace.steps.back().begin),
                    begin + static_cast<std::ptrdiff_t>(trace.steps.back().end),
                    [](const TraceEvent& event) { return event.kind == EventKind::kOperator; }));
}

StepPlan plan_step(const Trace& trace, const DeviceRates& rates, Bytes budget, const StepTerms& terms,
                   StepPlanKind kind, PlanEffort effort, const ScheduleSource* schedules) {
  const StepProfile step(trace, rates, terms);
  const std::vector<std::uint64_t>& ns = step.profile.nanoseconds;
  StepPlan out;
  out.whole_peak_bytes = out.peak_bytes = largest(step.live_bytes());
  out.compute_ms = static_cast<double>(std::accumulate(ns.begin(), ns.end(), std::uint64_t{0})) / kNsPerMs;
  out.step_ms = out.compute_ms;
  out.fits = out.whole_peak_bytes <= budget;
  if (out.fits) return out;
  const Link link{.out_bytes_per_ns = rates.link_to_host_bytes_per_second * 1e-9,
                  .in_bytes_per_ns = rates.link_to_device_bytes_per_second * 1e-9};
  const Plan plan = planned(step, budget, link, kind, effort, schedules);
  out.fits = plan.fits;
  if (!plan.fits) return out;
  out.step_ms = plan.predicted_ns / kNsPerMs;
  Translation(step, terms, plan, &out).run();
  out.fits = out.peak_bytes <= budget;
  return out;
}

std::string why_no_schedules(const Trace& trace, const DeviceRates& rates, const StepTerms& terms,
                             const ScheduleSource& schedules) {
  const StepProfile step(trace, rates, terms);
  return schedules.why_none(step.profile, step.lineage);
}

LeastMemory least_memory(const Trace& trace, const StepTerms& terms) {
  const StepProfile step(trace, DeviceRates{1, 1, 1, 1, 0}, terms);
  const std::size_t places = step.profile.places();
  std::vector<std::int64_t> change(places + 1);
  std::vector<Bytes> needed = step.profile.unplanned_bytes;
  for (const ProfiledBuffer& buffer : step.profile.buffers) {
    const std::uint32_t end = std::min(buffer.held_until, buffer.death);
    if (buffer.held_until > 0 && buffer.birth <= end) {
      change[buffer.birth] += static_cast<std::int64_t>(buffer.bytes);
      change[end + std::size_t{1}] -= static_cast<std::int64_t>(buffer.bytes);
    }
    for (const std::uint32_t use : buffer.uses) {
      if (buffer.held_until == 0 || use > end) needed[use] += buffer.bytes;
    }
  }
  LeastMemory least;
  std::int64_t held = 0;
  for (std::uint32_t q = 0; q < places; ++q) {
    held += change[q];
    const Bytes bytes = needed[q] + static_cast<Bytes>(held);
    if (bytes > least.bytes) least = {bytes, q};
  }
  return least;
}

}  // namespace thermocline
