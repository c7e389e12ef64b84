// SPDX-License-Identifier: Apache-2.0
// Ordinary memory that is present from the beginning. mmap alone commits nothing: the pages would be missed in the
// middle of a copy, where the kernel does not refuse but ends a process.
#pragma once

#include <string>

#include "driver/units.h"

namespace thermocline {

// For tests: where files of the kernel are, and what makes pages present (madvise).
struct PageableSource {
  std::string root;
  int (*populate)(void* at, Bytes bytes) = nullptr;
};

// Null unless the machine and the process's control groups have these bytes and something to spare.
void* take_pageable_host(Bytes bytes, const PageableSource& source = {});
bool give_pageable_host(void* at, Bytes bytes);

}  // namespace thermocline
