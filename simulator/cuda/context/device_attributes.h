// SPDX-License-Identifier: Apache-2.0
// The device's attributes: from the profile if it has them, else by compute capability. Source: CUDA C++ Programming
// Guide, "Features and Technical Specifications" by compute capability.
#pragma once

#include "simulator/cuda/api.h"

#include "simulator/profile.h"

namespace simulator::cuda {

// Limits that depend on the compute capability, in bytes and counts.
struct Limits {
  int threads_per_multiprocessor;
  int blocks_per_multiprocessor;
  int shared_per_multiprocessor;
  int shared_per_block_on_request;
  int cores_per_multiprocessor;  // fp32
};
const Limits& limits_of(const Profile& profile);

// 0 for features that the device does not have.
int device_attribute(const Profile& profile, CUdevice_attribute attribute);

inline constexpr int kSharedPerBlock = 48 << 10;
inline constexpr int kReservedShared = 1 << 10;  // of each block, from compute capability 8.0 on
inline constexpr int kRegistersPerMultiprocessor = 65536;
inline constexpr int kThreadsPerBlock = 1024;

}  // namespace simulator::cuda
