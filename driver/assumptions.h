// SPDX-License-Identifier: Apache-2.0
// The register: what the library relies on of drivers where the documentation is silent, leaves it open, or has been
// found wanting in public. docs/driver_assumptions.md is made from it (scripts/assumptions.py), with what GPUs
// answered.
//
// Rules: no field is empty but those that say so; a source is a page, a header's comment or a public thread, or
// "documentation is silent"; each assumption has a way to be asked, or says why there is none.
#pragma once

#include <span>

namespace thermocline {

struct Assumption {
  const char* id;      // never changes once results carry it
  const char* relies;  // what the library relies on
  const char* source;
  const char* simulator;  // what the simulated device does
  const char* switches;   // of THERMOCLINE_SIMULATE_DRIVER, by which it does otherwise; separated by spaces; may be ""
  const char* breaks;     // if it does not hold
  const char* rules;      // of conformance, that ask a driver; separated by spaces; may be ""
  const char* at_start;   // the mechanism (probes.h) that is tried when an engine begins; may be ""
  const char* no_probe;   // why there is neither; "" where there is one
  const char* fallback;
};

// Of mapping and physical memory; of order, work and its memory; of what programs ask, and of surroundings.
std::span<const Assumption> assumptions_of_mapping();
std::span<const Assumption> assumptions_of_work();
std::span<const Assumption> assumptions_of_surroundings();

}  // namespace thermocline
