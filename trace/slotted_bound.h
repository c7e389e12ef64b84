// SPDX-License-Identifier: Apache-2.0
// The slotted bound: no executor that may only swap runs the step faster, whatever it knows and in whatever order it
// copies. docs/bound.md derives it and lists what it assumes.
//
// The step, which repeats, is cut at some of its operators, the *edges*, into slots of variable length. At the edges
// memory has to fit, and what crosses the link in a slot has to fit into the slot's length. The unknowns are, for each
// buffer, how much of it is off the device at each edge, and how much of it has been copied out by then. The sum of the
// lengths is minimized. Any choice of edges gives a bound; SlotSearch looks for a good one.
#pragma once

#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "trace/linear_programme.h"
#include "trace/steady_step.h"

namespace thermocline {

// Properties of one step that do not depend on budget and edges.
struct SlotInput {
  SlotInput(const SteadyStep& s, const DeviceRates& r, Bytes smallest_to_leave);

  const SteadyStep& step;
  DeviceRates rates;
  Bytes smallest;             // smaller buffers are assumed to stay on the device
  std::vector<Bytes> bound;   // bound_bytes() of the step
  std::vector<Bytes> wanted;  // wanted_bytes() of the step
  std::vector<Bytes> used;    // per operator: bytes it uses of buffers that can be evicted
};

class SlottedBound {
 public:
  // `edges` ascend and begin with 0.
  SlottedBound(const SlotInput& input, std::vector<std::uint32_t> edges);

  // `budget` must not be below the largest of input.bound.
  double seconds(Bytes budget);

  // After seconds(): would the bound change without this edge? (If not, memory is not short at the edge, and
  // transferring a byte costs the same on both sides of it.)
  bool is_decisive(std::size_t edge) const;
  const std::vector<std::uint32_t>& edges() const { return edges_; }

 private:
  // Edges [first, end) at which a buffer is idle; indices from edges_.size() on are of the next step.
  struct Gap {
    int first;
    int end;
    bool operator<(const Gap& other) const { return std::tie(first, end) < std::tie(other.first, other.end); }
  };
  // The gaps of one version of a buffer's contents, which has to be copied out at most once. Buffers with the same
  // pattern are combined in the programme: any schedule of all of them together is also one for each.
  struct Pattern {
    int made_in;  // slot in which the version is written; kClean if the host has a copy anyway
    std::vector<Gap> gaps;
    double density;  // StepBuffer's
    bool operator<(const Pattern& other) const {
      return std::tie(made_in, gaps, density) < std::tie(other.made_in, other.gaps, other.density);
    }
  };
  static constexpr int kClean = -1;

  void add_slots(const SlotInput& input);
  void collect(const StepBuffer& buffer);
  void add_version(const StepBuffer& buffer, std::size_t uses, std::size_t begin, std::size_t end, bool is_clean);
  void count(Pattern pattern, Bytes bytes);
  void add_clean(const Pattern& pattern, double gib);
  void add_single(const Pattern& pattern, double gib);
  void add_several(const Pattern& pattern, double gib);
  int copied_until(const Pattern& pattern, int edge, int* next_edge, int copied, double gib);
  void at_least(int larger, int smaller);

  int slot_of(std::uint32_t op) const;
  std::size_t slot_at(int edge) const { return static_cast<std::size_t>(edge) % edges_.size(); }

  std::uint32_t operators_;
  std::vector<std::uint32_t> edges_;
  std::map<Pattern, Bytes> patterns_;
  LinearProgramme programme_;
  std::vector<int> inward_, outward_, memory_;  // rows per slot; memory at the edge that begins the slot
  std::vector<double> held_;                    // GiB at each edge, if nothing is evicted
};

struct SlotSearch {
  double seconds;
  std::vector<std::uint32_t> decisive;  // edges that determine the bound
};

// The best bound of several rounds. Each round keeps the edges that were decisive in the last one, refines the slots
// beside them, and adds an even grid of about `slots` edges, with a different offset each time so that nothing is
// missed. Ends after `idle_rounds` rounds without a gain. `first`: edges to begin with.
SlotSearch search_slots(const SlotInput& input, Bytes budget, std::size_t slots, int idle_rounds,
                        std::vector<std::uint32_t> first = {});

}  // namespace thermocline
