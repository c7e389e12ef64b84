// SPDX-License-Identifier: Apache-2.0
// The register of assumptions about drivers (driver/assumptions.h) as JSON, and what this machine's devices answer.
#pragma once

#include <nlohmann/json.hpp>

namespace thermocline {

// Every row, with its subject.
nlohmann::ordered_json assumptions_json();

// By device: its name, and what was seen of each assumption that can be asked at once ("holds", "fails", "not tried").
// In a process of its own, since a device that does not do what it should may take its process along; what it had
// answered until then is kept. Before anything of the driver was called here. Writes nothing.
nlohmann::ordered_json answers_of_devices();

}  // namespace thermocline
