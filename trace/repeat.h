// SPDX-License-Identifier: Apache-2.0
// Extends a trace to a program of any number of steps by repeating its last step. Buffers that were alive when that
// step began and were freed in it (the last step's gradients, for example) are replaced by the buffers that the step
// left alive, matched by size and order of allocation. A step for which these do not match can not repeat.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "trace/trace.h"

namespace thermocline {

struct StepProgram {
  std::size_t steps = 0;
  // Applied before each repetition, all pairs at once: the buffer that the file calls `first` is from now on the one
  // that was `second`.
  std::vector<std::pair<std::uint32_t, std::uint32_t>> renames;

  // The events of step `i` of the program.
  StepSpan span(const Trace& trace, std::size_t i) const {
    return trace.steps[i < trace.steps.size() ? i : trace.steps.size() - 1];
  }
  bool is_repetition(const Trace& trace, std::size_t i) const { return i >= trace.steps.size(); }
};

// `steps` 0: as many as the file has. False, with a message in `reason`, when the last step can not repeat.
bool plan_steps(const Trace& trace, std::size_t steps, StepProgram* out, std::string* reason);

// Chooses how many steps commands replay: the requested number. Without one: `usual`, or the file's if it has more; the
// file's, if its steps differ (`steps_repeat` false) or the last cannot repeat. False only for a requested one.
bool choose_steps(const Trace& trace, std::optional<std::size_t> asked, std::size_t usual, bool steps_repeat,
                  StepProgram* out, std::string* reason);

}  // namespace thermocline
