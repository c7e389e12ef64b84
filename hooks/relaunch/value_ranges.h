// SPDX-License-Identifier: Apache-2.0
// The integers that a kernel's registers may hold in one launch: intervals, found by abstract interpretation of its PTX
// (Cousot and Cousot 1977). Unlike linear forms (symbolic.h) they also tell of registers that are written in several
// places, as nvcc's unrolled loops write their counters; but they do not tell apart one thread from another.
//
// What a branch depends on bounds what it compares, and so what was computed from that before. Values that grow in a loop
// are widened first, and then narrowed by the comparison that ends the loop.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "hooks/relaunch/interval.h"
#include "hooks/relaunch/ptx_accesses.h"
#include "hooks/relaunch/ptx_blocks.h"
#include "hooks/relaunch/uniform.h"

namespace thermocline {

class ValueRanges {
 public:
  // All must outlive it. `parameters`: the address of each parameter, read only here.
  ValueRanges(const PtxKernel& kernel, const PtxAccesses& accesses, const PtxBlocks& blocks, const LaunchShape& shape,
              void* const* parameters, UsedParameters* used = nullptr);

  // Whether no thread accesses memory through the word of the parameters below the address that the word holds.
  bool is_never_below(std::size_t word) const;

 private:
  struct State {
    std::vector<Interval> registers;
    // By register: the instruction that wrote it, if what that read has not been written since; or -1.
    std::vector<int> written_by;

    bool operator==(const State&) const = default;
  };
  // One path out of a block.
  struct Edge {
    std::size_t from = 0, to = 0;
    bool is_taken = false;
    std::optional<State> state;  // empty: no thread goes this way
  };

  void find_edges();
  // False: it does not end.
  bool grow(const State& entry);
  // States that follow from states that hold, hold, too, and may be narrower.
  void narrow(const State& entry);
  // Computes what leaves the block.
  void leave(std::size_t block);
  void merge(State* to, const State& from, bool widens) const;
  void step(std::size_t instruction, State* state) const;
  void write(int reg, const Interval& value, bool is_certain, State* state) const;
  Interval computed(const PtxInstruction& one, int reg, const State& state) const;
  Interval calculated(const PtxInstruction& one, const State& state) const;
  Interval of_parameter(const PtxInstruction& one, int reg) const;
  Interval of_special(std::string_view special) const;
  Interval of(const PtxOperand& operand, const State& state) const;
  // Takes into account that the predicate has this value; false: it never has.
  bool learn(int predicate, bool value, State* state) const;
  bool learn_from_comparison(const PtxInstruction& one, bool holds, State* state) const;
  // More is known of the register now: computes again what was computed from it. False: that cannot be.
  bool recompute(int reg, State* state) const;
  unsigned bytes_of(int reg) const { return kernel_.bits[index_of(reg)] / 8; }

  const PtxKernel& kernel_;
  const PtxAccesses& accesses_;
  const PtxBlocks& blocks_;
  LaunchShape shape_;
  void* const* parameters_;
  UsedParameters* used_;                   // gets those that are read; null: nobody asks
  std::vector<std::vector<int>> readers_;  // by register: the instructions that read it and write another one
  std::vector<Edge> edges_;
  std::vector<std::optional<State>> at_;  // at the beginning of each block; empty: not reached
  bool is_solved_ = false;                // false: nothing is known
};

}  // namespace thermocline
