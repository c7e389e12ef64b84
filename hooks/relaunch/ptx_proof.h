// SPDX-License-Identifier: Apache-2.0
// Whether a kernel's results depend on nothing but what it reads through its parameters, proven from its PTX.
//
// Proven is this form: each thread computes one item after another, and stores each through a parameter to the place of
// the item's number, on every path. So no two threads write to one place, every byte up to the bound is written, and no
// thread reads what another one writes: what is also written is read at the thread's own item alone. The instructions
// are those of a list; they exchange nothing between threads, and read no clock, no shared or local memory, no
// variables of the module, and no register before it has been written.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "hooks/relaunch/ptx_accesses.h"
#include "hooks/relaunch/symbolic.h"

namespace thermocline {

class PtxProof {
 public:
  PtxProof(const PtxKernel& kernel, const PtxAccesses& accesses);

  // Why it is not proven; none: it is.
  const RerunRefusal& refused() const { return refused_; }

  struct Result {
    // For each word that is written: its bytes up to here are written, all of them. 0: none.
    std::vector<std::uint64_t> written_bytes;
  };
  // What is proven of one launch, whose other extents are 1. False: nothing is, for this launch.
  bool holds_for(const LaunchShape& shape, void* const* parameters, Result* out) const;

 private:
  struct Bound {
    PtxOperand what;
    bool is_wide = false, is_signed = false;
  };
  using Stored = std::uint64_t;  // a bit for each word, and kAtTheEnd

  void check_instructions();
  void check_definitions();
  void check_accesses();
  void check_paths();
  bool check_instruction(const PtxInstruction& one);
  bool reads_only(const PtxInstruction& one, const std::vector<bool>& written) const;
  // Which way the branch goes when the item is beyond a bound: 1 taken, 0 not taken, -1 neither is known.
  int leaves(const PtxInstruction& branch);
  void refuse(RerunRefusal::Why why, std::string_view what = {}) {
    if (!refused_) refused_ = {why, what};
  }
  template <class Visit>
  void for_each_next(std::size_t index, Visit visit) const;

  const PtxKernel& kernel_;
  const PtxAccesses& accesses_;
  Symbolic symbolic_;
  RerunRefusal refused_;
  std::vector<std::int64_t> scales_;  // of each word that is written: bytes for each item
  Stored must_ = 0;
  std::vector<Bound> bounds_;
  std::int64_t largest_scale_ = 1;
};

}  // namespace thermocline
