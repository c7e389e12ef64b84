// SPDX-License-Identifier: Apache-2.0
// The kernel that computes digests, as PTX. Any device since Maxwell runs it; the driver compiles it at first use.
//
// Roofline: a unit of 16 bytes takes some 52 integer instructions, half of them multiply-adds. An H100 executes about
// 14e12 of them a second (132 multiprocessors, 64 lanes, 1.7 GHz): 4.3 TB/s of units beside 3.35 TB/s of memory, so
// that memory is what it waits for. Four loads of 16 bytes a thread are under way at once: two blocks a multiprocessor
// keep 32 KiB in flight, and 3.35 TB/s times 600 ns are 15 KiB a multiprocessor. Not measured on a GPU.
//
// Each block writes one DigestRecord; nothing is added up on the device, so no memory has to be cleared before and no
// atomic operation is needed. The ticket tells records of this launch from older ones.
#pragma once

#include <cstdint>
#include <string>

#include "driver/units.h"

namespace thermocline {

inline constexpr const char* kDigestKernel = "thermocline_digest";
inline constexpr unsigned kDigestThreads = 256;
// Two a multiprocessor of an H100; the host reads their records.
inline constexpr unsigned kMostDigestBlocks = 264;

struct alignas(32) DigestRecord {
  std::uint64_t low, high;  // of the block's units
  std::uint64_t ticket;     // as launched
  std::uint64_t bytes;      // as launched
};

// Parameters, 8 bytes each: the first address (a multiple of 16), bytes, where the records go, the ticket.
std::string digest_code();

// How many blocks to launch: each thread has four units at least, where there are as many.
unsigned digest_blocks(Bytes bytes);

}  // namespace thermocline
