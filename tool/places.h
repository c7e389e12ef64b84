// SPDX-License-Identifier: Apache-2.0
// Where the command finds the files that belong to it: relative to its own executable, in the same way in the build
// tree and when installed.
//
//   PREFIX/bin/thermocline
//   PREFIX/lib/libthermocline.so.1                          (PREFIX/lib/<multiarch>/ on Debian)
//   PREFIX/lib/thermocline/simulator/libcuda.so.1
#pragma once

#include <optional>
#include <string>

namespace thermocline {

// Each returns nothing if the file does not exist; `looked` (may be null) then gets the expected location.
std::optional<std::string> find_library(std::string* looked);
std::optional<std::string> find_simulator_folder(std::string* looked);
std::optional<std::string> find_simulator(std::string* looked);

}  // namespace thermocline
