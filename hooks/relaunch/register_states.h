// SPDX-License-Identifier: Apache-2.0
// What holds of a kernel's registers on every path to an instruction.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "hooks/relaunch/ptx_blocks.h"
#include "hooks/relaunch/symbolic.h"

namespace thermocline {

// Each bit says that something holds for certain.
struct RegisterState {
  std::vector<bool> is_written;
  // The register holds its symbolic value, with the numbers of times that loops have come around by now. One that was
  // computed before a loop came around does not.
  std::vector<bool> is_current;
  // Of counters, by register: so many times around its loop it was added to.
  std::vector<bool> is_in_step;
  std::uint64_t fresh = ~std::uint64_t{0};  // a bit for each loop: it has not come around since it was begun

  // Keeps what holds in both; whether that is less.
  bool meet(const RegisterState& other);
};

class RegisterStates {
 public:
  RegisterStates(const PtxKernel& kernel, const Symbolic& symbolic, const PtxBlocks& blocks);

  // visit(instruction, state): of each that is reached, before it.
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
  // The values that are made of how often the loop has come around are of the past.
  void outdate(int loop, RegisterState* state) const;
  bool reads_current(const PtxInstruction& one, const RegisterState& state) const;

  const PtxKernel& kernel_;
  const Symbolic& symbolic_;
  const PtxBlocks& blocks_;
  std::vector<std::optional<RegisterState>> at_;
};

}  // namespace thermocline
