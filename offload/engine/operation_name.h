// SPDX-License-Identifier: Apache-2.0
// What an operation is called in a report.
#pragma once

#include <string>
#include <string_view>

#include "offload/operation_info.h"

namespace thermocline {

// The name of a kernel as its source has it: demangled, without return type and parameters, and with the middle of long
// template arguments left out, so that no more than `most` characters remain. Other names stay as they are, but for their
// length.
std::string readable_kernel_name(std::string_view name, std::size_t most = 96);

// "kernel scale<float>", "cuMemcpyDtoDAsync", "aten::mm", "a CUDA graph"; "" where nothing is known of it.
std::string operation_name(const OperationInfo& info);

}  // namespace thermocline
