// SPDX-License-Identifier: Apache-2.0
// The register of assumptions about drivers: where the documentation is silent or ambiguous, or where public reports
// contradict it. scripts/assumptions.py makes docs/driver_assumptions.md from it and adds what GPUs answered.
//
// A test checks: only the fields that say so may be empty; `source` is a page, a header or a public thread, or
// "documentation is silent"; each assumption is checked by rules or at the start, or says why not.
#pragma once

#include <span>

namespace thermocline {

struct Assumption {
  const char* id;      // stable: result files refer to it
  const char* relies;  // the assumption
  const char* source;
  const char* simulator;  // the behavior of the simulated device
  const char* switches;   // of THERMOCLINE_SIMULATE_DRIVER that make it false; separated by spaces; may be ""
  const char* breaks;     // the effect on the library if it is false
  const char* rules;      // conformance rules that check it; separated by spaces; may be ""
  const char* at_start;   // mechanism (probes.h) that is probed when an engine is created; may be ""
  const char* no_probe;   // why neither checks it; "" if one does
  const char* fallback;
};

// Mapping and physical memory.
std::span<const Assumption> assumptions_of_mapping();
// Order, work and the memory that work takes.
std::span<const Assumption> assumptions_of_work();
// Queries of programs, other software and environments.
std::span<const Assumption> assumptions_of_surroundings();

}  // namespace thermocline
