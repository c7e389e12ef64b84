// SPDX-License-Identifier: Apache-2.0
// Physical memory that can be shared with other processes: each such run is in a memory file of its own. The file is
// passed to the other process, as a descriptor or as a path in its process's folder in /proc.
//
// One file is one run in a process, however often it is imported. The memory of another process's run is counted there,
// not here. A file does not say which device has the memory; the importer says which device it belongs to here.
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

  // Gives a run that was just created a file of its own.
  CUresult share(PhysicalId id);
  // Its descriptor, which this object owns; -1 if it has none.
  int file_of(PhysicalId id) const;
  // The run in the file; needs one more release. The caller keeps the descriptor.
  CUresult import(int file, PhysicalId* out, DeviceId device = 0);
  // `bytes` at a place in another process's memory; INVALID_HANDLE if it no longer exists.
  CUresult open(const FilePlace& place, Bytes bytes, PhysicalId* out, DeviceId device = 0);
  // The place of a run that has no file of its own; nothing if contents are not bytes.
  std::optional<FilePlace> place_of(PageRun run) const;

  // Must be called for every run that ends.
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
  std::unordered_map<std::uint32_t, Shared> runs_;  // by first page; iterated only to find the one that matches
};

}  // namespace simulator
