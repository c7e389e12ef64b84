// SPDX-License-Identifier: Apache-2.0
// An allocator with which ours is compared: a shared object with these functions. Several threads call them. All
// buffers are on one stream, which is the same for all calls, unless a function names another.
#pragma once

#include <cstddef>

extern "C" {
// The name under which results are printed, with the version.
const char* peer_name();
// The address of a new buffer. The program ends when there is none.
void* peer_allocate(std::size_t bytes);
void peer_free(void* buffer);
// Bytes of device memory that the allocator holds, whether or not buffers are in them.
std::size_t peer_reserved();

// Only for sequences of several threads: the same on one of several streams, counted from 0. An allocator without
// streams ignores the number.
void* peer_allocate_on(std::size_t bytes, unsigned stream);
void peer_free_on(void* buffer, unsigned stream);
}
