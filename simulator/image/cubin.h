// SPDX-License-Identifier: Apache-2.0
// Kernels and variables of a cubin: an ELF file whose `.nv.info.<kernel>` sections describe each parameter, and whose
// data sections hold the variables.
#pragma once

#include <optional>

#include "simulator/image/bytes.h"
#include "simulator/image/image.h"

namespace simulator {

bool is_cubin(ByteSpan data);

// How long the ELF file says it is; nothing where that can not be told. Reads through headers at `data` only as far as
// they lead.
std::optional<std::uint64_t> cubin_bytes(const void* data);

ImageResult read_cubin(ByteSpan data, Image* out);

}  // namespace simulator
