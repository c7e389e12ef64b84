// SPDX-License-Identifier: Apache-2.0
// The storage for host copies for which there is no host memory: a file, or a substitute in tests. The interface of
// this folder to the outside.
#pragma once

#include <cstdint>
#include <string>

#include "driver/units.h"

namespace thermocline {

// The alignment of offsets, lengths and memory that unbuffered access requires on all file systems known to us.
inline constexpr Bytes kSpillAlignment = 4096;

inline constexpr Bytes spill_bytes_of(Bytes bytes) {
  return (bytes + kSpillAlignment - 1) / kSpillAlignment * kSpillAlignment;
}

// Thread-safe: any thread may make any call, at the same time as calls for other ranges. A call may take long, so none
// is made while holding a lock that others wait for. Results are 0, or a value of errno.
class SpillFile {
 public:
  SpillFile() = default;
  virtual ~SpillFile() = default;
  SpillFile(const SpillFile&) = delete;
  SpillFile& operator=(const SpillFile&) = delete;

  // Transfers all of it, or returns an error: then it is not known which part of the range has been written.
  virtual int write(Bytes offset, const void* memory, Bytes bytes) = 0;
  virtual int read(Bytes offset, void* memory, Bytes bytes) = 0;
  // Makes sure that there is room for the first `bytes` of the file. If the file system cannot tell, writes will find
  // out.
  virtual int reserve(Bytes bytes) = 0;
  // The checksum of memory that is about to be written, or has been read. Checksums of written data are kept in memory.
  virtual std::uint64_t checksum(const void* memory, Bytes bytes);
  // For display: where the file is, and how it is accessed.
  virtual std::string description() const { return {}; }
};

}  // namespace thermocline
