// SPDX-License-Identifier: Apache-2.0
// Memory that is freed with its owner: on the device with cudaMalloc, or pinned on the host.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <utility>

#include "examples/common/cuda_check.h"

namespace examples {

template <typename T>
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  DeviceBuffer(std::size_t count, const char* what) : count_(count) {
    refuse_allocation(cudaMalloc(reinterpret_cast<void**>(&data_), bytes()), bytes(), what);
  }
  DeviceBuffer(DeviceBuffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), count_(std::exchange(other.count_, 0)) {}
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(count_, other.count_);
    return *this;
  }
  ~DeviceBuffer() { release(); }

  void release() {
    if (data_ != nullptr) require(cudaFree(data_), "cudaFree");
    data_ = nullptr;
    count_ = 0;
  }

  T* get() const { return data_; }
  std::size_t count() const { return count_; }
  std::size_t bytes() const { return count_ * sizeof(T); }

 private:
  T* data_ = nullptr;
  std::size_t count_ = 0;
};

template <typename T>
class PinnedBuffer {
 public:
  PinnedBuffer(std::size_t count, const char* what) : count_(count) {
    refuse_allocation(cudaMallocHost(reinterpret_cast<void**>(&data_), count * sizeof(T)), count * sizeof(T), what);
  }
  PinnedBuffer(const PinnedBuffer&) = delete;
  PinnedBuffer& operator=(const PinnedBuffer&) = delete;
  ~PinnedBuffer() { require(cudaFreeHost(data_), "cudaFreeHost"); }

  T* get() const { return data_; }
  std::size_t bytes() const { return count_ * sizeof(T); }
  T& operator[](std::size_t i) const { return data_[i]; }

 private:
  T* data_ = nullptr;
  std::size_t count_ = 0;
};

}  // namespace examples
