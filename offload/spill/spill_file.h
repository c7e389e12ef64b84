// SPDX-License-Identifier: Apache-2.0
// Where copies go for which there is no host memory: a file, or what a test puts in its place. The interface of this
// folder to the outside.
#pragma once

#include <cstdint>
#include <string>

#include "driver/units.h"

namespace thermocline {

// Of offsets, lengths and memory: what unbuffered access asks for on all file systems that are known to us.
inline constexpr Bytes kSpillAlignment = 4096;

inline constexpr Bytes spill_bytes_of(Bytes bytes) {
  return (bytes + kSpillAlignment - 1) / kSpillAlignment * kSpillAlignment;
}

// Thread-safe: each call may come from any thread, at the same time as others for other ranges. Calls may take long, so
// none is made with a lock held that others wait for. Results are 0, or a number of errno.
class SpillFile {
 public:
  SpillFile() = default;
  virtual ~SpillFile() = default;
  SpillFile(const SpillFile&) = delete;
  SpillFile& operator=(const SpillFile&) = delete;

  // All of it, or an error: what of the range has been written then is not known.
  virtual int write(Bytes offset, const void* memory, Bytes bytes) = 0;
  virtual int read(Bytes offset, void* memory, Bytes bytes) = 0;
  // Makes sure that there is room for the first `bytes` of the file; where the file system can not say, that is found
  // out by writing.
  virtual int reserve(Bytes bytes) = 0;
  // Of memory that is about to be written, or has been read. The checksum of what has been written is kept in memory.
  virtual std::uint64_t checksum(const void* memory, Bytes bytes);
  // For people: where it is, and how it is accessed.
  virtual std::string description() const { return {}; }
};

}  // namespace thermocline
