// SPDX-License-Identifier: Apache-2.0
// A peer for bench/peers that takes its addresses from malloc, and says that it holds what has been live at most.
#include <malloc.h>

#include <atomic>
#include <cstddef>
#include <cstdlib>

#define PLAIN_PEER extern "C" __attribute__((visibility("default")))

namespace {

std::atomic<std::size_t> live{0}, peak{0};

}  // namespace

PLAIN_PEER const char* peer_name() { return "plain"; }
PLAIN_PEER void* peer_allocate(std::size_t bytes) {
  void* const buffer = std::malloc(bytes);
  const std::size_t now = live += malloc_usable_size(buffer);
  for (std::size_t before = peak; before < now && !peak.compare_exchange_weak(before, now);) {
  }
  return buffer;
}
PLAIN_PEER void peer_free(void* buffer) {
  live -= malloc_usable_size(buffer);
  std::free(buffer);
}
PLAIN_PEER std::size_t peer_reserved() { return peak; }
PLAIN_PEER void* peer_allocate_on(std::size_t bytes, unsigned) { return peer_allocate(bytes); }
PLAIN_PEER void peer_free_on(void* buffer, unsigned) { peer_free(buffer); }
