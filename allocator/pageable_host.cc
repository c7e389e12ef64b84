// SPDX-License-Identifier: Apache-2.0
#include "allocator/pageable_host.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>

#include "driver/free_memory.h"

namespace thermocline {
namespace {

// Left for others, who go on allocating: a sixteenth of what is free, and at least this.
constexpr Bytes kLeastSpare = 128 * kMiB;
constexpr Bytes kShareSpared = 16;
// Linux 5.14, include/uapi/asm-generic/mman-common.h.
constexpr int kPopulateWrite = 23;
constexpr Bytes kSmallestPage = 4 * kKiB;

int populate_by_kernel(void* at, Bytes bytes) { return madvise(at, bytes, kPopulateWrite); }

bool make_present(void* at, Bytes bytes, int (*populate)(void*, Bytes)) {
  if (populate(at, bytes) == 0) return true;
  if (errno != EINVAL) return false;
  // An older kernel.
  for (Bytes i = 0; i < bytes; i += kSmallestPage) static_cast<volatile char*>(at)[i] = 0;
  return true;
}

}  // namespace

void* take_pageable_host(Bytes bytes, const PageableSource& source) {
  const Bytes free = free_host_bytes(source.root);
  const Bytes spare = std::max(kLeastSpare, free / kShareSpared);
  if (free < spare || bytes > free - spare) return nullptr;
  void* const at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) return nullptr;
  if (make_present(at, bytes, source.populate != nullptr ? source.populate : populate_by_kernel)) return at;
  munmap(at, bytes);
  return nullptr;
}

bool give_pageable_host(void* at, Bytes bytes) { return munmap(at, bytes) == 0; }

}  // namespace thermocline
