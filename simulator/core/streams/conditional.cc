// SPDX-License-Identifier: Apache-2.0
#include "simulator/core/streams/conditional.h"

namespace simulator {

// CUDA driver API, CUgraphConditionalNodeType.
Body* ConditionalNode::chosen() {
  const std::uint32_t value = (*conditions)[handle];
  std::size_t body = 0;
  switch (branching) {
    case Branching::kIf:
      body = value != 0 ? 0 : 1;
      break;
    case Branching::kWhile:
      body = value != 0 ? 0 : bodies.size();
      break;
    case Branching::kSwitch:
      body = value;
      break;
  }
  return body < bodies.size() ? &bodies[body] : nullptr;
}

}  // namespace simulator
