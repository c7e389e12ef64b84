// SPDX-License-Identifier: Apache-2.0
#include "simulator/cudart/session.h"

#include <atomic>
#include <cstdio>
#include <map>
#include <mutex>
#include <set>
#include <string>

namespace simulator::cudart {
namespace {

struct Contexts {
  std::mutex mutex;
  std::map<int, CUcontext> retained;
};

// Never destroyed: programs call the runtime in their exit handlers.
Contexts& contexts() {
  static auto* all = new Contexts;
  return *all;
}

// Incremented by resets, so that a thread notices that its current context no longer exists.
std::atomic<unsigned> generation{1};

struct Thread {
  int device = 0;
  unsigned bound_generation = 0;
};

thread_local Thread self;

}  // namespace

cudaError_t primary_context(int ordinal, CUcontext* context) {
  const std::lock_guard lock(contexts().mutex);
  const auto known = contexts().retained.find(ordinal);
  if (known != contexts().retained.end()) {
    *context = known->second;
    return cudaSuccess;
  }
  CUdevice device = 0;
  cudaError_t status = CUDART_CALL(driver(), cuDeviceGet, &device, ordinal);
  if (status == cudaSuccess) status = CUDART_CALL(driver(), cuDevicePrimaryCtxRetain, context, device);
  if (status == cudaSuccess) contexts().retained.emplace(ordinal, *context);
  return status;
}

cudaError_t ready() {
  const unsigned now = generation.load(std::memory_order_acquire);
  if (self.bound_generation == now) return cudaSuccess;
  if (const cudaError_t status = load_driver(); status != cudaSuccess) return status;
  CUcontext context = nullptr;
  cudaError_t status = primary_context(self.device, &context);
  // A driver without devices refuses ordinal 0; CUDA's error for that is "no device".
  if (status == cudaErrorInvalidDevice && self.device == 0) status = cudaErrorNoDevice;
  if (status == cudaSuccess) status = CUDART_CALL(driver(), cuCtxSetCurrent, context);
  if (status == cudaSuccess) self.bound_generation = now;
  return status;
}

int current_device() { return self.device; }

cudaError_t select_device(int ordinal) {
  if (const cudaError_t status = load_driver(); status != cudaSuccess) return status;
  int count = 0;
  if (const cudaError_t status = CUDART_CALL(driver(), cuDeviceGetCount, &count); status != cudaSuccess) return status;
  if (ordinal < 0 || ordinal >= count) return count == 0 ? cudaErrorNoDevice : cudaErrorInvalidDevice;
  if (ordinal != self.device) self.bound_generation = 0;
  self.device = ordinal;
  return ready();
}

cudaError_t reset_device() {
  if (const cudaError_t status = load_driver(); status != cudaSuccess) return status;
  const std::lock_guard lock(contexts().mutex);
  contexts().retained.erase(self.device);
  generation.fetch_add(1, std::memory_order_acq_rel);
  CUdevice device = 0;
  const cudaError_t status = CUDART_CALL(driver(), cuDeviceGet, &device, self.device);
  return status == cudaSuccess ? CUDART_CALL(driver(), cuDevicePrimaryCtxReset, device) : status;
}

cudaError_t not_carried(const char* name, const char* reason) {
  static std::mutex mutex;
  static auto* named = new std::set<std::string>;
  const std::lock_guard lock(mutex);
  if (named->insert(name).second) {
    std::fprintf(stderr, "cudart: %s is not carried by the simulated runtime (%s); it returns cudaErrorNotSupported\n",
                 name, reason);
  }
  return record(cudaErrorNotSupported);
}

// For not_carried.cc, which does not see the headers' types.
int refuse(const char* name, const char* reason);
int refuse(const char* name, const char* reason) { return static_cast<int>(not_carried(name, reason)); }

}  // namespace simulator::cudart
