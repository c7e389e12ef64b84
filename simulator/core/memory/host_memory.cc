// SPDX-License-Identifier: Apache-2.0
#include "simulator/core/memory/host_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <iterator>

namespace simulator {
namespace {

constexpr Bytes kSystemPage = 4096;

}  // namespace

HostMemory::~HostMemory() {
  for (const auto& [at, range] : ranges_) {
    if (range.allocated) munmap(reinterpret_cast<void*>(at), round_up(range.bytes, kSystemPage));
  }
}

void HostMemory::add(Address at, Range range) {
  ranges_.emplace(at, range);
  pinned_ += range.bytes;
  peak_ = std::max(peak_, pinned_);
}

CUresult HostMemory::allocate(Bytes bytes, void** out) {
  if (bytes == 0 || bytes > round_down(~Bytes{0}, kSystemPage)) return CUDA_ERROR_INVALID_VALUE;
  if (bytes > most_ || pinned_ > most_ - bytes) return CUDA_ERROR_OUT_OF_MEMORY;
  void* const at = mmap(nullptr, round_up(bytes, kSystemPage), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  add(reinterpret_cast<Address>(at), {bytes, true});
  *out = at;
  return CUDA_SUCCESS;
}

CUresult HostMemory::pin(void* at, Bytes bytes) {
  const auto begin = reinterpret_cast<Address>(at);
  if (at == nullptr || bytes == 0 || begin + bytes < begin) return CUDA_ERROR_INVALID_VALUE;
  if (bytes > most_ || pinned_ > most_ - bytes) return CUDA_ERROR_OUT_OF_MEMORY;
  const auto next = ranges_.lower_bound(begin);
  if ((next != ranges_.end() && next->first < begin + bytes) || find(begin))
    return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
  add(begin, {bytes, false});
  return CUDA_SUCCESS;
}

CUresult HostMemory::free(void* at) { return drop(at, true); }
CUresult HostMemory::unpin(void* at) { return drop(at, false); }

CUresult HostMemory::drop(void* at, bool allocated) {
  const auto begin = reinterpret_cast<Address>(at);
  const auto range = ranges_.find(begin);
  if (range == ranges_.end() || range->second.allocated != allocated) {
    return allocated ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
  }
  if (allocated) {
    contents_.forget_host(begin, range->second.bytes);
    munmap(at, round_up(range->second.bytes, kSystemPage));
  }
  pinned_ -= range->second.bytes;
  ranges_.erase(range);
  return CUDA_SUCCESS;
}

std::optional<Span> HostMemory::find(Address at) const {
  auto entry = ranges_.upper_bound(at);
  if (entry == ranges_.begin()) return std::nullopt;
  --entry;
  if (at - entry->first >= entry->second.bytes) return std::nullopt;
  return Span{entry->first, entry->second.bytes};
}

}  // namespace simulator
