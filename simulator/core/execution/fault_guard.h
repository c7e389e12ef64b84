// SPDX-License-Identifier: Apache-2.0
// Runs code that may access absent device memory and turns the fault into an answer. Faults outside such code go to the
// handler that the program had installed.
#pragma once

#include <optional>

#include "simulator/core/types.h"

namespace simulator {

// Returns the faulting address, or nothing when `body` came to its end. A fault abandons `body` where it stands:
// destructors of its frames do not run, so it must be plain code on memory. Not nested.
std::optional<Address> run_guarded(void (*body)(void*), void* data);

// Whether faults come here at present: nobody else has taken their handler. Installs it the first time.
bool catches_faults();

template <typename Body>
std::optional<Address> run_guarded(Body& body) {
  return run_guarded([](void* data) { (*static_cast<Body*>(data))(); }, &body);
}

}  // namespace simulator
