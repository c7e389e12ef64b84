// SPDX-License-Identifier: Apache-2.0
// Settings of the private jemalloc, which it reads at initialization. They are in a separate file because jemalloc.h
// declares the name with default visibility, and the library must not export it. host_pool.cc refers to the name, so
// that this file is linked.
// Compiled alone: for the same reason.
//
//   - retain: otherwise extents would never be returned to the hooks.
//   - cache_oblivious: otherwise every extent would be a page larger than its size class.
//   - narenas, tcache: only arenas of this library are used, without caches.
extern "C" {
__attribute__((visibility("hidden"))) extern const char* thermocline_je_malloc_conf;
const char* thermocline_je_malloc_conf = "retain:false,narenas:1,tcache:false,background_thread:false";
}
