// SPDX-License-Identifier: Apache-2.0
// Physical memory that other processes can have, too: each such run lives in a file of memory, and the file is what
// crosses (as a descriptor, or by the name that it has in its process's folder in /proc).
//
// One file is one run in a process, however often it is imported. The memory of another process's run is counted there:
// here it takes nothing. A file does not say whose memory it is: who takes it in says which device's it is here.
#pragma once

#include <cuda.h>

#include <optional>
#include <unordered_map>

#include "simulator/core/memory/contents.h"
#include "simulator/core/memory/physical.h"

namespace simulator {

class SharedFiles {
 public:
  SharedFiles(PhysicalMemory& physical, Contents& contents) : physical_(physical), contents_(contents) {}
  ~SharedFiles();
  SharedFiles(const SharedFiles&) = delete;
  SharedFiles& operator=(const SharedFiles&) = delete;

  // A run that was just created gets a file of its own.
  CUresult share(PhysicalId id);
  // Its descriptor, which stays ours; -1 where it has none.
  int file_of(PhysicalId id) const;
  // The run in the file; one more release is due. The descriptor stays the caller's.
  CUresult import(int file, PhysicalId* out, DeviceId device = 0);
  // `bytes` at a place of another process's memory; INVALID_HANDLE where there is no such thing any more.
  CUresult open(const FilePlace& place, Bytes bytes, PhysicalId* out, DeviceId device = 0);
  // Where a run of this process is that has no file of its own; nothing where contents are not bytes.
  std::optional<FilePlace> place_of(PageRun run) const;

  // To be told of every run that ends.
  void discarded(PageRun run);

 private:
  struct Shared {
    PhysicalId id = 0;
    int file = -1;
    std::uint64_t inode = 0;
  };
  CUresult adopt(int file, std::uint64_t inode, Bytes bytes, Bytes offset, PhysicalId* out, DeviceId device);

  PhysicalMemory& physical_;
  Contents& contents_;
  std::unordered_map<std::uint32_t, Shared> runs_;  // by first page; looked up, or searched for the one that matches
};

}  // namespace simulator
