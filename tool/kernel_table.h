// SPDX-License-Identifier: Apache-2.0
// What `thermocline kernels` prints: a row for each kernel, from the code in a file, or from what a run has told.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace thermocline {

// The rows, under "kernels" of an object as `thermocline-run/1` and `thermocline-kernels/1` have them. The file may be a
// program, a library, a fat binary, PTX, or such an object. Nothing, with a message in `reason`: it is none of these.
std::optional<nlohmann::ordered_json> read_kernels(const std::string& path, std::string* reason);

// Of one launch, as recorded.
struct KernelCost {
  std::uint64_t launches = 0;
  double microseconds = 0;  // of all
  double bytes = 0;         // of all: whole buffers that it is given
};
// By symbol, added to `costs`. False: a recording can not be read.
bool add_costs(const std::string& recording, std::map<std::string, KernelCost>* costs);
// Puts what a launch of each takes into the rows, "us" and "bytes".
void put_costs(const std::map<std::string, KernelCost>& costs, nlohmann::ordered_json* rows);

std::string kernel_table(const nlohmann::ordered_json& rows);

}  // namespace thermocline
