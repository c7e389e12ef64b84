// SPDX-License-Identifier: Apache-2.0
#include "trace/checkmate.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace thermocline {
namespace {

constexpr double kMib = static_cast<double>(kMiB);
constexpr double kMillisecond = 1e-3;

}  // namespace

CheckmateProgramme::CheckmateProgramme(const CheckmateGraph& graph)
    : graph_(graph),
      variables_(graph.values.size() * graph.stages(), Variables{-1, -1, -1}),
      again_(std::size_t{graph.groups()} * graph.stages(), -1) {
  add_variables();
  for (std::uint32_t v = 0; v < graph.values.size(); ++v) {
    for (std::uint32_t t = 0; t < graph.stages(); ++t) {
      if (matters(v, t)) add_presence(v, t);
    }
  }
  Terms kept_at_forward_end;
  for (std::uint32_t v = 0; v < graph.values.size(); ++v) {
    if (graph.stages() > 0 && matters(v, 0))
      kept_at_forward_end.push_back({of(v, 0).kept, graph.values[v].bytes_before_forward_end / kMib});
  }
  add_memory_row(kept_at_forward_end, graph.live_at_forward_end);
  for (std::uint32_t t = 0; t < graph.stages(); ++t) add_memory(t);
}

// A value matters up to its last reader, or to the last stage in which something may be recomputed from it.
bool CheckmateProgramme::matters(std::uint32_t value, std::uint32_t stage) const {
  return stage <= graph_.values[value].last_stage();
}

CheckmateProgramme::Variables& CheckmateProgramme::of(std::uint32_t value, std::uint32_t stage) {
  return variables_[std::size_t{value} * graph_.stages() + stage];
}

int& CheckmateProgramme::again(std::uint32_t group, std::uint32_t stage) {
  return again_[std::size_t{group} * graph_.stages() + stage];
}

int CheckmateProgramme::at_most(const Terms& terms, double limit) {
  const int row = programme_.add_row(-kUnlimited, limit);
  for (const Term& term : terms) programme_.add_term(row, term.variable, term.weight);
  return row;
}

void CheckmateProgramme::add_memory_row(const Terms& terms, double live_bytes) {
  memory_.push_back({at_most(terms, 0), live_bytes / kMib});
}

void CheckmateProgramme::add_variables() {
  std::vector<std::uint32_t> until(graph_.groups());  // by group: the last stage that reads anything it makes
  for (const CheckmateGraph::Value& value : graph_.values)
    until[value.group] = std::max(until[value.group], value.last_stage());
  for (std::uint32_t i = 0; i < graph_.groups(); ++i) {
    for (std::uint32_t t = 0; t < graph_.stages() && t <= until[i]; ++t)
      again(i, t) = programme_.add_variable(0, 1, graph_.seconds[i] / kMillisecond);
  }
  for (std::uint32_t v = 0; v < graph_.values.size(); ++v) {
    for (std::uint32_t t = 0; t < graph_.stages() && matters(v, t); ++t) {
      of(v, t) = {programme_.add_variable(0, 1), programme_.add_variable(0, 1), -1};
      if (graph_.values[v].crosses) of(v, t).passing = programme_.add_variable(0, 1);
    }
  }
}

// Adds the rows for how a value is made, and how long it has to stay.
void CheckmateProgramme::add_presence(std::uint32_t value, std::uint32_t stage) {
  const CheckmateGraph::Value& v = graph_.values[value];
  const Variables here = of(value, stage);
  const int makes = again(v.group, stage);
  const bool is_read = std::ranges::binary_search(v.stages, stage);
  if (is_read) {
    at_most({{makes, -1}, {here.kept, -1}}, -1);
    at_most({{here.made, -1}, {here.kept, -1}}, -1);
  }
  if (stage + 1 < graph_.stages() && matters(value, stage + 1)) {
    const int next = of(value, stage + 1).kept;
    // Values inside a group are made for their readers only. Without this, the relaxation makes a little of everything
    // in every stage at no cost, and rounding has nothing to go by.
    if (v.crosses || is_read) {
      at_most({{next, 1}, {makes, -1}, {here.kept, -1}}, 0);
      at_most({{next, 1}, {here.made, -1}, {here.kept, -1}}, 0);
    } else {
      at_most({{next, 1}, {here.kept, -1}}, 0);
    }
  }
  for (const std::uint32_t reader : v.groups) {
    const int reads = again(reader, stage);
    if (reads < 0) continue;
    at_most({{reads, 1}, {makes, -1}, {here.kept, -1}}, 0);
    at_most({{reads, 1}, {here.passing, -1}, {here.made, -1}, {here.kept, -1}}, 0);
  }
}

// Adds the memory used while each group runs again, and while the stage itself runs.
void CheckmateProgramme::add_memory(std::uint32_t stage) {
  Terms held, all;
  for (std::uint32_t v = 0; v < graph_.values.size(); ++v) {
    if (!matters(v, stage)) continue;
    held.push_back({of(v, stage).kept, graph_.values[v].bytes / kMib});
    all.push_back(held.back());
    all.push_back({of(v, stage).made, graph_.values[v].bytes / kMib});
  }
  add_memory_row(all, graph_.live_at_most[stage]);
  for (std::uint32_t i = 0; i < graph_.groups(); ++i) {
    if (again(i, stage) < 0) continue;
    Terms terms = held;
    terms.push_back({again(i, stage), graph_.transient[i] / kMib});
    for (std::uint32_t v = 0; v < graph_.values.size(); ++v) {
      const CheckmateGraph::Value& value = graph_.values[v];
      if (value.group > i || !matters(v, stage)) continue;
      terms.push_back({of(v, stage).made, value.bytes / kMib});
      if (value.crosses && !value.groups.empty() && value.groups.back() >= i)
        terms.push_back({of(v, stage).passing, value.bytes / kMib});
    }
    add_memory_row(terms, graph_.live_at_begin[stage]);
  }
}

