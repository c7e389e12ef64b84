// SPDX-License-Identifier: Apache-2.0
// The names of operations in reports.
#pragma once

#include <string>
#include <string_view>

#include "offload/operation_info.h"

namespace thermocline {

// The name of a kernel as in its source: demangled, without return type and parameters. The middle of long template
// arguments is left out, so that at most `most` characters remain. Other names are unchanged, except that they are
// shortened too.
std::string readable_kernel_name(std::string_view name, std::size_t most = 96);

// "kernel scale<float>", "cuMemcpyDtoDAsync", "aten::mm", "a CUDA graph"; "" if nothing is known about the operation.
std::string operation_name(const OperationInfo& info);

}  // namespace thermocline
