// SPDX-License-Identifier: Apache-2.0
// Tells tools, through a range of NVTX, what the thread is doing. Without a tool that is a test of one pointer.
#pragma once

#include "driver/units.h"

namespace thermocline {

// While one lives, copies of the thread read what others may be writing at the same time, and nothing depends on it
// (docs/race_checker.md).
class UnorderedReads {
 public:
  // False: tools are told nothing, and NVTX does not look for any.
  explicit UnorderedReads(bool tell);
  ~UnorderedReads();
  UnorderedReads(const UnorderedReads&) = delete;
  UnorderedReads& operator=(const UnorderedReads&) = delete;

 private:
  const bool told_;
};

// While one lives, kernels that the thread launches read these bytes, and nothing else of the device's memory, and
// write none of it.
class DeclaredRead {
 public:
  DeclaredRead(bool tell, DeviceAddress at, Bytes bytes);
  ~DeclaredRead();
  DeclaredRead(const DeclaredRead&) = delete;
  DeclaredRead& operator=(const DeclaredRead&) = delete;

 private:
  const bool told_;
};

}  // namespace thermocline
