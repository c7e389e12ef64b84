// SPDX-License-Identifier: Apache-2.0
#include "trace/joint_bound.h"

#include <algorithm>

namespace thermocline {
namespace {

constexpr double kGib = static_cast<double>(kGiB);
constexpr double kMillisecond = 1e-3;  // the unit of time in the linear programme
// As in the slotted bound: smaller buffers need no room and are always on the device.
constexpr Bytes kSmallest = kMiB;
constexpr int kMostIterations = 1'000'000;
// How many levels of inputs of inputs the rows follow. A smaller number only leaves rows out, so the bound stays valid.
constexpr int kDepth = 4;
constexpr double kLongest = 1e4;  // longest slot, in durations of the step without recomputation

double to_gib(Bytes bytes) { return static_cast<double>(bytes) / kGib; }

std::vector<Bytes> live_bytes(const SteadyStep& step) {
  ByteProfile profile(step.window_operators);
  for (const StepBuffer& buffer : step.buffers) profile.add(buffer.begin, buffer.end, buffer.bytes);
  std::vector<Bytes> live = profile.per_operator();
  live.resize(step.operators());
  return live;
}

}  // namespace

JointProgramme::JointProgramme(const SteadyStep& step, const JointStep& joint, const DeviceRates& rates,
                               std::vector<std::uint32_t> edges)
    : step_(step), joint_(joint), edges_(std::move(edges)), clock_{0} {
  for (const double seconds : step.seconds) clock_.push_back(clock_.back() + seconds);
  add_variables();
  add_presence();
  add_gaps();
  add_slots(rates);
}

std::uint32_t JointProgramme::slot_of(std::uint32_t op) const {
  return static_cast<std::uint32_t>(std::ranges::upper_bound(edges_, op) - edges_.begin()) - 1;
}

std::uint32_t JointProgramme::end_of(std::uint32_t slot) const {
  return slot + 1 < edges_.size() ? edges_[slot + 1] : step_.operators();
}

double JointProgramme::seconds_between(std::uint32_t begin, std::uint32_t end) const {
  return clock_[end] - clock_[begin];
}

int JointProgramme::at_most(const Terms& terms, double limit) {
  const int row = programme_.add_row(-kUnlimited, limit);
  for (const Term& term : terms) programme_.add_term(row, term.variable, term.weight);
  return row;
}

void JointProgramme::append(Terms* terms, const Variables& of, std::uint32_t key, std::uint32_t slot,
                            double weight) const {
  if (const auto found = of.find({key, slot}); found != of.end()) terms->push_back({found->second, weight});
}

// Subtracts everything that may bring bytes of a version to the device in these slots.
void JointProgramme::append_arrivals(Terms* terms, std::uint32_t v, Slots slots) const {
  for (std::uint32_t u = slots.first; u < slots.end; ++u) append(terms, fetched_, v, u, -1);
  append_again(terms, v, slots);
}

bool JointProgramme::append_again(Terms* terms, std::uint32_t v, Slots slots) const {
  const std::size_t before = terms->size();
  if (const int producer = joint_.versions[v].producer; producer >= 0) {
    for (std::uint32_t u = slots.first; u < slots.end; ++u)
      append(terms, again_, static_cast<std::uint32_t>(producer), u, -1);
  }
  return terms->size() > before;
}

// Subtracts the part of a version that is on the device or on the host when the slot starts.
void JointProgramme::append_kept(Terms* terms, std::uint32_t v, std::uint32_t slot) const {
  append(terms, resident_, v, slot, -1);
  append(terms, on_host_, v, slot, -1);
}

void JointProgramme::add_variables() {
  const auto slots = static_cast<std::uint32_t>(edges_.size());
  for (std::uint32_t t = 0; t < joint_.operators.size(); ++t) {
    const int until = joint_.wanted_until(t);
    for (std::uint32_t u = slot_of(t) + 1; u < slots && static_cast<int>(edges_[u]) <= until; ++u)
      again_[{t, u}] = programme_.add_variable(0, 1);
  }
  for (std::uint32_t v = 0; v < joint_.versions.size(); ++v) {
    const StepVersion& version = joint_.versions[v];
    for (std::uint32_t u = 0; u < slots; ++u) {
      const int edge = static_cast<int>(edges_[u]);
      if (version.producer >= edge || edge > version.wanted_until) continue;
      const bool is_read = std::ranges::binary_search(version.readers, edges_[u]);
      resident_[{v, u}] = programme_.add_variable(is_read ? 1 : 0, 1);
      const int fetched = fetched_[{v, u}] = programme_.add_variable(0, 1);
      if (version.producer == StepVersion::kBeforeStep) continue;  // has a copy on the host at no cost
      const int on_host = on_host_[{v, u}] = programme_.add_variable(0, 1);
      at_most({{fetched, 1}, {on_host, -1}}, 0);
    }
  }
}

// The rows "follow", "use" and "inputs" of docs/bound.md.
void JointProgramme::add_presence() {
  const auto slots = static_cast<std::uint32_t>(edges_.size());
  std::map<std::uint32_t, std::uint32_t> ancestor;  // of the version that a buffer has at the end of the step
  for (std::uint32_t v = 0; v < joint_.versions.size(); ++v) {
    if (joint_.versions[v].heir >= 0) ancestor[static_cast<std::uint32_t>(joint_.versions[v].heir)] = v;
  }
  for (const auto& [key, resident] : resident_) {
    const auto& [v, u] = key;
    Terms present{{resident, -1}};
    append_arrivals(&present, v, {u, u + 1});
    const auto& readers = joint_.versions[v].readers;
    const auto inside = std::ranges::upper_bound(readers, edges_[u]);
    if (inside != readers.end() && *inside < end_of(u)) at_most(present, -1);
    auto after = resident_.end();
    if (u + 1 < slots) {
      after = resident_.find({v, u + 1});
    } else if (const auto found = ancestor.find(v); found != ancestor.end()) {
      after = resident_.find({found->second, 0});
    }
    if (after == resident_.end()) continue;
    present.push_back({after->second, 1});
    at_most(present, 0);
  }
  for (const auto& [key, again] : again_) {
    const auto& [t, u] = key;
    for (const std::uint32_t input : joint_.operators[t].reads) {
      const auto resident = resident_.find({input, u});
      if (resident == resident_.end()) continue;
      Terms terms{{again, 1}, {resident->second, -1}};
      append_arrivals(&terms, input, {u, u + 1});
      at_most(terms, 0);
    }
  }
}

// Rows A and B: a version that is not on the device at an edge before a read has a copy on the host, or is recomputed
// before that read.
void JointProgramme::add_gaps() {
  for (const auto& [key, resident] : resident_) {
    const auto& [v, u] = key;
    const StepVersion& version = joint_.versions[v];
    const auto next = std::ranges::lower_bound(version.readers, edges_[u]);
    if (version.producer < 0 || next == version.readers.end() || *next == edges_[u]) continue;
    const std::uint32_t last = slot_of(*next);
    const Slots gap{u, edges_[last] == *next ? last : last + 1};
    Terms kept;
    append_kept(&kept, v, u);
    Terms terms = kept;
    const bool may_repeat = append_again(&terms, v, gap);
    at_most(terms, -1);
    if (!may_repeat) continue;
    for (const std::uint32_t input : joint_.operators[static_cast<std::size_t>(version.producer)].reads) {
      const int part = part_present(input, gap, kDepth);
      if (part < 0) continue;
      Terms by_input = kept;
      by_input.push_back({part, -1});
      at_most(by_input, -1);
    }
  }
}

int JointProgramme::part_present(std::uint32_t v, Slots gap, int depth) {
  const StepVersion& version = joint_.versions[v];
  const auto resident = resident_.find({v, gap.first});
  if (version.producer < 0 || resident == resident_.end() || depth == 0) return -1;
  if (const auto found = parts_.find({v, gap}); found != parts_.end()) return found->second;
  const int part = parts_[{v, gap}] = programme_.add_variable(0, 1);
  Terms arrives{{part, 1}, {resident->second, -1}};
  append_arrivals(&arrives, v, gap);
  at_most(arrives, 0);
  Terms kept{{part, 1}};
  append_kept(&kept, v, gap.first);
  Terms terms = kept;
  const bool may_repeat = append_again(&terms, v, gap);
  at_most(terms, 0);
  if (!may_repeat) return part;
  for (const std::uint32_t input : joint_.operators[static_cast<std::size_t>(version.producer)].reads) {
    const int deeper = part_present(input, gap, depth - 1);
    if (deeper < 0) continue;
    Terms by_input = kept;
    by_input.push_back({deeper, -1});
    at_most(by_input, 0);
  }
  return part;
}

void JointProgramme::add_slots(const DeviceRates& rates) {
  const std::size_t slots = edges_.size();
  std::vector<Terms> in(slots), out(slots), again(slots), held(slots);
  const auto gib = [&](std::uint32_t v) { return to_gib(joint_.versions[v].bytes); };
  for (const auto& [key, x] : resident_) held[key.second].push_back({x, gib(key.first)});
  for (const auto& [key, x] : fetched_) in[key.second].push_back({x, gib(key.first)});
  for (const auto& [key, x] : on_host_) {
    // The first edge after the producer is in slot 1 or later, because edges begin with 0.
    const auto [v, u] = key;
    out[u - 1].push_back({x, gib(v)});
    const auto before = on_host_.find({v, u - 1});
    if (before == on_host_.end()) continue;
    out[u - 1].push_back({before->second, -gib(v)});
    at_most({{before->second, 1}, {x, -1}}, 0);
  }
  for (const auto& [key, x] : again_) again[key.second].push_back({x, step_.seconds[key.first] / kMillisecond});
  for (std::uint32_t u = 0; u < slots; ++u) add_slot(u, in[u], out[u], again[u], held[u], rates);
}

// The rows "clock", "link" and "memory".
void JointProgramme::add_slot(std::uint32_t slot, const Terms& in, const Terms& out, const Terms& again,
                              const Terms& held, const DeviceRates& rates) {
  const double compute = seconds_between(edges_[slot], end_of(slot)) / kMillisecond;
  const int length = programme_.add_variable(compute, kLongest * (clock_.back() / kMillisecond + 1), 1);
  const auto within_length = [&](Terms terms, double per_length, double limit) {
    terms.push_back({length, -per_length});
    at_most(terms, limit);
  };
  within_length(again, 1, -compute);
  within_length(in, rates.link_to_device_bytes_per_second * kMillisecond / kGib, 0);
  within_length(out, rates.link_to_host_bytes_per_second * kMillisecond / kGib, 0);
  const StepOperator& edge = joint_.operators[edges_[slot]];
  double written = 0;
  for (const std::uint32_t w : edge.writes) {
    const bool in_place = std::ranges::any_of(
        edge.reads, [&](std::uint32_t v) { return joint_.versions[v].buffer == joint_.versions[w].buffer; });
    if (!in_place) written += to_gib(joint_.versions[w].bytes);
  }
  edge_written_.push_back(written);
  memory_rows_.push_back(at_most(held, 0));
}

double JointProgramme::lower_bound(Bytes budget) {
  for (std::size_t u = 0; u < edges_.size(); ++u)
    programme_.set_row(memory_rows_[u], -kUnlimited, to_gib(budget) - edge_written_[u]);
  return programme_.lower_bound(kMostIterations, LinearProgramme::First::kPresolved) * kMillisecond;
}

std::size_t joint_slots(const SteadyStep& step) {
  // Measured: a step of VGG-16 needs 20 (its bound under half of the memory is 6 % higher than with 16) and gains
  // nothing by 32; steps of a thousand operators gain nothing by more than 12, and take a minute with 16.
  constexpr std::size_t kOperatorsTimesSlots = 50'000, kShort = 400;
  const std::size_t most = step.operators() <= kShort ? 20 : 12;
  return std::clamp<std::size_t>(kOperatorsTimesSlots / std::max(step.operators(), 1U), 3, most);
}

std::vector<std::uint32_t> joint_edges(const SteadyStep& step, std::size_t slots) {
  const std::uint32_t n = step.operators();
  const double total = step.compute_seconds();
  const std::size_t by_time = slots / 2;
  const std::size_t by_order = slots - by_time;
  std::vector<std::uint32_t> groups{0};
  for (std::size_t i = 0; i < by_order; ++i) groups.push_back(static_cast<std::uint32_t>(i * n / by_order));
  double before = 0;
  std::size_t next = 0;
  for (std::uint32_t k = 0; k < n; before += step.seconds[k++]) {
    for (; next < by_time && before >= total * static_cast<double>(next) / static_cast<double>(by_time); ++next)
      groups.push_back(k);
  }
  std::ranges::sort(groups);
  groups.erase(std::unique(groups.begin(), groups.end()), groups.end());
  const std::vector<Bytes> live = live_bytes(step);
  std::vector<std::uint32_t> edges{0};
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const auto end = g + 1 < groups.size() ? groups[g + 1] : n;
    const auto largest = std::max_element(live.begin() + groups[g], live.begin() + end);
    edges.push_back(static_cast<std::uint32_t>(largest - live.begin()));
  }
  std::ranges::sort(edges);
  edges.erase(std::unique(edges.begin(), edges.end()), edges.end());
  return edges;
}

JointBounds::JointBounds(SteadyStep step, const DeviceRates& rates, std::optional<std::size_t> slots)
    : step_(std::move(step)), joint_(step_, kSmallest), least_budget_(0) {
  for (const Bytes bytes : bound_bytes(step_, 0)) least_budget_ = std::max(least_budget_, bytes);
  if (step_.operators() > 0 && step_.is_single_stream)
    programme_.emplace(step_, joint_, rates, joint_edges(step_, slots.value_or(joint_slots(step_))));
}

JointBound JointBounds::under(Bytes budget) {
  JointBound bound;
  bound.compute_ms = step_.busiest_stream * 1e3;
  bound.is_feasible = budget >= least_budget_;
  if (!bound.is_feasible || !step_.is_single_stream) return bound;
  bound.bound_ms = bound.compute_ms;
  if (programme_) bound.bound_ms = std::max(*bound.bound_ms, programme_->lower_bound(budget) / kMillisecond);
  return bound;
}

}  // namespace thermocline
