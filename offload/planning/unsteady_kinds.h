// SPDX-License-Identifier: Apache-2.0
// Kinds of operations whose operands differ from turn to turn although the work is the same. Which buffers a kernel uses
// is read from its parameters, and structures of parameters have words that nobody sets: of the lists of PyTorch's
// multi_tensor_apply (up to 110 pointers) only the first entries, of the descriptions of its reductions and of cuDNN's
// convolutions only some fields. The rest is whatever the stack held; on an H200 that was another live buffer in 18 of
// 1085 operations of GPT-2's training step, and no two steps were equal.
//
// This is for replays, whose kinds are names. Of a running program's kernels the kind has the grid, too, and is all
// that counts, in the library (LearnedPolicy::token_of) as in its recordings (Recorder::token_of).
//
// How they are found. The last kContext kinds have come in the same order before, and at least three in four of these
// operations had the same operands as then. If the operands of the one in the middle differ, its kind is unsteady, and so
// are those of the others that differ, but for the newest quarter, which a change may have begun with. A change of sizes (a
// last batch that is smaller) differs in nearly all operations from there on.
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
  // More than programs have. Each costs a pass over the history, and takes what tells operations apart.
  static constexpr std::size_t kMost = 64;

  // The token of all operations of an unsteady kind.
  static std::uint64_t token_of(std::uint64_t kind) { return kind * kHashFactor + 1; }

  std::size_t size() const { return kinds_.size(); }
  bool contains(std::uint64_t kind) const { return !kinds_.empty() && kinds_.contains(kind); }
  void add(std::uint64_t kind) {
    if (kinds_.size() < kMost) kinds_.insert(kind);
  }
  // After each operation, with all that are remembered, the newest last. Kind 0 never becomes unsteady. True: another
  // kind has.
  bool watch(std::span<const std::uint64_t> kinds, std::span<const std::uint64_t> tokens);
  // Operations were not watched, or those that are remembered are others.
  void restart();
  // Tokens that are remembered have changed; kinds have not.
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
