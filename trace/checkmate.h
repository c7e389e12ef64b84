// SPDX-License-Identifier: Apache-2.0
// Checkmate: which contents to keep until which part of the backward pass, by linear programming. Jain et al.,
// Checkmate: breaking the memory wall with optimal tensor rematerialization, 2020: the relaxation of its integer
// programme, and two-phase rounding: first the kept contents are rounded, then missing ones are recomputed.
//
// Its programme has a variable for each operator and each stage; a recorded step has too many of these. So operators
// are grouped: the forward pass at its narrow points, the backward pass where it begins to need another group. Each
// group has two values: one that the forward pass reads again, and one that only the backward pass reads. A stage is a
// group of the backward pass; nothing is recomputed in the forward pass.
#pragma once

#include <cstdint>
#include <vector>

#include "offload/recompute/forward_pass.h"
#include "offload/recompute/schedule.h"
#include "trace/linear_programme.h"

namespace thermocline {

// The step as the programme sees it.
struct CheckmateGraph {
  CheckmateGraph(const Profile& profile, const Lineage& lineage, std::uint32_t most_groups);

  struct Value {
    std::uint32_t group = 0;  // of the forward pass: the group that makes the value
    bool crosses = false;     // the forward pass reads it again
    double bytes = 0;
    double bytes_before_forward_end = 0;  // of the bytes: what may be evicted before the forward pass ends
    std::vector<Drop> drops{};            // its contents
    std::vector<std::uint32_t> groups{};  // groups of the forward pass that read it
    std::vector<std::uint32_t> stages{};  // stages that read it, ascending
    std::uint32_t last_stage() const { return stages.empty() ? 0 : stages.back(); }
  };
  ForwardPass pass;
  std::vector<std::uint32_t> ends;    // the last place of each group of the forward pass
  std::vector<std::uint32_t> begins;  // the first place of each stage; one more for the end of the iteration
  std::vector<Value> values;
  std::vector<double> seconds;        // by group: of its operators
  std::vector<double> transient;      // by group: bytes that it needs for itself
  std::vector<double> live_at_begin;  // by stage: bytes that belong to no value
  std::vector<double> live_at_most;   // the same, the largest in the stage
  double live_at_forward_end =
      0;  // the same at the end of the forward pass; bytes that must stay until then are counted here

  std::uint32_t stages() const { return static_cast<std::uint32_t>(begins.size() - 1); }
  std::uint32_t groups() const { return static_cast<std::uint32_t>(ends.size()); }
  std::uint32_t group_of(std::uint32_t place) const;
  std::uint32_t stage_of(std::uint32_t place) const;

 private:
  void find_groups(const Profile& profile, const Lineage& lineage, std::uint32_t most);
  void find_values(const Profile& profile, const Lineage& lineage);
  void find_memory(const Profile& profile, const Lineage& lineage);
};

// The relaxed programme. A solution says which fraction of each value is kept until each stage begins.
class CheckmateProgramme {
 public:
  explicit CheckmateProgramme(const CheckmateGraph& graph);

  // Seconds of recomputing that no plan of these groups can beat within the limit.
  double solve(double limit_bytes);
  // After solve(): whether there is a solution, and if so, a part from 0 to 1 of it.
  bool is_solved() const { return programme_.is_solved(); }
  double kept(std::uint32_t value, std::uint32_t stage) const;

  std::size_t variables() const { return programme_.variables(); }
  std::size_t rows() const { return programme_.rows(); }

 private:
  struct Term {
    int variable;
    double weight;
  };
  using Terms = std::vector<Term>;
  struct MemoryRow {
    int row;
    double live_bytes;
  };
  // For one value and stage: kept until the stage begins; made in it and needed until its end; made for another group.
  struct Variables {
    int kept, made, passing;
  };

  bool matters(std::uint32_t value, std::uint32_t stage) const;
  Variables& of(std::uint32_t value, std::uint32_t stage);
  int& again(std::uint32_t group, std::uint32_t stage);
  void add_variables();
  void add_presence(std::uint32_t value, std::uint32_t stage);
  void add_memory(std::uint32_t stage);
  void add_memory_row(const Terms& terms, double live_bytes);
  int at_most(const Terms& terms, double limit);

  const CheckmateGraph& graph_;
  LinearProgramme programme_;
  std::vector<Variables> variables_;  // by value and stage
  std::vector<int> again_;            // by group and stage; -1: never
  std::vector<MemoryRow> memory_;
};

// Turns kept contents (by value and stage) into drops and recomputations.
Schedule checkmate_schedule(const CheckmateGraph& graph, const Lineage& lineage,
                            const std::vector<std::vector<bool>>& kept);

class CheckmateSchedules : public ScheduleSource {
 public:
  std::vector<Schedule> schedules(const Profile& profile, const Lineage& lineage, Bytes limit) const override;
  std::string why_none(const Profile& profile, const Lineage& lineage) const override;
};

}  // namespace thermocline
