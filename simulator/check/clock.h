// SPDX-License-Identifier: Apache-2.0
// Vector clocks. Each operation lies on a chain, which is totally ordered. A clock contains, for each chain, the newest
// operation that is known to be ordered before, together with all earlier ones of the chain. Operation numbers serve as
// positions on a chain, so clocks need no counters of their own: numbers only grow, and a chain that is reused
// continues with larger ones.
//
// Source of the idea: Fidge, Timestamps in message-passing systems that preserve the partial ordering (1988), and
// Mattern, Virtual time and global states of distributed systems (1989).
#pragma once

#include <boost/container/small_vector.hpp>

#include "simulator/core/types.h"

namespace simulator {

using Chain = std::uint32_t;

class Clock {
 public:
  bool covers(Chain chain, OperationId operation) const { return chain < known_.size() && known_[chain] >= operation; }

  bool covers(const Clock& other) const {
    for (Chain chain = 0; chain < other.known_.size(); ++chain) {
      if (other.known_[chain] != 0 && !covers(chain, other.known_[chain])) return false;
    }
    return true;
  }

  // Becomes the union of both. True if that is more than before.
  bool join(const Clock& other) {
    if (known_.size() < other.known_.size()) known_.resize(other.known_.size());
    bool grown = false;
    for (Chain chain = 0; chain < other.known_.size(); ++chain) {
      if (known_[chain] >= other.known_[chain]) continue;
      known_[chain] = other.known_[chain];
      grown = true;
    }
    return grown;
  }

  void set(Chain chain, OperationId operation) {
    if (known_.size() <= chain) known_.resize(chain + 1);
    known_[chain] = operation;
  }

 private:
  boost::container::small_vector<OperationId, 6> known_;  // by chain; 0: nothing
};

}  // namespace simulator
