// SPDX-License-Identifier: Apache-2.0
// A spill file on a device whose memory holds tags: host memory of the device's, into which the device copies the tags.
// Some of its writes fail.
#pragma once

#include <cuda.h>
#include <dlfcn.h>

#include <cerrno>

#include "driver/check.h"
#include "offload/spill/spill_file.h"

namespace thermocline::fuzz_engine {

class TagFile final : public SpillFile {
 public:
  // One write in so many fails; 0: none.
  TagFile(Bytes bytes, std::uint64_t fail_one_in) : fail_one_in_(fail_one_in) {
    void* const library = dlopen(THERMOCLINE_SIMULATED_CUDA, RTLD_NOW | RTLD_NOLOAD);
    THERMOCLINE_CHECK(library != nullptr, "the simulated device is loaded");
    copy_ = reinterpret_cast<decltype(copy_)>(dlsym(library, "cuMemcpy"));
    free_ = reinterpret_cast<decltype(free_)>(dlsym(library, "cuMemFreeHost"));
    const auto allocate =
        reinterpret_cast<CUresult (*)(void**, std::size_t, unsigned)>(dlsym(library, "cuMemHostAlloc"));
    THERMOCLINE_CHECK(allocate(&contents_, static_cast<std::size_t>(bytes), 0) == CUDA_SUCCESS, "memory for tags");
  }
  ~TagFile() override { free_(contents_); }

  int write(Bytes offset, const void* memory, Bytes bytes) override {
    if (fail_one_in_ != 0 && ++writes_ % fail_one_in_ == 0) return writes_ % (2 * fail_one_in_) == 0 ? EIO : ENOSPC;
    return copy(address_of(contents_) + offset, address_of(memory), bytes);
  }
  int read(Bytes offset, void* memory, Bytes bytes) override {
    return copy(address_of(memory), address_of(contents_) + offset, bytes);
  }
  int reserve(Bytes) override { return 0; }
  // There are no bytes to be read.
  std::uint64_t checksum(const void*, Bytes) override { return 0; }

  void stop_failing() { fail_one_in_ = 0; }

 private:
  static CUdeviceptr address_of(const void* at) { return reinterpret_cast<CUdeviceptr>(at); }
  int copy(CUdeviceptr to, CUdeviceptr from, Bytes bytes) {
    return copy_(to, from, static_cast<std::size_t>(bytes)) == CUDA_SUCCESS ? 0 : EIO;
  }

  CUresult (*copy_)(CUdeviceptr, CUdeviceptr, std::size_t) = nullptr;
  CUresult (*free_)(void*) = nullptr;
  void* contents_ = nullptr;
  std::uint64_t fail_one_in_, writes_ = 0;
};

}  // namespace thermocline::fuzz_engine
