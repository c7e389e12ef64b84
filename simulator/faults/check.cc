// SPDX-License-Identifier: Apache-2.0
#include "simulator/fault_check.h"
#include "simulator/faults/plan.h"

namespace simulator {

std::string fault_plan_problem(const std::string& text_or_path) {
  FaultPlan plan;
  return read_fault_plan(text_or_path, &plan);
}

}  // namespace simulator
