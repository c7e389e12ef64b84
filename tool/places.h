// SPDX-License-Identifier: Apache-2.0
// Where the command finds what belongs to it: relative to its own executable, which is the same in the build tree and
// installed.
//
//   PREFIX/bin/thermocline
//   PREFIX/lib/libthermocline.so.1                          (PREFIX/lib/<multiarch>/ on Debian)
//   PREFIX/lib/thermocline/simulator/libcuda.so.1
#pragma once

#include <optional>
#include <string>

namespace thermocline {

// Each answers nothing when the file is not there; `looked` (may be null) then gets where it was expected.
std::optional<std::string> find_library(std::string* looked);
std::optional<std::string> find_simulator_folder(std::string* looked);
std::optional<std::string> find_simulator(std::string* looked);

}  // namespace thermocline
