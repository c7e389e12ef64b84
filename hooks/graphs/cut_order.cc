// SPDX-License-Identifier: Apache-2.0
#include "hooks/graphs/cut_order.h"

#include <algorithm>
#include <set>

namespace thermocline {
namespace {

// So many of the oldest nodes that are ready are looked at: wide graphs have thousands.
constexpr std::size_t kMostLookedAt = 64;

class Cut {
 public:
  Cut(const std::vector<CutNode>& nodes, Bytes most) : nodes_(nodes), most_(most), open_(nodes.size()) {
    behind_.resize(nodes.size());
    std::size_t buffers = 0;
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      open_[i] = nodes[i].after.size();
      for (const std::size_t before : nodes[i].after) behind_[before].push_back(i);
      for (const CutNode::Use& use : nodes[i].uses) buffers = std::max(buffers, use.buffer + 1);
      if (open_[i] == 0) ready_.insert(i);
    }
    used_in_.resize(buffers, 0);
  }

  std::vector<std::vector<std::size_t>> run() {
    while (!ready_.empty()) {
      const std::size_t next = choose();
      const Bytes more = added_by(next).bytes;
      if (!segments_.empty() && !segments_.back().empty() && bytes_ + more > most_) begin_segment();
      if (segments_.empty()) begin_segment();
      take(next);
    }
    return std::move(segments_);
  }

 private:
  struct Added {
    Bytes bytes = 0;
    bool shares = false;
  };

  Added added_by(std::size_t node) const {
    Added added;
    for (const CutNode::Use& use : nodes_[node].uses) {
      const bool is_there = !segments_.empty() && used_in_[use.buffer] == segments_.size();
      added.bytes += is_there ? 0 : use.bytes;
      added.shares |= is_there;
    }
    return added;
  }

  // The oldest, or one that shares buffers with the segment and needs fewer new ones; as few, if the oldest shares none.
  std::size_t choose() const {
    std::size_t best = *ready_.begin(), looked_at = 0;
    Added least = added_by(best);
    for (const std::size_t node : ready_) {
      if (++looked_at > kMostLookedAt || least.bytes == 0) break;
      const Added added = added_by(node);
      if (!added.shares || added.bytes > least.bytes || (added.bytes == least.bytes && least.shares)) continue;
      best = node;
      least = added;
    }
    return best;
  }

  void begin_segment() {
    segments_.emplace_back();
    bytes_ = 0;
  }

  void take(std::size_t node) {
    bytes_ += added_by(node).bytes;
    for (const CutNode::Use& use : nodes_[node].uses) used_in_[use.buffer] = segments_.size();
    segments_.back().push_back(node);
    ready_.erase(node);
    for (const std::size_t later : behind_[node]) {
      if (--open_[later] == 0) ready_.insert(later);
    }
  }

  const std::vector<CutNode>& nodes_;
  const Bytes most_;
  std::vector<std::size_t> open_;  // dependencies that have not been placed
  std::vector<std::vector<std::size_t>> behind_;
  std::vector<std::size_t> used_in_;  // the number of the newest segment that uses the buffer, from 1
  std::set<std::size_t> ready_;
  std::vector<std::vector<std::size_t>> segments_;
  Bytes bytes_ = 0;  // of the newest segment
};

}  // namespace

std::vector<std::vector<std::size_t>> cut_in_order(const std::vector<CutNode>& nodes, Bytes most) {
  return Cut(nodes, most).run();
}

}  // namespace thermocline
