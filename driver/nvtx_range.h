// SPDX-License-Identifier: Apache-2.0
// Tells tools, through a range of NVTX, what the thread is doing. Without a tool that is a test of one pointer.
#pragma once

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

}  // namespace thermocline
