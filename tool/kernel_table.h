// SPDX-License-Identifier: Apache-2.0
// The rows of `thermocline kernels`, one for each kernel: from the code in a file, or from the results of a run.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace thermocline {

// Returns the rows, under "kernels" of an object as in `thermocline-run/1` and `thermocline-kernels/1`. The file may be
// a program, a library, a fat binary, PTX, or such an object. Nothing, with a message in `reason`: none of these.
std::optional<nlohmann::ordered_json> read_kernels(const std::string& path, std::string* reason);

// The cost of a kernel's launches, as recorded.
struct KernelCost {
  std::uint64_t launches = 0;
  double microseconds = 0;  // of all launches
  double bytes = 0;         // of all launches: whole buffers that they are given
};
// Adds the costs in a recording to `costs`, by symbol. False: the recording cannot be read.
bool add_costs(const std::string& recording, std::map<std::string, KernelCost>* costs);
// Adds the average cost of a launch to each row, as "us" and "bytes".
void put_costs(const std::map<std::string, KernelCost>& costs, nlohmann::ordered_json* rows);

std::string kernel_table(const nlohmann::ordered_json& rows);

}  // namespace thermocline
