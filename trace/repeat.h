// SPDX-License-Identifier: Apache-2.0
// A trace as a program of any number of steps. Beyond the file's own steps its last one repeats: what was alive when
// that step began and was freed in it (the last step's gradients, say) is replaced by what the step left behind in its
// place, matched by size and order of allocation. A step whose two ends do not match can not repeat.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "trace/trace.h"

namespace thermocline {

struct StepProgram {
  std::size_t steps = 0;
  // Before each repetition, for each pair at once: what the file calls `first` is from now on what `second` was.
  std::vector<std::pair<std::uint32_t, std::uint32_t>> renames;

  // The events of step `i` of the program.
  StepSpan span(const Trace& trace, std::size_t i) const {
    return trace.steps[i < trace.steps.size() ? i : trace.steps.size() - 1];
  }
  bool is_repetition(const Trace& trace, std::size_t i) const { return i >= trace.steps.size(); }
};

// `steps` 0: as many as the file has. False with a sentence in `reason` when the last step can not repeat.
bool plan_steps(const Trace& trace, std::size_t steps, StepProgram* out, std::string* reason);

}  // namespace thermocline
