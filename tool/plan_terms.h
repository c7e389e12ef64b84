// SPDX-License-Identifier: Apache-2.0
// The file of `thermocline plan --terms`: what an executor is able to do (trace/step_plan.h), as JSON, by the trace's
// own numbers of buffers and the places of operators in its last step:
//
//   {"schema": "thermocline-plan-terms/1",
//    "held": [[BUFFER, PLACE], ...],  contents leave only after this operator
//    "stays": [BUFFER, ...],          contents never leave
//    "aside": [BUFFER, ...],          the executor keeps old contents; recomputing need not account for them
//    "results": [BUFFER, ...],        allocated by the operator that makes them, after all that runs again before it
//    "moves": [BUFFER, ...],          state: copied to the host and back between uses, also across the step's end
//    "once": [PLACE, ...]}            operators that must not run again
//
// Everything but the schema may be left out.
#pragma once

#include <string>

#include "trace/step_plan.h"

namespace thermocline {

// False: the file can not be read or does not fit the trace; `reason` says why, in one line without the path.
bool read_plan_terms(const std::string& path, const Trace& trace, StepTerms* terms, std::string* reason);

}  // namespace thermocline
