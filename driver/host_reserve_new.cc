// SPDX-License-Identifier: Apache-2.0
// The library's own operator new: malloc's memory, or else the reserve's (host_reserve.h). Linked into the library, where
// no name of it is visible to the program.
#include <cstdlib>
#include <new>

#include "driver/host_reserve.h"

namespace {

using thermocline::HostReserve;

void* from_reserve(std::size_t bytes, std::size_t alignment) {
  void* const at = HostReserve::take(bytes, alignment);
  if (at == nullptr) throw std::bad_alloc();
  return at;
}

void give(void* at) noexcept {
  if (!HostReserve::give(at)) std::free(at);
}

}  // namespace

void* operator new(std::size_t bytes) {
  void* const at = std::malloc(bytes == 0 ? 1 : bytes);
  return at != nullptr ? at : from_reserve(bytes, alignof(std::max_align_t));
}
void* operator new[](std::size_t bytes) { return operator new(bytes); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  const auto bound = static_cast<std::size_t>(alignment);
  void* const at = std::aligned_alloc(bound, (bytes + bound - 1) / bound * bound);
  return at != nullptr ? at : from_reserve(bytes, bound);
}
void* operator new[](std::size_t bytes, std::align_val_t alignment) { return operator new(bytes, alignment); }
// The caller does without memory, where there is none.
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept { return std::malloc(bytes == 0 ? 1 : bytes); }
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept { return std::malloc(bytes == 0 ? 1 : bytes); }

void operator delete(void* at) noexcept { give(at); }
void operator delete[](void* at) noexcept { give(at); }
void operator delete(void* at, std::size_t) noexcept { give(at); }
void operator delete[](void* at, std::size_t) noexcept { give(at); }
void operator delete(void* at, std::align_val_t) noexcept { give(at); }
void operator delete[](void* at, std::align_val_t) noexcept { give(at); }
void operator delete(void* at, std::size_t, std::align_val_t) noexcept { give(at); }
void operator delete[](void* at, std::size_t, std::align_val_t) noexcept { give(at); }
void operator delete(void* at, const std::nothrow_t&) noexcept { give(at); }
void operator delete[](void* at, const std::nothrow_t&) noexcept { give(at); }
