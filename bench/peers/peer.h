// SPDX-License-Identifier: Apache-2.0
// An allocator beside which ours is measured: a shared object with these four functions. They are called by several
// threads. All buffers are on one stream, which is the same for all calls.
#pragma once

#include <cstddef>

extern "C" {
// The name under which results are printed.
const char* peer_name();
// The address of a new buffer. The program ends when there is none.
void* peer_allocate(std::size_t bytes);
void peer_free(void* buffer);
// Bytes of device memory that the allocator holds, whether or not buffers are in them.
std::size_t peer_reserved();
}
