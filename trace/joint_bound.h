// SPDX-License-Identifier: Apache-2.0
// A lower bound for the time of a steady step under a budget, if contents may be kept, swapped or recomputed.
//
// It holds for every schedule in which the step's operators run one at a time and in order, each with all its operands
// on the device. Any operator may run again, as a whole, whenever its inputs are there; buffers cross the link in
// pieces of any size. The step is cut at some operators, the *edges*, into slots of variable length. The unknowns are
// fractions of versions (trace/joint_step.h): on the device when a slot starts, copied to the host by then, fetched in
// a slot; and the fraction of an operator that runs again in a slot. docs/bound.md derives the rows. For every choice
// of edges the minimum is a valid bound.
#pragma once

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "trace/joint_step.h"
#include "trace/linear_programme.h"

namespace thermocline {

// The default number of slots. It falls with the number of operators, because the linear programme has variables for
// every version in every slot.
std::size_t joint_slots(const SteadyStep& step);

struct JointBound {
  bool is_feasible = true;  // if false, some operator finds no room
  double compute_ms = 0;
  // Empty: not feasible, or the program has several streams, which may overlap.
  std::optional<double> bound_ms;
};

// The linear programme for one choice of edges. `edges` ascend and begin with 0.
class JointProgramme {
 public:
  JointProgramme(const SteadyStep& step, const JointStep& joint, const DeviceRates& rates,
                 std::vector<std::uint32_t> edges);

  // In seconds. `budget` may change from call to call.
  double lower_bound(Bytes budget);

  std::size_t variables() const { return programme_.variables(); }
  std::size_t rows() const { return programme_.rows(); }

 private:
  struct Term {
    int variable;
    double weight;
  };
  using Terms = std::vector<Term>;
  // By (version or operator, slot).
  using Variables = std::map<std::pair<std::uint32_t, std::uint32_t>, int>;
  // Slots [first, end).
  struct Slots {
    std::uint32_t first;
    std::uint32_t end;
    friend auto operator<=>(const Slots&,
                            const Slots&) = default;  // NOLINT(modernize-use-nullptr): clang-tidy sees a 0
  };

  void add_variables();
  void add_presence();
  void add_gaps();
  void add_slots(const DeviceRates& rates);
  void add_slot(std::uint32_t slot, const Terms& in, const Terms& out, const Terms& again, const Terms& held,
                const DeviceRates& rates);
  // The variable for the fraction of version `v` that is on the device at some time in the slots; -1 if nothing limits
  // it.
  int part_present(std::uint32_t v, Slots gap, int depth);

  int at_most(const Terms& terms, double limit);
  void append(Terms* terms, const Variables& of, std::uint32_t key, std::uint32_t slot, double weight) const;
  void append_arrivals(Terms* terms, std::uint32_t v, Slots slots) const;
  bool append_again(Terms* terms, std::uint32_t v, Slots slots) const;
  void append_kept(Terms* terms, std::uint32_t v, std::uint32_t slot) const;
  std::uint32_t slot_of(std::uint32_t op) const;
  std::uint32_t end_of(std::uint32_t slot) const;
  double seconds_between(std::uint32_t begin, std::uint32_t end) const;

  const SteadyStep& step_;
  const JointStep& joint_;
  std::vector<std::uint32_t> edges_;
  std::vector<double> clock_;  // per operator: seconds before it; one more for the end of the step
  LinearProgramme programme_;
  Variables resident_, on_host_, fetched_, again_;
  std::map<std::pair<std::uint32_t, Slots>, int> parts_;
  std::vector<int> memory_rows_;      // per slot
  std::vector<double> edge_written_;  // GiB that the slot's edge operator writes to buffers that it does not read
};

// Bounds for one step under any budget.
class JointBounds {
 public:
  JointBounds(SteadyStep step, const DeviceRates& rates, std::optional<std::size_t> slots = {});

  JointBounds(const JointBounds&) = delete;
  JointBounds& operator=(const JointBounds&) = delete;

  JointBound under(Bytes budget);

 private:
  SteadyStep step_;
  JointStep joint_;
  Bytes least_budget_;
  std::optional<JointProgramme> programme_;  // empty: nothing to bound
};

// Divides the operators into `slots` groups, half of them of equal number, half of equal time. The edge of each group
// is its operator with the most live bytes.
std::vector<std::uint32_t> joint_edges(const SteadyStep& step, std::size_t slots);

}  // namespace thermocline
