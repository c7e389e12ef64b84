// SPDX-License-Identifier: Apache-2.0
// Where graphs are cut. No driver is needed.
#include "hooks/graphs/cut_order.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace thermocline {
namespace {

using Segments = std::vector<std::vector<std::size_t>>;

// Uses of one byte each.
CutNode using_(std::vector<std::size_t> buffers, std::vector<std::size_t> after = {}) {
  CutNode node{.after = std::move(after), .uses = {}};
  for (const std::size_t buffer : buffers) node.uses.push_back({buffer, 1});
  return node;
}

TEST(CutOrder, CutsAChainWhereItGetsTooLarge) {
  const std::vector<CutNode> chain = {using_({0, 1}), using_({1, 2}, {0}), using_({2, 3}, {1}), using_({3, 4}, {2})};
  EXPECT_EQ(cut_in_order(chain, 3), (Segments{{0, 1}, {2, 3}}));
  EXPECT_EQ(cut_in_order(chain, 5), (Segments{{0, 1, 2, 3}}));
  EXPECT_EQ(cut_in_order(chain, 1), (Segments{{0}, {1}, {2}, {3}}));
  EXPECT_EQ(cut_in_order({}, 1), Segments{});
}

// Two branches that the program added in turns.
TEST(CutOrder, FollowsABranchThatSharesItsBuffers) {
  const std::vector<CutNode> branches = {using_({0}),           using_({10}),     using_({0, 1}, {0}),
                                         using_({10, 11}, {1}), using_({1}, {2}), using_({11}, {3})};
  EXPECT_EQ(cut_in_order(branches, 2), (Segments{{0, 2, 4}, {1, 3, 5}}));
}

// Nobody is brought forward that shares nothing: what it uses would be on the device too early.
TEST(CutOrder, KeepsTheProgramsOrderOtherwise) {
  const std::vector<CutNode> roots = {using_({0, 1}), using_({2, 3}), using_({4})};
  EXPECT_EQ(cut_in_order(roots, 3), (Segments{{0}, {1, 2}}));
}

TEST(CutOrder, LeavesOutWhatIsInACircle) {
  const std::vector<CutNode> circle = {using_({0}), using_({1}, {2}), using_({2}, {1})};
  EXPECT_EQ(cut_in_order(circle, 9), (Segments{{0}}));
}

// Random graphs: each node once, behind what it depends on, and within the limit unless it is alone.
TEST(CutOrder, KeepsEveryDependencyAndTheLimit) {
  std::mt19937_64 random(7);
  const auto draw = [&](std::size_t end) { return static_cast<std::size_t>(random() % end); };
  for (int round = 0; round < 200; ++round) {
    std::vector<CutNode> nodes(1 + draw(40));
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      std::set<std::size_t> before, buffers;
      for (std::size_t k = draw(3); i > 0 && k > 0; --k) before.insert(draw(i));
      for (std::size_t k = draw(4); k > 0; --k) buffers.insert(draw(12));
      nodes[i] = using_({buffers.begin(), buffers.end()}, {before.begin(), before.end()});
    }
    const Bytes most = 1 + draw(6);
    std::set<std::size_t> done;
    for (const std::vector<std::size_t>& segment : cut_in_order(nodes, most)) {
      std::set<std::size_t> used;
      for (const std::size_t node : segment) {
        for (const std::size_t before : nodes[node].after) EXPECT_TRUE(done.contains(before));
        for (const CutNode::Use& use : nodes[node].uses) used.insert(use.buffer);
        EXPECT_TRUE(done.insert(node).second);
      }
      EXPECT_TRUE(used.size() <= most || segment.size() == 1);
    }
    EXPECT_EQ(done.size(), nodes.size());
  }
}

}  // namespace
}  // namespace thermocline
