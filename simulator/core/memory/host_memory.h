// SPDX-License-Identifier: Apache-2.0
// Pinned host memory: allocated here, or allocated by the program and registered. Allocated memory takes no real memory
// before it is accessed, which in tagged mode it never is.
#pragma once

#include <cuda.h>

#include <map>
#include <optional>

#include "simulator/core/memory/address_space.h"
#include "simulator/core/memory/contents.h"

namespace simulator {

class HostMemory {
 public:
  // `most`: limit of pinned bytes.
  explicit HostMemory(Contents& contents, Bytes most = ~Bytes{0}) : contents_(contents), most_(most) {}
  ~HostMemory();

  CUresult allocate(Bytes bytes, void** out);
  CUresult free(void* at);
  CUresult pin(void* at, Bytes bytes);
  CUresult unpin(void* at);
  std::optional<Span> find(Address at) const;

  Bytes pinned() const { return pinned_; }
  Bytes peak() const { return peak_; }

 private:
  struct Range {
    Bytes bytes = 0;
    bool allocated = false;
  };

  CUresult drop(void* at, bool allocated);
  void add(Address at, Range range);

  Contents& contents_;
  const Bytes most_;
  std::map<Address, Range> ranges_;
  Bytes pinned_ = 0;
  Bytes peak_ = 0;
};

}  // namespace simulator
