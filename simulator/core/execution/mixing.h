// SPDX-License-Identifier: Apache-2.0
// The effect of a kernel without a host implementation: it reads each buffer that its parameters name completely, and
// overwrites each completely, with contents derived from a hash of everything that it read. So any lost, stale or early
// byte changes everything that the kernel writes.
//
// The result does not depend on addresses. A parameter word that points into a buffer, or one past its end, counts as
// (number, offset); one that points elsewhere into reserved or pinned addresses counts as "some address". A parameter
// of 8 bytes is one word; in larger ones (structs) there is a word at every byte. Bytes that the kernel does not load
// do not count: padding in a struct has arbitrary contents from the caller's stack. If it is unknown which parts of a
// struct are loaded (`CountedByte::kInAnAddress`), only the addresses in it count. A tensor map names the buffer that
// contains its tensor; a texture counts as what it reads, a surface as what it writes.
#pragma once

#include "simulator/core/execution/textures.h"
#include "simulator/core/memory/address_space.h"
#include "simulator/core/memory/buffers.h"
#include "simulator/core/memory/contents.h"
#include "simulator/core/memory/host_memory.h"
#include "simulator/core/streams/operation.h"

namespace simulator {

// Fills in the kernel's named buffers and identity.
void name_buffers(Kernel& kernel, const Buffers& buffers, const AddressSpace& addresses, const HostMemory& host,
                  const Textures& textures);

// All named buffers must be accessible. Returns the hash of what was read, which determines everything written.
std::uint64_t mix_buffers(const Kernel& kernel, Contents& contents);

}  // namespace simulator
