// SPDX-License-Identifier: Apache-2.0
// Settings of the private jemalloc, which it reads when it begins. In a file of its own: jemalloc.h declares the name
// with default visibility, and nothing of ours is exported. host_pool.cc refers to it, so that it is linked.
//
// retain: extents would never come back to us. cache_oblivious: every extent would be a page larger than its class.
// narenas, tcache: nothing but arenas of our own is used, and without caches.
extern "C" {
__attribute__((visibility("hidden"))) extern const char* thermocline_je_malloc_conf;
const char* thermocline_je_malloc_conf = "retain:false,narenas:1,tcache:false,background_thread:false";
}
