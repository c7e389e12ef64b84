// SPDX-License-Identifier: Apache-2.0
// The library's two kernels of digests (offload/digest/digest_code.h), where memory holds tags: their code would read
// bytes, and there are none. So they are recognised by their names, and do with tags what their code does with bytes.
// Their records and verdicts are bytes, in pinned memory, which the host reads.
#pragma once

#include <optional>

#include "simulator/core/memory/contents.h"
#include "simulator/core/streams/operation.h"

namespace simulator {

// Returns the accesses of such a kernel; none: it is another kernel.
std::optional<Declared> accesses_of_digests(const Kernel& kernel);

// Runs such a kernel.
void compute_digests(Kernel& kernel, Contents& contents);

}  // namespace simulator
