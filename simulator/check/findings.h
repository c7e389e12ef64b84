// SPDX-License-Identifier: Apache-2.0
// What the checker found: each pair of operations is counted and said once; on stderr the first of them, at the end how
// many there were.
#pragma once

#include <functional>
#include <string>
#include <unordered_set>

#include "simulator/check/mark.h"

namespace simulator {

class Findings {
 public:
  // Appends to a sentence whose the address is: " in buffer 3".
  using Owner = std::function<std::string(Address)>;

  Findings(const Labels& labels, Owner owner) : labels_(labels), owner_(std::move(owner)) {}

  // Two accesses that nothing orders, or an access of what the earlier one has given back.
  void unordered(const Mark& earlier, const Mark& later);
  // The host's call takes the range away (or gives it up) while the operation may still access it.
  void taken_away(const char* call, Address at, Bytes bytes, const Mark& mark);
  // The operation met a range that was unmapped after its submission.
  void came_late(const Mark& mark, Address at, OperationId newest_at_unmapping);
  // The operation accessed what is not there.
  void inaccessible(const Mark& mark, Address at, OperationId newest_at_unmapping);

  std::uint64_t count() const { return count_; }
  // The last word.
  void summarize() const;

 private:
  // True the first time. The second is an operation, or a call's position among the operations.
  bool is_new(OperationId first, OperationId second);
  void say(const std::string& sentence);
  std::string describe(const Mark& mark) const;
  std::string range(Address at, Bytes bytes) const;

  const Labels& labels_;
  const Owner owner_;
  std::uint64_t count_ = 0;
  std::unordered_set<std::uint64_t> seen_;
};

}  // namespace simulator
