// SPDX-License-Identifier: Apache-2.0
// The contents of memory, in one of two forms: bytes (real_contents.cc) or tags (tagged_contents.cc). Ranges are in
// this process's address space, for device and host memory alike; whether the device may access them has been checked
// before. Addresses may alias: contents belong to pages.
#pragma once

#include <memory>
#include <span>

#include "simulator/core/memory/page_table.h"
#include "simulator/core/memory/physical.h"
#include "simulator/core/types.h"

namespace simulator {

struct ByteRange {
  Address address = 0;
  Bytes bytes = 0;
};

class Contents {
 public:
  virtual ~Contents() = default;

  // Maps the run at `at` with this access; false when the system has no room for it. A run that was never mapped is
  // new.
  virtual bool show(Address at, PageRun run, Access access) = 0;
  virtual void hide(Address at, Bytes bytes) = 0;
  virtual void discard(PageRun run) = 0;  // its contents become zero
  // A new run takes its contents from an open memory file, from `offset` on, until it is discarded; the caller keeps
  // the file. False: contents are not bytes.
  virtual bool adopt(PageRun run, int file, Bytes offset) = 0;
  // The file that contains the run, and the offset; -1 if contents are not bytes.
  virtual int file_of(PageRun run, Bytes* offset) const = 0;
  virtual void forget_host(Address at, Bytes bytes) = 0;  // host memory was freed

  virtual void zero(Address at, Bytes bytes) = 0;
  // Fills with `value`, `element` bytes at a time; `at` and `bytes` are multiples of `element`.
  virtual void fill(Address at, Bytes bytes, std::uint64_t value, std::uint32_t element) = 0;
  virtual void copy(Address to, Address from, Bytes bytes) = 0;
  // A word that was written by write_word(), or, if contents are bytes, by anybody; 0 if it is unknown.
  virtual std::uint64_t word(Address at, std::uint32_t bytes) = 0;
  virtual void write_word(Address to, std::uint64_t value, std::uint32_t bytes) = 0;
  // Writes bytes from outside simulated memory.
  virtual void write(Address to, const void* from, Bytes bytes) = 0;
  // A hash of the contents of the ranges, as if they followed one another; depends on nothing else.
  virtual std::uint64_t digest(std::span<const ByteRange> ranges) = 0;
  std::uint64_t digest(Address at, Bytes bytes) {
    const ByteRange one{at, bytes};
    return digest(std::span(&one, 1));
  }
  // Replaces the contents with a sequence of bytes that only `seed` determines, in the order of the ranges.
  virtual void derive(std::span<const ByteRange> ranges, std::uint64_t seed) = 0;
  void derive(Address at, Bytes bytes, std::uint64_t seed) {
    const ByteRange one{at, bytes};
    derive(std::span(&one, 1), seed);
  }
};

std::unique_ptr<Contents> make_real_contents();
std::unique_ptr<Contents> make_tagged_contents(PageTable& table);

}  // namespace simulator
