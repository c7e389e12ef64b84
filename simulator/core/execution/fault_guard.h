// SPDX-License-Identifier: Apache-2.0
// Runs code that may access unmapped device memory, and reports the fault. Faults outside such code go to the handler
// that the program had installed.
#pragma once

#include <optional>

#include "simulator/core/types.h"

namespace simulator {

// Returns the faulting address, or nothing if `body` returned. A fault abandons `body` at that point, without running
// the destructors of its frames, so it must be plain code on memory. Must not be nested.
std::optional<Address> run_guarded(void (*body)(void*), void* data);

// Whether the fault handler is installed now, that is, nobody else has replaced it. Installs it at the first call.
bool catches_faults();

template <typename Body>
std::optional<Address> run_guarded(Body& body) {
  return run_guarded([](void* data) { (*static_cast<Body*>(data))(); }, &body);
}

}  // namespace simulator
