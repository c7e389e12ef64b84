// SPDX-License-Identifier: Apache-2.0
// Nodes of graphs that decide on the device which of their bodies is run, and how often. Such a node is one operation
// on the time line: its bodies run within it, step by step, as the compute engine would. To everything else in the
// graph and in other streams each of their accesses is the node's.
//
// Simplification: steps of a body that the graph leaves unordered run in an order of the graph, one after the other.
#pragma once

#include <memory>
#include <vector>

#include "simulator/core/streams/operation.h"

namespace simulator {

struct Step {
  Work work;
  DeviceId device = 0;
  Time duration = 0;  // filled in at submission
};
using Body = std::vector<Step>;

enum class Branching : std::uint8_t { kIf, kWhile, kSwitch };

struct ConditionalNode {
  Branching branching = Branching::kIf;
  std::uint64_t handle = 0;
  std::shared_ptr<Conditions> conditions;
  std::vector<Body> bodies;
  Time took = 0;  // filled in when it has run

  // What is run as things stand; null: nothing.
  Body* chosen();
};

}  // namespace simulator
