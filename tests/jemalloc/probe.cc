// SPDX-License-Identifier: Apache-2.0
// A shared library that contains the private jemalloc in the same way as libthermocline.so.1.
#include <jemalloc/jemalloc.h>

#include <cstddef>

extern "C" {

[[gnu::visibility("default")]] void* probe_allocate(std::size_t bytes) {
  return thermocline_je_mallocx(bytes, MALLOCX_ALIGN(4096));
}

[[gnu::visibility("default")]] void probe_free(void* pointer) { thermocline_je_dallocx(pointer, 0); }
}
