// SPDX-License-Identifier: Apache-2.0
// Vector clocks. Operations lie on chains, each of which is totally ordered; a clock says, for each chain, up to which
// operation everything is known to come before. An operation's number is its place on its chain, so that clocks need no
// counters of their own: numbers only grow, and a chain that is used again continues with larger ones.
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

  // Whatever one of both covers. True when that is more than before.
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
