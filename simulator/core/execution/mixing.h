// SPDX-License-Identifier: Apache-2.0
// What a kernel without a host implementation does: it reads each buffer that its parameters name, whole, and writes
// each whole, from a hash of everything that it read. Any lost, stale or early byte changes all that it writes.
//
// It does not depend on addresses. A parameter word that points into a buffer, or one past its end, counts as (number,
// offset); one that points elsewhere into reserved or pinned addresses counts as "some address". Words are taken where
// a parameter of 8 bytes stands, and in larger ones (structs) at every byte. Bytes that the kernel does not load count
// for nothing: padding inside a struct is whatever the caller's stack held. Where it is not known what of a struct is
// loaded (`CountedByte::kInAnAddress`), the addresses in it count and the rest does not. A tensor map names the buffer
// that its tensor lies in; a texture is what it reads, a surface what it writes.
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

// All named buffers are accessible. Returns the hash of what was read, from which everything written follows.
std::uint64_t mix_buffers(const Kernel& kernel, Contents& contents);

}  // namespace simulator
