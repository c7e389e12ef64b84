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
//
// The second kernel compares that digest with the one of a copy on the host, and copies where they differ. So nobody
// waits for the outcome: whoever follows it in stream order finds the copy current. Pinned memory is written by the
// kernel itself; a store of 16 bytes a thread from 32 blocks keeps 128 KiB in flight, and 50 GB/s times 1 us are 50 KB.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "driver/units.h"

namespace thermocline {

inline constexpr const char* kCopyKernel = "thermocline_copy_if_changed";
inline constexpr unsigned kMostCopyBlocks = 32;

inline constexpr const char* kDigestKernel = "thermocline_digest";
inline constexpr unsigned kDigestThreads = 256;
// Two a multiprocessor of an H100; the host reads their records.
inline constexpr unsigned kMostDigestBlocks = 264;

struct alignas(32) DigestRecord {
  std::uint64_t low, high;  // of the block's units
  std::uint64_t ticket;     // as launched
  std::uint64_t bytes;      // as launched
};

// What the second kernel found.
struct alignas(16) CopyVerdict {
  static constexpr std::uint64_t kEqual = 1, kChanged = 2;  // equal: nothing has been copied
  std::uint64_t ticket;                                     // of the new digest
  std::uint64_t found;
};

// A module of both. Parameters of the first, 8 bytes each: the first address (a multiple of 16), bytes, where the
// records go, the ticket.
std::string digest_code();

// Parameters of the second, 8 bytes each: the first address and the host's (multiples of 16, in the order address, bytes,
// host), the records of the new digest, its ticket and its blocks, the same of the copy's digest, what else to
// subtract from the sums (the digest itself where it is known; then the copy's digest has no blocks), where the verdict
// goes. A record that is missing counts as a difference.
std::string copy_code();

// `text` with `value` wherever it has `name`.
std::string replaced(std::string text, std::string_view name, std::string_view value);

// How many blocks to launch: each thread has four units at least, where there are as many.
unsigned digest_blocks(Bytes bytes);
unsigned copy_blocks(Bytes bytes);

}  // namespace thermocline
