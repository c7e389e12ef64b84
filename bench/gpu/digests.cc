// SPDX-License-Identifier: Apache-2.0
// gpu_digests [MIB [TURNS]]: the speed of the library's digest kernel, beside what the device's memory allows; prints
// one JSON object on stdout. Status 1: a digest is wrong, or a call failed. 4: no usable device.
//
// An area of MIB (default 1024, at most half of what is free; larger than any cache) is digested in parts of several
// sizes, one launch for each, between two events; the median of TURNS (default 7). Beside it: a copy within the area,
// which reads and writes each byte, and the product of the memory's clock and width (0: the driver does not tell).
#include <cuda.h>
#include <dlfcn.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "bench/gpu/driver_calls.h"
#include "offload/digest/digest.h"
#include "offload/digest/digest_code.h"

namespace {

using namespace thermocline;

using namespace gpu_bench;

constexpr std::size_t kMiBytes = std::size_t{1} << 20;

class Bench {
 public:
  Bench(std::size_t bytes, int turns) : turns_(turns) {
    driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    if (driver == nullptr) end(4, std::string("no driver: ") + dlerror());
    if (CUDA(cuInit)(0) != CUDA_SUCCESS || CUDA(cuDeviceGet)(&device_, 0) != CUDA_SUCCESS) end(4, "no usable device");
    CUcontext context = nullptr;
    CHECK(CUDA(cuDevicePrimaryCtxRetain)(&context, device_));
    CHECK(CUDA(cuCtxSetCurrent)(context));
    CHECK(CUDA(cuStreamCreate)(&stream_, CU_STREAM_NON_BLOCKING));
    for (CUevent* event : {&first_, &last_}) CHECK(CUDA(cuEventCreate)(event, CU_EVENT_DEFAULT));
    std::size_t free = 0, total = 0;
    CHECK(CUDA(cuMemGetInfo)(&free, &total));
    bytes_ = std::min(bytes, free / 2) / (2 * kLargest) * (2 * kLargest);
    if (bytes_ == 0) end(1, "too little memory is free");
    CHECK(CUDA(cuMemAlloc)(&area_, bytes_));
    CHECK(CUDA(cuMemHostAlloc)(reinterpret_cast<void**>(&records_), kMostDigestBlocks * sizeof(DigestRecord), 0));
    CHECK(CUDA(cuModuleLoadData)(&module_, digest_code().c_str()));
    CHECK(CUDA(cuModuleGetFunction)(&kernel_, module_, kDigestKernel));
    CHECK(CUDA(cuMemsetD8Async)(area_, 0, bytes_, stream_));
  }

  // Verifies the digest of contents that the host knows.
  void verify() {
    std::vector<std::byte> contents(3 * kMiBytes + 5);
    std::uint32_t state = 1;
    for (std::byte& byte : contents) byte = static_cast<std::byte>((state = state * 1664525u + 1013904223u) >> 24);
    CHECK(CUDA(cuStreamSynchronize)(stream_));
    CHECK(CUDA(cuMemcpyHtoD)(area_, contents.data(), contents.size()));
    // It may return before the bytes have arrived.
    CHECK(CUDA(cuCtxSynchronize)());
    launch(area_, contents.size(), 77);
    CHECK(CUDA(cuStreamSynchronize)(stream_));
    Digest sum;
    for (unsigned i = 0; i < digest_blocks(contents.size()); ++i) {
      if (records_[i].ticket != 77 || records_[i].bytes != contents.size()) end(1, "a block has left no record");
      sum += Digest{records_[i].low, records_[i].high};
    }
    if (!(sum == digest_of(contents))) end(1, "the digest is not that of the host");
  }

  // Bytes a second.
  double digested(std::size_t part) {
    return static_cast<double>(bytes_) / seconds([&] {
             for (std::size_t at = 0; at < bytes_; at += part) launch(area_ + at, part, 1);
           });
  }
  double copied() {
    return static_cast<double>(bytes_) /
           seconds([&] { CHECK(CUDA(cuMemcpyDtoDAsync)(area_ + bytes_ / 2, area_, bytes_ / 2, stream_)); });
  }
  double specified() {
    int khz = 0, bits = 0;
    if (CUDA(cuDeviceGetAttribute)(&khz, CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, device_) != CUDA_SUCCESS) return 0;
    if (CUDA(cuDeviceGetAttribute)(&bits, CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, device_) != CUDA_SUCCESS)
      return 0;
    // Twice in each cycle.
    return 2e3 * khz * bits / 8;
  }
  std::size_t bytes() const { return bytes_; }
  static constexpr std::size_t kLargest = 64 * kMiBytes;

 private:
  void launch(CUdeviceptr at, std::size_t part, std::uint64_t ticket) {
    std::uint64_t values[] = {at, part, reinterpret_cast<std::uint64_t>(records_), ticket};
    void* parameters[] = {&values[0], &values[1], &values[2], &values[3]};
    CHECK(CUDA(cuLaunchKernel)(kernel_, digest_blocks(part), 1, 1, kDigestThreads, 1, 1, 0, stream_, parameters,
                               nullptr));
  }
  template <class Work>
  double seconds(Work work) {
    std::vector<double> all;
    for (int turn = 0; turn < turns_; ++turn) {
      CHECK(CUDA(cuEventRecord)(first_, stream_));
      work();
      CHECK(CUDA(cuEventRecord)(last_, stream_));
      CHECK(CUDA(cuStreamSynchronize)(stream_));
      float ms = 0;
      CHECK(CUDA(cuEventElapsedTime)(&ms, first_, last_));
      all.push_back(static_cast<double>(ms) / 1e3);
    }
    std::ranges::sort(all);
    return all[all.size() / 2];
  }

  int turns_;
  CUdevice device_ = 0;
  CUstream stream_ = nullptr;
  CUevent first_ = nullptr, last_ = nullptr;
  CUmodule module_ = nullptr;
  CUfunction kernel_ = nullptr;
  CUdeviceptr area_ = 0;
  DigestRecord* records_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  program = "gpu_digests";
  const long mib = argc > 1 ? std::atol(argv[1]) : 1024;
  const int turns = argc > 2 ? std::atoi(argv[2]) : 7;
  if (argc > 3 || mib < 128 || turns < 1) end(2, "usage: gpu_digests [MIB [TURNS]], at least 128 and 1");
  Bench bench(static_cast<std::size_t>(mib) * kMiBytes, turns);
  bench.verify();
  std::string digested;
  for (const std::size_t part : {std::size_t{2}, std::size_t{8}, std::size_t{32}, std::size_t{64}}) {
    if (!digested.empty()) digested += ", ";
    digested += "\"" + std::to_string(part) + "MiB\": " + std::to_string(bench.digested(part * kMiBytes) / 1e9);
  }
  std::printf("{\"area_bytes\": %zu, \"digested_gb_s\": {%s}, \"copied_gb_s\": %.3f, \"specified_gb_s\": %.3f}\n",
              bench.bytes(), digested.c_str(), 1e-9 * bench.copied(), 1e-9 * bench.specified());
}
