// SPDX-License-Identifier: Apache-2.0
// The register of assumptions about drivers (driver/assumptions.h) as JSON, and checks of this machine's devices.
#pragma once

#include <nlohmann/json.hpp>

namespace thermocline {

// All rows, each with its subject.
nlohmann::ordered_json assumptions_json();

// For each device its name and the answers of examine(): "holds", "fails" or "not tried". Runs in a child process,
// because a defective driver may end its process; answers until then are kept. Call it before this process uses the
// driver. Writes nothing to disk.
nlohmann::ordered_json answers_of_devices();

}  // namespace thermocline
