// SPDX-License-Identifier: Apache-2.0
// Tells tools, through an NVTX range, what the thread is doing. Without a tool this costs a test of one pointer.
#pragma once

#include "driver/units.h"

namespace thermocline {

// While an object of this class lives, copies made by the thread may read memory that other work is writing at the same
// time, and no result depends on what they read (docs/race_checker.md).
class UnorderedReads {
 public:
  // If `tell` is false, no range is opened and NVTX does not look for a tool.
  explicit UnorderedReads(bool tell);
  ~UnorderedReads();
  UnorderedReads(const UnorderedReads&) = delete;
  UnorderedReads& operator=(const UnorderedReads&) = delete;

 private:
  const bool told_;
};

// While one lives, kernels that the thread launches read these bytes, and no other device memory, and write no
// device memory. `host`, if not null: as many bytes of host memory, which they either write completely or leave
// unchanged.
class DeclaredAccesses {
 public:
  DeclaredAccesses(bool tell, DeviceAddress at, Bytes bytes, const void* host);
  ~DeclaredAccesses();
  DeclaredAccesses(const DeclaredAccesses&) = delete;
  DeclaredAccesses& operator=(const DeclaredAccesses&) = delete;

 private:
  const bool told_;
};

}  // namespace thermocline
