// SPDX-License-Identifier: Apache-2.0
// Another malloc, loaded before or after the library. Like jemalloc and tcmalloc it calls dlsym in the middle of an
// allocation, and must not be called again meanwhile.
#include <dlfcn.h>

#include <atomic>
#include <cstddef>
#include <cstring>

namespace {

using Allocate = void* (*)(std::size_t);
using Release = void (*)(void*);
std::atomic<bool> searching{false};
std::atomic<Allocate> next_allocate{nullptr};
std::atomic<Release> next_release{nullptr};
// For allocations made during the search.
alignas(16) char spare[1 << 16];
std::atomic<std::size_t> spare_used{0};

bool is_spare(const void* at) { return at >= spare && at < spare + sizeof spare; }

void* take_spare(std::size_t bytes) {
  const std::size_t at = spare_used.fetch_add((bytes + 15) & ~std::size_t{15});
  return at + bytes <= sizeof spare ? spare + at : nullptr;
}

bool find_next() {
  if (next_allocate.load() != nullptr) return true;
  if (searching.exchange(true)) return false;
  // Also for a driver function: tests what a search does inside an allocation.
  static_cast<void>(dlsym(RTLD_DEFAULT, "cuMemAlloc_v2"));
  next_release.store(reinterpret_cast<Release>(dlsym(RTLD_NEXT, "free")));
  next_allocate.store(reinterpret_cast<Allocate>(dlsym(RTLD_NEXT, "malloc")));
  searching.store(false);
  return true;
}

}  // namespace

extern "C" {

__attribute__((visibility("default"))) void* malloc(std::size_t bytes) {
  return find_next() ? next_allocate.load()(bytes) : take_spare(bytes);
}

__attribute__((visibility("default"))) void free(void* at) {
  if (at == nullptr || is_spare(at)) return;
  if (find_next()) next_release.load()(at);
}

}  // extern "C"
