// SPDX-License-Identifier: Apache-2.0
// The kernel that computes digests, as PTX. Any device since Maxwell runs it; the driver compiles it at first use.
//
// Roofline: scripts/digest_roofline.py counts the compiled loop's instructions by pipe, and the loads that are issued
// before the first is used (docs/directions.md has the figures). A unit of 16 bytes takes about 51 instructions, which
// the pipes of an H200 execute faster than its memory delivers the unit. Each thread has to have four loads in flight:
// left to itself the compiler saves registers, and issues the last loads when the first have arrived. `.maxntid` and
// `.minnctapersm` allow it 56. All blocks are resident at once: three on a multiprocessor of an A100, two on an H100's.
// Not measured on a GPU.
//
// Each block writes one DigestRecord. The device adds nothing up, so no memory has to be cleared first and no atomic
// operation is needed. The ticket distinguishes the records of this launch from older ones.
//
// The second kernel compares that digest with the digest of a host copy, and copies if they differ. So nobody waits for
// the result: work that follows in stream order finds the host copy current. The kernel writes pinned memory itself:
// stores of 16 bytes a thread from 32 blocks keep 128 KiB in flight, and 50 GB/s times 1 us is 50 KB.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "driver/units.h"

namespace thermocline {

inline constexpr const char* kCopyKernel = "thermocline_copy_if_changed";
inline constexpr unsigned kCopyThreads = 256;
inline constexpr unsigned kMostCopyBlocks = 32;

inline constexpr const char* kDigestKernel = "thermocline_digest";
inline constexpr unsigned kDigestThreads = 384;
// Two blocks for each multiprocessor of an H100. The host reads their records.
inline constexpr unsigned kMostDigestBlocks = 264;

struct alignas(32) DigestRecord {
  std::uint64_t low, high;  // of the block's units
  std::uint64_t ticket;     // as launched
  std::uint64_t bytes;      // as launched
};

// The result of the second kernel.
struct alignas(16) CopyVerdict {
  static constexpr std::uint64_t kEqual = 1, kChanged = 2;  // equal: nothing has been copied
  std::uint64_t ticket;                                     // of the new digest
  std::uint64_t found;
};

// A module with both kernels. Parameters of the first kernel, 8 bytes each: the first address (a multiple of 16),
// bytes, the address of the records, the ticket.
std::string digest_code();

// Parameters of the second kernel, 8 bytes each: device address, bytes, host address (both addresses are multiples of
// 16); then the records of the new digest, its ticket and its number of blocks; the same three for the copy's digest;
// what else to subtract from the sums (the copy's digest if it is already known: then its number of blocks is 0); the
// address of the verdict. A missing record counts as a difference.
std::string copy_code();

// Returns `text` with every occurrence of `name` replaced by `value`.
std::string replaced(std::string text, std::string_view name, std::string_view value);

// The number of blocks to launch. Each thread gets at least four units if there are that many, and the same number of
// turns of four: units beyond these are loaded one by one.
unsigned digest_blocks(Bytes bytes);
unsigned copy_blocks(Bytes bytes);

}  // namespace thermocline
