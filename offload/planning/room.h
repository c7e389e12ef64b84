// SPDX-License-Identifier: Apache-2.0
// The free room at each of a sequence of places, where room is taken from ranges of places. A segment tree: a node has
// the least room in its range, and the amount that was taken from its whole range and not passed on to its children.
// Both calls visit O(log n) nodes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace thermocline {

class Room {
 public:
  explicit Room(const std::vector<double>& places) : places_(places.size()) {
    while (leaves_ < places_) leaves_ *= 2;
    nodes_.resize(2 * leaves_);
    for (std::size_t i = 0; i < places_; ++i) nodes_[leaves_ + i].least = places[i];
    for (std::size_t n = leaves_ - 1; n > 0; --n) update_node(n);
  }

  // The first place from which on, up to `end`, at least `amount` is free everywhere; `end` if there is none.
  std::size_t first_with(double amount, std::size_t end) const {
    return end == 0 ? 0 : behind_last_below(1, 0, leaves_, end, amount);
  }
  // Takes `amount` from places [begin, end).
  void take(std::size_t begin, std::size_t end, double amount) {
    if (begin < end) take_in(1, 0, leaves_, begin, end, amount);
  }

 private:
  struct Node {
    double least = 0;  // in its whole range, without what was taken from the nodes above
    double taken = 0;  // from its whole range; already subtracted from `least`
  };

  void update_node(std::size_t n) {
    nodes_[n].least = std::min(nodes_[2 * n].least, nodes_[2 * n + 1].least) - nodes_[n].taken;
  }

  // The place after the last one in [first, last) and below `end` with less than `amount`; `first` if there is none.
  std::size_t behind_last_below(std::size_t n, std::size_t first, std::size_t last, std::size_t end,
                                double amount) const {
    if (first >= end || nodes_[n].least >= amount) return first;
    if (last - first == 1) return last;
    const std::size_t middle = first + (last - first) / 2;
    const double beneath = amount + nodes_[n].taken;
    const std::size_t right = behind_last_below(2 * n + 1, middle, last, end, beneath);
    return right > middle ? right : behind_last_below(2 * n, first, middle, end, beneath);
  }

  void take_in(std::size_t n, std::size_t first, std::size_t last, std::size_t begin, std::size_t end, double amount) {
    if (end <= first || last <= begin) return;
    if (begin <= first && last <= end) {
      nodes_[n].least -= amount;
      nodes_[n].taken += amount;
      return;
    }
    const std::size_t middle = first + (last - first) / 2;
    take_in(2 * n, first, middle, begin, end, amount);
    take_in(2 * n + 1, middle, last, begin, end, amount);
    update_node(n);
  }

  std::size_t places_, leaves_ = 1;
  std::vector<Node> nodes_;
};

}  // namespace thermocline
