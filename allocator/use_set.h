// SPDX-License-Identifier: Apache-2.0
// Uses of memory by work on streams, and sets of them. Within one stream work runs in order, so the newest use of a
// stream stands for all its older ones: a set holds at most one use per stream.
#pragma once

#include <cstddef>
#include <cstdint>

#include <boost/container/small_vector.hpp>

namespace thermocline {

// A stream as the StreamClock numbers it: dense, from 0. An index is given to another stream only after everything that
// was submitted under it has passed, and ordinals go on counting; so a Use never changes its meaning.
enum class StreamIndex : std::uint32_t {};

// The n-th operation of a stream; 0 stands before the first.
using Ordinal = std::uint64_t;

struct Use {
  StreamIndex stream{};
  Ordinal ordinal = 0;

  friend constexpr bool operator==(Use, Use) = default;
};

// Invariant: sorted by stream, no stream twice, no ordinal 0. The first four streams need no memory of their own.
class UseSet {
 public:
  using const_iterator = boost::container::small_vector<Use, 4>::const_iterator;

  bool empty() const { return uses_.empty(); }
  std::size_t size() const { return uses_.size(); }
  const_iterator begin() const { return uses_.begin(); }
  const_iterator end() const { return uses_.end(); }

  void add(Use use);
  void join(const UseSet& other);
  void clear() { uses_.clear(); }
  // The newest ordinal of the stream in this set; 0 when it is not in it.
  Ordinal newest(StreamIndex stream) const;
  // Drops the uses for which `passed(use)` is true.
  template <class Predicate>
  void drop_if(Predicate passed) {
    auto keep = uses_.begin();
    for (const Use& use : uses_) {
      if (!passed(use)) *keep++ = use;
    }
    uses_.erase(keep, uses_.end());
  }

  void validate() const;

  friend bool operator==(const UseSet& a, const UseSet& b) { return a.uses_ == b.uses_; }

 private:
  boost::container::small_vector<Use, 4> uses_;
};

}  // namespace thermocline
