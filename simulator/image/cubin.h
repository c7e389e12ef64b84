// SPDX-License-Identifier: Apache-2.0
// Kernels and variables of a cubin: an ELF file whose `.nv.info.<kernel>` sections describe the parameters, and whose
// data sections contain the variables.
#pragma once

#include <optional>

#include "simulator/image/bytes.h"
#include "simulator/image/image.h"

namespace simulator {

bool is_cubin(ByteSpan data);

// The size of the ELF file according to its headers; nothing if they are invalid. Reads only headers, as far as they
// refer to one another.
std::optional<std::uint64_t> cubin_bytes(const void* data);

ImageResult read_cubin(ByteSpan data, Image* out);

}  // namespace simulator
