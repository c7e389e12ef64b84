// SPDX-License-Identifier: Apache-2.0
// Host mappings: address ranges of live blocks that have no device pages and are mapped to host pages instead
// (Heap::show), and such ranges of freed blocks. The host memory that they map to can not be reused until they are
// unmapped.
//
// Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "allocator/use_set.h"

namespace thermocline {

struct ShownRange {
  std::uint64_t first = 0, count = 0;  // pages of the reservation
  // Set when the range is abandoned: the work that may still access these addresses, and the host memory to release
  // with them.
  UseSet pending;
  void* host = nullptr;
  std::uint64_t end() const { return first + count; }
};

class Shown {
 public:
  void add(std::uint64_t first, std::uint64_t count) { ranges_[first] = {first, count, {}, nullptr}; }
  bool empty() const { return ranges_.empty(); }
  ShownRange* at(std::uint64_t first) {
    const auto found = ranges_.find(first);
    return found == ranges_.end() ? nullptr : &found->second;
  }
  // The first range that begins within [begin, end); null when there is none.
  const ShownRange* in(std::uint64_t begin, std::uint64_t end) const {
    const auto found = ranges_.lower_bound(begin);
    return found != ranges_.end() && found->first < end ? &found->second : nullptr;
  }
  template <class Visit>
  void for_each(Visit visit) const {
    for (const auto& [first, range] : ranges_) visit(range);
  }
  // To be called when [begin, end) has been unmapped.
  void hidden(std::uint64_t begin, std::uint64_t end) {
    while (const ShownRange* const range = in(begin, end)) {
      if (range->host != nullptr) released_.push_back(range->host);
      ranges_.erase(range->first);
    }
  }
  // The memory of abandoned ranges that no address maps to any more.
  std::vector<void*> take_released() { return std::exchange(released_, {}); }

 private:
  std::map<std::uint64_t, ShownRange> ranges_;  // by first page
  std::vector<void*> released_;
};

}  // namespace thermocline
