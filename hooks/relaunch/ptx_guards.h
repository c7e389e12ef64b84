// SPDX-License-Identifier: Apache-2.0
// The guards of a kernel: the integer comparisons on which its paths depend.
#pragma once

#include <bitset>
#include <cstdint>
#include <optional>
#include <vector>

#include "hooks/relaunch/symbolic.h"

namespace thermocline {

class PtxGuards {
 public:
  static constexpr std::size_t kMost = 256;
  // Two bits for each comparison i: the guard "it holds" (2 i), and the guard "it does not hold" (2 i + 1).
  using Set = std::bitset<kMost>;

  struct Comparison {
    Symbolic::Value left, right;
    bool is_equality = false;  // else: left < right
    unsigned bytes = 4;
    bool is_signed = true;
    std::uint64_t loops = 0;
    std::vector<LinearForm> widened;  // of both sides
    // Set: the comparison is left < right || left < other_right, as implied by `if (i < m) ... else if (i < n)`.
    std::optional<Symbolic::Value> other_right;
  };
  // By the predicate's value. holds: all these guards hold. fails: at least one of these guards does not hold.
  struct Meaning {
    Set holds[2], fails[2];
  };

  PtxGuards(const PtxKernel& kernel, const Symbolic& symbolic);

  // Null: nothing is known about the predicate.
  const Meaning* meaning_of(int predicate) const;
  // Why a predicate has no meaning: it compares the thread's index with an unknown value.
  bool compares_with_unknown(int predicate) const;
  const std::vector<Comparison>& comparisons() const { return comparisons_; }
  // The guards that change from one iteration of the loop to the next.
  const Set& of_loop(int loop) const { return of_loop_[static_cast<std::size_t>(loop)]; }
  // Adds guards of the loop that hold in its first iteration, because the same guards without the loop hold. Guards
  // that then compare numbers equal for all threads are assumed to hold; each launch checks these (granted()).
  void add_at_begin(int loop, Set* holds) const;
  const Set& granted() const { return granted_; }
  // The subset of these guards that say about the first iteration what another says about each iteration.
  Set implied(const Set& guards, int loop) const;
  // Adds the guards that follow about pairs of bounds: one of the two comparisons holds, or neither does.
  void complete(Set* holds) const;
  // Removes the guards that complete() would add.
  void leave_out_what_follows(Set* holds) const;
  // The guards among those that complete() may add that cannot hold if `holds` do.
  Set failing(const Set& holds) const;
  // Guards that hold for every thread whose registers are current: their two sides differ by a constant.
  const Set& always() const { return always_; }

 private:
  struct AtBegin {
    int loop = 0;
    std::size_t guard = 0, without_loop = 0;
  };

  // Comparison `either` holds if one of the two others holds.
  struct Either {
    std::size_t either = 0, one = 0, other = 0;
  };

  void find_eithers();
  Meaning compared(const PtxInstruction& one);
  static bool is_same(const Comparison& a, const Comparison& b);
  std::size_t add(Comparison comparison);
  void relate();
  Meaning combined(const PtxInstruction& one) const;

  const PtxKernel& kernel_;
  const Symbolic& symbolic_;
  std::vector<Comparison> comparisons_;
  std::vector<Meaning> meanings_;  // by register
  std::vector<bool> is_meant_;
  std::vector<Set> of_loop_, granted_by_loop_;
  std::vector<AtBegin> at_begin_;
  std::vector<Either> eithers_;
  Set granted_, always_;
};

}  // namespace thermocline
