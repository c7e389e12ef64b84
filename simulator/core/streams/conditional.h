// SPDX-License-Identifier: Apache-2.0
// Conditional nodes of graphs, which decide on the device which of their bodies runs, and how often. Such a node is one
// operation on the time line: its bodies run within it, step by step, as on the compute engine. For other operations in
// the graph and in other streams, all accesses of the bodies count as the node's.
//
// Simplification: steps of a body that the graph leaves unordered run one after the other, in an order that the graph
// allows.
#pragma once

#include <memory>
#include <vector>

#include "simulator/core/streams/operation.h"

namespace simulator {

struct Step {
  Work work;
  DeviceId device = 0;
  Time duration = 0;  // set at submission
};
using Body = std::vector<Step>;

enum class Branching : std::uint8_t { kIf, kWhile, kSwitch };

struct ConditionalNode {
  Branching branching = Branching::kIf;
  std::uint64_t handle = 0;
  std::shared_ptr<Conditions> conditions;
  std::vector<Body> bodies;
  Time took = 0;  // set when it has run

  // The body to run in the present state; null: none.
  Body* chosen();
};

}  // namespace simulator
