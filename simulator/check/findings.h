// SPDX-License-Identifier: Apache-2.0
// The findings of the checker. Each pair of operations is counted and reported once: the first ones on stderr, and at
// the end their number.
#pragma once

#include <functional>
#include <string>
#include <unordered_set>

#include "simulator/check/mark.h"

namespace simulator {

class Findings {
 public:
  // Describes the owner of an address, to be appended to a sentence: " in buffer 3".
  using Owner = std::function<std::string(Address)>;

  Findings(const Labels& labels, Owner owner) : labels_(labels), owner_(std::move(owner)) {}

  // Two accesses that nothing orders, or an access to memory that the earlier operation has freed.
  void unordered(const Mark& earlier, const Mark& later);
  // The host's call unmaps or frees the range while the operation may still access it.
  void taken_away(const char* call, Address at, Bytes bytes, const Mark& mark);
  // The operation accesses a range that was unmapped after the operation was submitted.
  void came_late(const Mark& mark, Address at, OperationId newest_at_unmapping);
  // The operation accesses memory that does not exist.
  void inaccessible(const Mark& mark, Address at, OperationId newest_at_unmapping);

  // No more than `ranges` ranges of one kind are known of the kernel. Reported once for each name.
  void partly_seen(Label kernel, std::size_t ranges);

  std::uint64_t count() const { return count_; }
  // Reports the total at the end.
  void summarize() const;

 private:
  // True the first time. `second`: an operation, or the position of a host call among the operations.
  bool is_new(OperationId first, OperationId second);
  void say(const std::string& sentence);
  std::string describe(const Mark& mark) const;
  std::string range(Address at, Bytes bytes) const;

  const Labels& labels_;
  const Owner owner_;
  std::uint64_t count_ = 0;
  std::unordered_set<std::uint64_t> seen_;
  std::unordered_set<Label> partly_seen_;
};

}  // namespace simulator
