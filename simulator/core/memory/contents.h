// SPDX-License-Identifier: Apache-2.0
// What memory holds, in one of two ways: bytes (real_contents.h) or tags (tagged_contents.h). Ranges are in this
// process's address space, device and host alike; whether the device may access them has been checked before. Addresses
// may alias: contents belong to pages.
#pragma once

#include <memory>

#include "simulator/core/memory/page_table.h"
#include "simulator/core/memory/physical.h"
#include "simulator/core/types.h"

namespace simulator {

class Contents {
 public:
  virtual ~Contents() = default;

  // The run stands behind `at` with this access; false when the system has no room for it. The run is new when it was
  // never shown.
  virtual bool show(Address at, PageRun run, Access access) = 0;
  virtual void hide(Address at, Bytes bytes) = 0;
  virtual void discard(PageRun run) = 0;  // its contents become zero
  // A new run's contents are those of an open file of memory from `offset` on, until it is discarded; the file stays
  // the caller's. False: contents are not bytes.
  virtual bool adopt(PageRun run, int file, Bytes offset) = 0;
  // The file that holds the run, and where; -1 where contents are not bytes.
  virtual int file_of(PageRun run, Bytes* offset) const = 0;
  virtual void forget_host(Address at, Bytes bytes) = 0;  // host memory went away

  virtual void zero(Address at, Bytes bytes) = 0;
  // `element` bytes of `value`, repeated; at and bytes are multiples of it.
  virtual void fill(Address at, Bytes bytes, std::uint64_t value, std::uint32_t element) = 0;
  virtual void copy(Address to, Address from, Bytes bytes) = 0;
  // A word that was written by write_word(), or by anybody where contents are bytes; 0 where that is not known.
  virtual std::uint64_t word(Address at, std::uint32_t bytes) = 0;
  virtual void write_word(Address to, std::uint64_t value, std::uint32_t bytes) = 0;
  // From bytes that are not in simulated memory.
  virtual void write(Address to, const void* from, Bytes bytes) = 0;
  // A hash of what the range holds; depends on nothing else.
  virtual std::uint64_t digest(Address at, Bytes bytes) = 0;
  // New contents that `seed` alone determines.
  virtual void derive(Address at, Bytes bytes, std::uint64_t seed) = 0;
};

std::unique_ptr<Contents> make_real_contents();
std::unique_ptr<Contents> make_tagged_contents(PageTable& table);

}  // namespace simulator
