// SPDX-License-Identifier: Apache-2.0
// Kinds of operations whose operands differ from turn to turn although the work is the same. The buffers that a kernel
// uses are read from its parameters, and parameter structures have words that nobody sets. PyTorch's multi_tensor_apply
// has lists of up to 110 pointers, of which only the first are set; the structures of its reductions and of cuDNN's
// convolutions have only some fields set. The rest is left over from the stack: on an H200 that was another live buffer
// in 18 of the 1085 operations of GPT-2's training step, so no two steps were equal.
//
// This is for replays, where a kind is a name. In a running program the kind of a kernel includes the grid, and only
// the kind counts, in the library (LearnedPolicy::token_of) as in its recordings (Recorder::token_of).
//
// How they are found: the last kContext kinds came in the same order before, and at least three in four of these
// operations had the same operands as then. If the operands of the middle one differ, its kind is unsteady. So are the
// kinds of the others that differ, except in the newest quarter, where a change may have begun. A change of sizes (a
// last batch that is smaller) makes nearly all operations from there on differ.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <unordered_set>

#include "driver/hash.h"

namespace thermocline {

class UnsteadyKinds {
 public:
  static constexpr std::size_t kContext = 128;
  static constexpr std::size_t kLeastEqual = kContext * 3 / 4;
  // More than programs have. Each costs a pass over the history, and makes operations harder to tell apart.
  static constexpr std::size_t kMost = 64;

  // The token of all operations of an unsteady kind.
  static std::uint64_t token_of(std::uint64_t kind) { return kind * kHashFactor + 1; }

  std::size_t size() const { return kinds_.size(); }
  bool contains(std::uint64_t kind) const { return !kinds_.empty() && kinds_.contains(kind); }
  void add(std::uint64_t kind) {
    if (kinds_.size() < kMost) kinds_.insert(kind);
  }
  // Call it after each operation, with all remembered ones, the newest last. Kind 0 never becomes unsteady. True:
  // another kind became unsteady.
  bool watch(std::span<const std::uint64_t> kinds, std::span<const std::uint64_t> tokens);
  // Operations were not watched, or other operations are remembered now.
  void restart();
  // Tokens of remembered operations have changed; their kinds have not.
  void recount() { distance_ = 0; }

 private:
  std::unordered_set<std::uint64_t> kinds_;
  std::size_t watched_ = 0;                                // since restart()
  std::uint64_t hash_ = 0;                                 // of the last kContext kinds
  std::unordered_map<std::uint64_t, std::size_t> newest_;  // by hash: how many were remembered then
  std::size_t distance_ = 0;                               // to the context that is compared with
  std::size_t equal_ = 0;                                  // operations of the context with equal tokens
};

}  // namespace thermocline
