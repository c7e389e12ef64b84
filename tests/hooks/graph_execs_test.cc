// SPDX-License-Identifier: Apache-2.0
// Which memory executable graphs name, and how that changes. No driver is needed.
#include "hooks/graphs/graph_execs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "hooks/pointers/uploads.h"
#include "hooks/runtime/counters.h"

namespace thermocline {
namespace {

CUgraphExec exec(std::uintptr_t handle) { return reinterpret_cast<CUgraphExec>(handle); }
CUgraphNode node(std::uintptr_t handle) { return reinterpret_cast<CUgraphNode>(handle); }

NodeContents naming(std::uint64_t address, CUgraphNode parent = nullptr) {
  NodeContents contents;
  contents.parent = parent;
  contents.accesses = {MemoryAccess{DeviceAddress{address}, 0, Access::kUnknown}};
  return contents;
}

std::vector<std::uint64_t> named(CUgraphExec of) {
  std::vector<std::uint64_t> addresses;
  const GraphAccess access = access_of(of);
  for (const MemoryAccess& memory_access : access.accesses.all()) addresses.push_back(memory_access.address.value);
  std::ranges::sort(addresses);
  return addresses;
}

using Addresses = std::vector<std::uint64_t>;

class GraphExecs : public testing::Test {
 protected:
  void SetUp() override { graph_instantiated(kExec, {{node(1), naming(0x100)}, {node(2), naming(0x200)}}, false); }
  void TearDown() override { graph_exec_destroyed(kExec); }

