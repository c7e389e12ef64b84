// SPDX-License-Identifier: Apache-2.0
// The comparisons of integers on which a kernel's paths depend.
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
  // A bit for each guard: comparison i holds (2 i), or it does not (2 i + 1).
  using Set = std::bitset<kMost>;

  struct Comparison {
    Symbolic::Value left, right;
    bool is_equality = false;  // else: left < right
    unsigned bytes = 4;
    bool is_signed = true;
    std::uint64_t loops = 0;
    std::vector<LinearForm> widened;  // of both
    // left < right, or left < this: what holds on both ways of `if (i < m) ... else if (i < n)`.
    std::optional<Symbolic::Value> other_right;
  };
  // Of a predicate that is false, and of one that is true: what holds, and guards of which one does not.
  struct Meaning {
    Set holds[2], fails[2];
  };

  PtxGuards(const PtxKernel& kernel, const Symbolic& symbolic);

  // Null: nothing is known of it.
  const Meaning* meaning_of(int predicate) const;
  // Why a predicate says nothing: what is compared with where the thread is, is not known.
  bool compares_with_unknown(int predicate) const;
  const std::vector<Comparison>& comparisons() const { return comparisons_; }
  // Those that change as the loop comes around.
  const Set& of_loop(int loop) const { return of_loop_[static_cast<std::size_t>(loop)]; }
  // What holds where the loop begins, if these do: a guard of the loop is then one without it. Those between numbers
  // that are the same for all threads are taken for granted; the launch tells (granted()).
  void add_at_begin(int loop, Set* holds) const;
  const Set& granted() const { return granted_; }
  // Those among them that say of the loop's first time what another says of each time.
  Set implied(const Set& guards, int loop) const;
  // Adds what follows of two bounds: one of both holds, or neither does.
  void complete(Set* holds) const;
  // Leaves out what complete() would add.
  void leave_out_what_follows(Set* holds) const;
  // Those of complete() of which it is known that they do not hold, where these do.
  Set failing(const Set& holds) const;
  // Whatever the thread, as long as its registers hold what is compared: their difference is a number.
  const Set& always() const { return always_; }

 private:
  struct AtBegin {
    int loop = 0;
    std::size_t guard = 0, without_loop = 0;
  };

  // Comparison `either` holds where one of the others does.
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
