// SPDX-License-Identifier: Apache-2.0
// Copies and sets of one range that are larger than the room on the device: done in parts, each an operation of its own
// in stream order, that end where an eviction unit does. So a unit that is overwritten whole is never brought back.
#pragma once

#include <cstddef>

#include "hooks/submit.h"

namespace thermocline {

// The part of so many bytes that begins so many bytes behind the beginning.
using Part = CallOf<std::size_t, std::size_t>;

// `accesses` are those of all of it, and are not looked at again when parts begin. 0 stands for an end that is no
// device memory, or of no matter. What can be done at once, and what is recorded, is one part. An error: the parts
// before have been submitted.
CUresult in_parts(StreamHandle stream, const AccessList& accesses, CUdeviceptr to, CUdeviceptr from, std::size_t bytes,
                  Part part);

}  // namespace thermocline