  const CUgraphExec kExec = exec(0x10);
};

TEST_F(GraphExecs, NothingIsKnownOfOneThatWasNotSeenMade) {
  EXPECT_FALSE(access_of(exec(0x20)).is_known);
  EXPECT_TRUE(access_of(kExec).is_known);
  graph_exec_destroyed(kExec);
  EXPECT_FALSE(access_of(kExec).is_known);
  // Changing it makes no difference either.
  graph_node_set(kExec, node(1), naming(0x300));
  EXPECT_FALSE(access_of(kExec).is_known);
}

// The driver copies a child graph into each node that is given it; here the nodes of the copies all have the same
// handle.
TEST_F(GraphExecs, OneChildGraphInTwoNodesMayNameAnything) {
  const GraphContents child = {{node(9), naming(0x900)}}, changed = {{node(9), naming(0x800)}};
  graph_node_set(kExec, node(1), {}, child);
  EXPECT_TRUE(access_of(kExec).is_known);
  graph_node_set(kExec, node(1), {}, changed);
  EXPECT_TRUE(access_of(kExec).is_known) << "replaced";
  graph_node_set(kExec, node(2), {}, child);
  EXPECT_FALSE(access_of(kExec).is_known) << "the first node's is another now";
  graph_node_set(kExec, node(2), {}, {});
  EXPECT_FALSE(access_of(kExec).is_known);
  graph_updated(kExec, {{node(5), naming(0x500)}});
  EXPECT_TRUE(access_of(kExec).is_known);
}

TEST_F(GraphExecs, NodesNameWhatTheyWereGivenLast) {
  EXPECT_EQ(named(kExec), (Addresses{0x100, 0x200}));
  graph_node_set(kExec, node(1), naming(0x300));
  EXPECT_EQ(named(kExec), (Addresses{0x200, 0x300}));
  graph_node_set(kExec, node(1), naming(0x200));
  EXPECT_EQ(named(kExec), (Addresses{0x200})) << "each once";
}

TEST_F(GraphExecs, AnUpdateReplacesAll) {
  graph_node_enabled(kExec, node(2), false);
  graph_updated(kExec, {{node(11), naming(0x500)}, {node(12), naming(0x600)}});
  EXPECT_EQ(named(kExec), (Addresses{0x500, 0x600}));
  // It is not known which of these the first graph's node is.
  graph_node_set(kExec, node(1), naming(0x700));
  EXPECT_EQ(named(kExec), (Addresses{0x500, 0x600, 0x700}));
  graph_node_set(kExec, node(1), naming(0x800));
  EXPECT_EQ(named(kExec), (Addresses{0x500, 0x600, 0x800}));
}

TEST_F(GraphExecs, DisabledNodesNameNothingUntilTheyAreEnabled) {
  graph_node_enabled(kExec, node(1), false);
  EXPECT_EQ(named(kExec), (Addresses{0x200}));
  graph_node_set(kExec, node(1), naming(0x300));
  EXPECT_EQ(named(kExec), (Addresses{0x200})) << "it is still disabled";
  graph_node_enabled(kExec, node(1), true);
  EXPECT_EQ(named(kExec), (Addresses{0x200, 0x300}));
  // With an unknown handle: it may be any node.
  graph_node_enabled(kExec, node(1), false);
  graph_node_enabled(kExec, node(99), false);
  graph_node_enabled(kExec, node(98), true);
  EXPECT_EQ(named(kExec), (Addresses{0x200, 0x300}));
}

TEST_F(GraphExecs, AChildGraphIsReplacedWhole) {
  graph_instantiated(kExec,
                     {{node(1), {}},
                      {node(2), naming(0x200, node(1))},
                      {node(3), {.parent = node(1)}},
                      {node(4), naming(0x400, node(3))},
                      {node(5), naming(0x500)}},
                     false);
  EXPECT_EQ(named(kExec), (Addresses{0x200, 0x400, 0x500}));
  graph_node_set(kExec, node(4), naming(0x410));
  EXPECT_EQ(named(kExec), (Addresses{0x200, 0x410, 0x500}));
  graph_node_set(kExec, node(1), {}, {{node(21), naming(0x600)}, {node(22), naming(0x700, node(21))}});
  EXPECT_EQ(named(kExec), (Addresses{0x500, 0x600, 0x700}));
  graph_node_set(kExec, node(1), {}, {{node(31), naming(0x800)}});
  EXPECT_EQ(named(kExec), (Addresses{0x500, 0x800}));
  graph_node_enabled(kExec, node(1), false);
  EXPECT_EQ(named(kExec), (Addresses{0x500}));
}

TEST_F(GraphExecs, OneUnknownNodeMakesItUnknown) {
  NodeContents unknown;
  unknown.is_known = false;
  graph_node_set(kExec, node(1), unknown);
  EXPECT_FALSE(access_of(kExec).is_known);
  graph_node_set(kExec, node(1), naming(0x100));
  EXPECT_TRUE(access_of(kExec).is_known);
}

// Another node may read the memory first, and whether the node runs at all may be decided on the device.
TEST_F(GraphExecs, WhatANodeWritesItNeedNotWriteWhole) {
  NodeContents writing;
  writing.accesses = {MemoryAccess{DeviceAddress{0x100}, 64, Access::kWrite}};
  graph_node_set(kExec, node(1), writing);
  const GraphAccess access = access_of(kExec);
  for (const MemoryAccess& memory_access : access.accesses.all()) EXPECT_EQ(memory_access.access, Access::kUnknown);
}

TEST_F(GraphExecs, CopiesAreSearchedEachOnceAndNotWithoutEnd) {
  NodeContents copying;
  for (CUdeviceptr i = 0; i < kMostSearchedMoves; ++i)
    copying.moves.push_back({.to = 4096 + i * 64, .from = 64, .bytes = 64});
  graph_node_set(kExec, node(1), copying);
  graph_node_set(kExec, node(2), copying);
  EXPECT_EQ(access_of(kExec).moves.size(), kMostSearchedMoves);
  EXPECT_EQ(access_of(kExec).beyond.size(), 0u);
  for (Move& move : copying.moves) move.from = 128;
  copying.moves.resize(10);
  graph_node_set(kExec, node(3), copying);
  const std::uint64_t before = counted(Counter::kUntrackedUploads);
  for (int launch = 0; launch < 2; ++launch) {
    const GraphAccess access = access_of(kExec);
    EXPECT_EQ(access.moves.size(), kMostSearchedMoves);
    EXPECT_EQ(access.beyond.size(), 10u);
    EXPECT_EQ(counted(Counter::kUntrackedUploads), before + 10) << "counted once";
  }
}

TEST_F(GraphExecs, TellsWhetherANodeMayWriteWhatAnotherOneUploads) {
  EXPECT_FALSE(access_of(kExec).may_write_host);
  NodeContents writing;
  writing.may_write_host = true;
  graph_node_set(kExec, node(3), writing);
  EXPECT_TRUE(access_of(kExec).may_write_host);
  graph_node_enabled(kExec, node(3), false);
  EXPECT_FALSE(access_of(kExec).may_write_host);
  NodeContents unknown;
  unknown.is_known = false;
  graph_node_set(kExec, node(1), unknown);
  EXPECT_TRUE(access_of(kExec).may_write_host);
}

TEST_F(GraphExecs, TellsWhatEachKernelWasGiven) {
  NodeContents kernel = naming(0x100);
  kernel.is_kernel = true;
  graph_node_set(kExec, node(1), kernel);
  EXPECT_EQ(access_of(kExec).kernels.size(), 0u) << "one address is written nowhere else";
  kernel.accesses.push_back(MemoryAccess{DeviceAddress{0x300}, 0, Access::kUnknown});
  graph_node_set(kExec, node(1), kernel);
  graph_node_set(kExec, node(2), kernel);
  EXPECT_EQ(access_of(kExec).kernels.size(), 1u) << "each once";
}

TEST_F(GraphExecs, KnowsWhichTheDeviceLaunches) {
  graph_instantiated(exec(0x20), {{node(1), naming(0x900)}}, true);
  EXPECT_TRUE(device_launches(exec(0x20)));
  EXPECT_FALSE(device_launches(kExec));
  graph_exec_destroyed(exec(0x20));
  EXPECT_FALSE(device_launches(exec(0x20)));
}

}  // namespace
}  // namespace thermocline
