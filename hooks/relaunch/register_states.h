// SPDX-License-Identifier: Apache-2.0
// Properties of a kernel's registers that hold on every path to an instruction.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "hooks/relaunch/ptx_blocks.h"
#include "hooks/relaunch/symbolic.h"

namespace thermocline {

// A set bit means that the property certainly holds.
struct RegisterState {
  std::vector<bool> is_written;
  // The register equals its symbolic value for the current iteration numbers of all loops. A register that was computed
  // in an earlier iteration of a loop does not.
  std::vector<bool> is_current;
  // By register, for loop counters: the counter was added to exactly once in each iteration of its loop so far.
  std::vector<bool> is_in_step;
  std::uint64_t fresh = ~std::uint64_t{0};  // a bit for each loop that is in its first iteration

  // Keeps what holds in both; returns whether that is less.
  bool meet(const RegisterState& other);
};

class RegisterStates {
 public:
  RegisterStates(const PtxKernel& kernel, const Symbolic& symbolic, const PtxBlocks& blocks);

  // Calls visit(instruction, state) for each reachable instruction, with the state before it.
  template <class Visit>
  void for_each(Visit visit) const {
    for (std::size_t block = 0; block < blocks_.size(); ++block) {
      if (!at_[block].has_value()) continue;
      RegisterState state = *at_[block];
      for (std::size_t i = blocks_.begin_of(block); i < blocks_.end_of(block); ++i) {
        visit(i, state);
        step(i, &state);
      }
    }
  }

 private:
  void step(std::size_t instruction, RegisterState* state) const;
  // A new iteration of the loop: registers computed from its iteration number are not current any more.
  void outdate(int loop, RegisterState* state) const;
  bool reads_current(const PtxInstruction& one, const RegisterState& state) const;

  const PtxKernel& kernel_;
  const Symbolic& symbolic_;
  const PtxBlocks& blocks_;
  std::vector<std::optional<RegisterState>> at_;
};

}  // namespace thermocline
