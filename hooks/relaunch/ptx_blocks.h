// SPDX-License-Identifier: Apache-2.0
// The basic blocks of a kernel, and data flow along its paths.
#pragma once

#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "hooks/relaunch/ptx_kernel.h"

namespace thermocline {

class PtxBlocks {
 public:
  explicit PtxBlocks(const PtxKernel& kernel);

  // The block of the instruction; size() for the end of the kernel.
  std::size_t block_of(std::size_t instruction) const { return block_of_[instruction]; }
  std::size_t begin_of(std::size_t block) const { return begins_[block]; }
  std::size_t end_of(std::size_t block) const { return begins_[block + 1]; }
  std::size_t size() const { return begins_.size() - 1; }

 private:
  std::vector<std::size_t> begins_, block_of_;
};

// The registers that the instruction reads, its guard among them.
template <class Visit>
void for_each_read(const PtxInstruction& one, Visit visit) {
  if (one.guard >= 0) visit(one.guard);
  for (std::size_t i = one.writes_first_operand() ? 1 : 0; i < one.operands.size(); ++i) {
    if (one.operands[i].reg >= 0 && !(i == 1 && one.also_writes() >= 0)) visit(one.operands[i].reg);
    for (const PtxOperand& part : one.operands[i].parts) {
      if (part.reg >= 0) visit(part.reg);
    }
  }
}

inline bool ends_kernel(const PtxInstruction& one) { return one.root == "ret" || one.root == "exit"; }

// Finds what holds on all paths at the beginning of each block, and at the end of the kernel; empty: not reached. Calls
// `step(instruction, state)` for each instruction, and `edge(instruction, is_taken, state)` for each path that leaves a
// block. State::meet() keeps what holds in both states, and returns whether that is less.
template <class State, class Step, class Edge>
std::vector<std::optional<State>> holds_on_all_paths(const PtxKernel& kernel, const PtxBlocks& blocks, State entry,
                                                     Step step, Edge edge) {
  std::vector<std::optional<State>> at(blocks.size() + 1);
  at[0] = std::move(entry);
  std::vector<std::size_t> due{0};
  while (!due.empty()) {
    const std::size_t block = due.back();
    due.pop_back();
    if (block == blocks.size()) continue;
    State state = *at[block];
    for (std::size_t i = blocks.begin_of(block); i < blocks.end_of(block); ++i) step(i, &state);
    const std::size_t last = blocks.end_of(block) - 1;
    const PtxInstruction& one = kernel.instructions[last];
    const auto go = [&](std::size_t to, bool is_taken) {
      State there = state;
      edge(last, is_taken, &there);
      if (!at[to].has_value()) {
        at[to] = std::move(there);
      } else if (!at[to]->meet(there)) {
        return;
      }
      due.push_back(to);
    };
    const bool jumps = one.root == "bra" || ends_kernel(one);
    if (jumps) go(one.root == "bra" ? blocks.block_of(static_cast<std::size_t>(one.target)) : blocks.size(), true);
    if (!jumps || one.guard >= 0) go(block + 1, false);
  }
  return at;
}

}  // namespace thermocline
