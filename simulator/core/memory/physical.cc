// SPDX-License-Identifier: Apache-2.0
#include "simulator/core/memory/physical.h"

#include <algorithm>
#include <utility>

#include "simulator/core/check.h"

namespace simulator {

PhysicalMemory::PhysicalMemory(Bytes capacity, Bytes others, std::function<void(PageRun)> discard, Bytes handle_bytes,
                               std::uint64_t handles)
    : capacity_(round_down(capacity, kPageBytes)),
      others_(std::min(round_up(others, kPageBytes), capacity_)),
      handle_bytes_(handle_bytes),
      most_handles_(handles),
      discard_(std::move(discard)) {}

CUresult PhysicalMemory::create(Bytes bytes, PhysicalId* out, PhysicalPlace place, DeviceId device) {
  if (bytes == 0 || bytes % kPageBytes != 0) return CUDA_ERROR_INVALID_VALUE;
  const bool fits = bytes <= available(device) && handle_bytes_ <= available(device) - bytes;
  if ((place == PhysicalPlace::kDevice && !fits) || runs_.size() >= most_handles_) return CUDA_ERROR_OUT_OF_MEMORY;
  const auto count = static_cast<std::uint32_t>(bytes / kPageBytes);
  auto& same_length = free_[count];
  std::uint32_t first = next_page_;
  if (same_length.empty()) {
    next_page_ += count;
  } else {
    first = same_length.back();
    same_length.pop_back();
  }
  if (place == PhysicalPlace::kDevice) {
    used_ += bytes + handle_bytes_;
    used_of_[device] += bytes + handle_bytes_;
  }
  peak_ = std::max(peak_, used_);
  *out = next_++;
  runs_.emplace(*out, Run{{first, count}, 1, 0, place, device});
  return CUDA_SUCCESS;
}

const PageRun* PhysicalMemory::find(PhysicalId id) const {
  const auto run = runs_.find(id);
  return run == runs_.end() || run->second.handles == 0 ? nullptr : &run->second.pages;
}

CUresult PhysicalMemory::retain(PhysicalId id) {
  const auto run = runs_.find(id);
  if (run == runs_.end()) return CUDA_ERROR_INVALID_VALUE;
  ++run->second.handles;
  return CUDA_SUCCESS;
}

CUresult PhysicalMemory::release(PhysicalId id) {
  const auto run = runs_.find(id);
  if (run == runs_.end() || run->second.handles == 0) return CUDA_ERROR_INVALID_VALUE;
  --run->second.handles;
  drop_if_unused(run);
  return CUDA_SUCCESS;
}

void PhysicalMemory::mapped(PhysicalId id) { ++runs_.at(id).mappings; }

void PhysicalMemory::unmapped(PhysicalId id) {
  const auto run = runs_.find(id);
  SIMULATOR_CHECK(run != runs_.end() && run->second.mappings > 0, "only what is mapped is unmapped");
  --run->second.mappings;
  drop_if_unused(run);
}

void PhysicalMemory::drop_if_unused(Runs::iterator run) {
  if (run->second.handles > 0 || run->second.mappings > 0) return;
  const PageRun pages = run->second.pages;
  if (run->second.place == PhysicalPlace::kDevice) {
    used_ -= pages.bytes() + handle_bytes_;
    used_of_[run->second.device] -= pages.bytes() + handle_bytes_;
  }
  runs_.erase(run);
  free_[pages.count].push_back(pages.first);
  discard_(pages);
}

}  // namespace simulator
