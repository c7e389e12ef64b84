// SPDX-License-Identifier: Apache-2.0
#include "tests/preload/programs/workload.h"

#include <algorithm>
#include <cstring>

namespace program {

Workload::Workload(const Cuda& cuda, const Plan& plan, CUmodule module, CUstream stream)
    : cuda_(cuda), plan_(plan), stream_(stream), host_(plan.buffer_bytes), state_(plan.seed * 0x9e3779b97f4a7c15u + 1) {
  CHECK(cuda_.cuModuleGetFunction(&combine_, module, "combine"));
  CHECK(cuda_.cuModuleGetFunction(&scatter_, module, "scatter"));
  CHECK(cuda_.cuModuleGetFunction(&mix_, module, "mix"));
  CHECK(cuda_.cuMemAllocHost(&pinned_, plan.buffer_bytes));
  if (plan_.memory == Memory::kPool) {
    CUmemPoolProps properties{};
    properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    CHECK(cuda_.cuMemPoolCreate(&pool_, &properties));
  }
}

Workload::~Workload() {
  CHECK(cuda_.cuMemFreeHost(pinned_));
  if (pool_ != nullptr) CHECK(cuda_.cuMemPoolDestroy(pool_));
}

// xorshift64* (Vigna 2014).
std::uint64_t Workload::random() {
  state_ ^= state_ >> 12;
  state_ ^= state_ << 25;
  state_ ^= state_ >> 27;
  return state_ * 0x2545f4914f6cdd1du;
}

Workload::Buffer& Workload::any() { return buffers_[random() % buffers_.size()]; }

void Workload::allocate_all() {
  for (std::size_t i = 0; i < plan_.buffers; ++i) {
    // Odd sizes; every fourth buffer is small.
    const std::size_t bytes = i % 4 == 3 ? 64 * 1024 + 256 * i : plan_.buffer_bytes - 4096 * i;
    buffers_.push_back({0, bytes});
    replace(buffers_.back());
  }
}

void Workload::replace(Buffer& buffer) {
  if (buffer.address != 0 && plan_.memory == Memory::kPlain) CHECK(cuda_.cuMemFree(buffer.address));
  if (buffer.address != 0 && plan_.memory != Memory::kPlain) CHECK(cuda_.cuMemFreeAsync(buffer.address, stream_));
  switch (plan_.memory) {
    case Memory::kPlain:
      CHECK(cuda_.cuMemAlloc(&buffer.address, buffer.bytes));
      break;
    case Memory::kInOrder:
      CHECK(cuda_.cuMemAllocAsync(&buffer.address, buffer.bytes, stream_));
      break;
    case Memory::kPool:
      CHECK(cuda_.cuMemAllocFromPoolAsync(&buffer.address, buffer.bytes, pool_, stream_));
      break;
  }
  fill(buffer);
}

void Workload::fill(const Buffer& buffer) {
  const std::uint64_t value = random();
  // A buffer is filled first, so it has no undefined bytes: the contents of a new one are not specified.
  CHECK(cuda_.cuMemsetD32Async(buffer.address, static_cast<unsigned>(value), buffer.bytes / 4, stream_));
  const std::size_t part = std::min<std::size_t>(buffer.bytes / 2, 100'000);
  std::memset(host_.data(), static_cast<int>(value >> 56), part);
  if (value % 3 == 0) {
    CHECK(cuda_.cuMemcpyHtoDAsync(buffer.address + buffer.bytes / 4, host_.data(), part, stream_));
    CHECK(cuda_.cuStreamSynchronize(stream_));
  } else if (value % 3 == 1) {
    std::memset(pinned_, static_cast<int>(value >> 48), part);
    CHECK(cuda_.cuMemcpyAsync(buffer.address + 12, reinterpret_cast<CUdeviceptr>(pinned_), part, stream_));
    CHECK(cuda_.cuStreamSynchronize(stream_));
  }
}

void Workload::launch(CUfunction function, void** parameters, const void* block, std::size_t block_bytes) {
  if (plan_.launch == Launch::kParameters) {
    CHECK(cuda_.cuLaunchKernel(function, 4, 1, 1, 32, 1, 1, 0, stream_, parameters, nullptr));
    return;
  }
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, const_cast<void*>(block), CU_LAUNCH_PARAM_BUFFER_SIZE, &block_bytes,
                   CU_LAUNCH_PARAM_END};
  if (plan_.launch == Launch::kExtra) {
    CHECK(cuda_.cuLaunchKernel(function, 4, 1, 1, 32, 1, 1, 0, stream_, nullptr, extra));
    return;
  }
  CUlaunchConfig config{};
  config.gridDimX = 4;
  config.gridDimY = config.gridDimZ = config.blockDimY = config.blockDimZ = 1;
  config.blockDimX = 32;
  config.hStream = stream_;
  CHECK(cuda_.cuLaunchKernelEx(&config, function, parameters, nullptr));
}

void Workload::combine(const Buffer& to, const Buffer& a, const Buffer& b) {
  struct {
    CUdeviceptr to, a, b;
    std::uint32_t words;
    std::uint64_t salt;
  } block{to.address, a.address, b.address, static_cast<std::uint32_t>(std::min({to.bytes, a.bytes, b.bytes}) / 4),
          random()};
  void* parameters[] = {&block.to, &block.a, &block.b, &block.words, &block.salt};
  launch(combine_, parameters, &block, sizeof block);
}

void Workload::scatter(const Buffer& to, const Buffer& from) {
  struct __attribute__((packed)) {
    unsigned char shift;
    CUdeviceptr to;
    std::uint32_t words;
    CUdeviceptr from;
  } block{static_cast<unsigned char>(random()), to.address,
          static_cast<std::uint32_t>(std::min(to.bytes, from.bytes) / 4), from.address};
  static_assert(sizeof block == 21);
  void* parameters[] = {&block};
  launch(scatter_, parameters, &block, sizeof block);
}

void Workload::mix(const Buffer& to, const Buffer& from) {
  struct {
    CUdeviceptr to;
    // The address is inside a structure, not at its beginning.
    struct {
      std::uint64_t number;
      CUdeviceptr from;
      std::uint64_t last;
    } pair;
  } block{to.address, {random() % 1000, from.address + 64, 3}};
  void* parameters[] = {&block.to, &block.pair};
  launch(mix_, parameters, &block, sizeof block);
}

void Workload::copy_rows(const Buffer& to, const Buffer& from) {
  const std::size_t pitch = 1024;
  CUDA_MEMCPY2D copy{};
  copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.srcDevice = from.address;
  copy.dstDevice = to.address;
  copy.srcPitch = copy.dstPitch = pitch;
  copy.WidthInBytes = 777;
  copy.Height = std::min(to.bytes, from.bytes) / pitch;
  CHECK(cuda_.cuMemcpy2DAsync(&copy, stream_));
  // The set is in the default stream.
  CHECK(cuda_.cuStreamSynchronize(stream_));
  CHECK(cuda_.cuMemsetD2D8(from.address, pitch, static_cast<unsigned char>(random()), 100, copy.Height / 2));
  CHECK(cuda_.cuCtxSynchronize());
}

void Workload::round() {
  for (std::size_t i = 0; i < buffers_.size(); ++i) {
    combine(buffers_[i], any(), any());
    scatter(any(), buffers_[i]);
    switch (random() % 8) {
      case 0:
        replace(any());
        break;
      case 1:
        copy_rows(any(), buffers_[i]);
        break;
      case 2:
        if (plan_.mix) mix(any(), buffers_[i]);
        break;
      case 3: {
        Buffer& to = any();
        CHECK(cuda_.cuMemcpyDtoDAsync(to.address, buffers_[i].address, std::min(to.bytes, buffers_[i].bytes) / 2,
                                      stream_));
        break;
      }
      default:
        break;
    }
  }
}

void Workload::free_all() {
  for (const Buffer& buffer : buffers_) {
    if (plan_.memory == Memory::kPlain) {
      CHECK(cuda_.cuMemFree(buffer.address));
    } else {
      CHECK(cuda_.cuMemFreeAsync(buffer.address, stream_));
    }
  }
  buffers_.clear();
  CHECK(cuda_.cuStreamSynchronize(stream_));
}

std::uint64_t Workload::run() {
  allocate_all();
  for (int i = 0; i < plan_.rounds; ++i) round();
  Digest digest;
  CHECK(cuda_.cuStreamSynchronize(stream_));
  for (const Buffer& buffer : buffers_) {
    CHECK(cuda_.cuMemcpyDtoH(host_.data(), buffer.address, buffer.bytes));
    digest.add(host_.data(), buffer.bytes);
  }
  free_all();
  return digest.value();
}

}  // namespace program