double CheckmateProgramme::solve(double limit_bytes) {
  constexpr int kMostIterations = 100'000;
  for (const MemoryRow& one : memory_) programme_.set_row(one.row, -kUnlimited, limit_bytes / kMib - one.live_bytes);
  return programme_.lower_bound(kMostIterations, LinearProgramme::First::kPresolved) * kMillisecond;
}

double CheckmateProgramme::kept(std::uint32_t value, std::uint32_t stage) const {
  const int variable = variables_[std::size_t{value} * graph_.stages() + stage].kept;
  return variable < 0 ? 0 : programme_.value(variable);
}

namespace {

constexpr std::uint32_t kMostGroups = 40;

// The values of one programme as a schedule.
class Scheduler {
 public:
  Scheduler(const CheckmateGraph& graph, const Lineage& lineage, Schedule* out)
      : graph_(graph), lineage_(lineage), out_(*out), uses_(lineage.buffers.size()) {
    for (std::uint32_t q = graph.pass.forward_end + 1; q < lineage.places(); ++q) {
      for (const std::uint32_t b : lineage.operand_buffers(q)) uses_[b].push_back(q);
    }
  }

  void add(const CheckmateGraph::Value& value, const std::vector<bool>& kept) {
    if (kept.empty()) return;
    if (!kept[0]) out_.drops.insert(out_.drops.end(), value.drops.begin(), value.drops.end());
    for (std::uint32_t t = 0; t <= value.last_stage(); ++t) {
      const bool is_read = std::ranges::binary_search(value.stages, t);
      const bool stays = t < value.last_stage() && kept[t + 1];
      if (!kept[t] && (is_read || stays)) recompute(value, t);
      if (t < value.last_stage() && !stays && (kept[t] || is_read)) leave(value, t);
    }
  }

 private:
  void recompute(const CheckmateGraph::Value& value, std::uint32_t stage) {
    for (const Drop& drop : value.drops) {
      const auto place = graph_.begins[stage];
      if (lineage_.is_current_at(drop.version, place) && place <= last_use(drop.buffer))
        out_.recomputations.push_back({.place = place, .buffer = drop.buffer, .version = drop.version});
    }
  }
  // Drops the contents again after their last uses in the stage, or after its first operator.
  void leave(const CheckmateGraph::Value& value, std::uint32_t stage) {
    for (const Drop& drop : value.drops) {
      const auto after = std::ranges::lower_bound(uses_[drop.buffer], graph_.begins[stage + 1]);
      Drop again = drop;
      again.last_use = graph_.begins[stage];
      if (after != uses_[drop.buffer].begin()) again.last_use = std::max(again.last_use, *std::prev(after));
      if (after == uses_[drop.buffer].end() || !lineage_.is_current_at(drop.version, again.last_use + 1)) continue;
      again.next_use = *after;
      out_.drops.push_back(again);
    }
  }
  std::uint32_t last_use(std::uint32_t buffer) const { return uses_[buffer].empty() ? 0 : uses_[buffer].back(); }

  const CheckmateGraph& graph_;
  const Lineage& lineage_;
  Schedule& out_;
  std::vector<std::vector<std::uint32_t>> uses_;  // by buffer of the lineage: places of the backward pass
};

}  // namespace

Schedule checkmate_schedule(const CheckmateGraph& graph, const Lineage& lineage,
                            const std::vector<std::vector<bool>>& kept) {
  Schedule schedule;
  Scheduler scheduler(graph, lineage, &schedule);
  for (std::size_t v = 0; v < graph.values.size(); ++v) scheduler.add(graph.values[v], kept[v]);
  std::ranges::stable_sort(schedule.recomputations, {}, &Recomputation::place);
  return schedule;
}

std::vector<Schedule> CheckmateSchedules::schedules(const Profile& profile, const Lineage& lineage, Bytes limit) const {
  const CheckmateGraph graph(profile, lineage, kMostGroups);
  std::vector<Schedule> all;
  if (graph.stages() == 0) return all;
  std::vector<std::vector<std::vector<bool>>> tried;
  // Rounding needs room: as in the paper, the programme gets less memory than there is.
  for (const double part : {1.0, 0.95, 0.9, 0.85, 0.8, 0.7, 0.6}) {
    // A new programme each time: continuing from the last solution takes longer if the limits differ much.
    CheckmateProgramme programme(graph);
    programme.solve(part * static_cast<double>(limit));
    if (!programme.is_solved()) continue;
    for (const double threshold : {0.25, 0.4, 0.55, 0.7, 0.9}) {
      std::vector<std::vector<bool>> kept(graph.values.size());
      for (std::uint32_t v = 0; v < graph.values.size(); ++v) {
        for (std::uint32_t t = 0; t < graph.stages(); ++t) kept[v].push_back(programme.kept(v, t) >= threshold);
      }
      if (std::ranges::find(tried, kept) != tried.end()) continue;
      all.push_back(checkmate_schedule(graph, lineage, kept));
      tried.push_back(std::move(kept));
    }
  }
  return all;
}

std::string CheckmateSchedules::why_none(const Profile& profile, const Lineage& lineage) const {
  constexpr std::size_t kMostPlaces = 60'000;
  if (profile.places() > kMostPlaces)
    return "checkmate: the step has " + std::to_string(profile.places()) + " operators; it plans up to " +
           std::to_string(kMostPlaces) + "; sqrt and checkpoint-all plan any number";
  if (CheckmateGraph(profile, lineage, kMostGroups).values.empty())
    return "checkmate: the backward pass reads nothing again that the forward pass makes";
  return "";
}

}  // namespace thermocline
