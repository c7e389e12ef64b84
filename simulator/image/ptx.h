// SPDX-License-Identifier: Apache-2.0
// Kernels and variables that PTX text declares. Bodies are skipped, except for the shared memory that they declare.
#pragma once

#include <string_view>

#include "simulator/image/image.h"

namespace simulator {

// Whether the text begins like a PTX module: after comments, with `.version`.
bool is_ptx(std::string_view text);

ImageResult read_ptx(std::string_view text, Image* out);

}  // namespace simulator
