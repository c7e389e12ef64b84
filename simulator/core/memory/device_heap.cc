// SPDX-License-Identifier: Apache-2.0
#include "simulator/core/memory/device_heap.h"

#include <algorithm>
#include <bit>
#include <iterator>

#include "simulator/core/check.h"

namespace simulator {
namespace {

constexpr Bytes kSmallest = 512;
constexpr Bytes kLargestShared = kPageBytes / 2;  // a slot; two of them fill a page

// The size class that leaves at least one byte after the allocation.
Bytes slot_for(Bytes bytes) {
  const Bytes needed = bytes + 1;
  const Bytes step = std::max(kSmallest, std::bit_floor(needed) / 4);
  return round_up(needed, step);
}

}  // namespace

// The reservation ends with an empty page of addresses.
CUresult DeviceHeap::take_pages(Bytes bytes, Rights rights, Address* out) {
  PhysicalId id = 0;
  if (const CUresult result = physical_.create(bytes, &id, PhysicalPlace::kDevice, device_); result != CUDA_SUCCESS)
    return result;
  CUresult result = addresses_.reserve(bytes + kPageBytes, 0, 0, out);
  if (result == CUDA_SUCCESS) {
    result = addresses_.map(*out, bytes, 0, id);
    SIMULATOR_CHECK(result == CUDA_SUCCESS, "a new handle can be mapped into a new reservation");
    result = addresses_.set_rights(*out, bytes, rights, Rights::of_all(Access::kReadWrite));
    if (result != CUDA_SUCCESS) {
      give_pages(*out, bytes);
      physical_.release(id);
      return result;
    }
  }
  physical_.release(id);  // the mapping keeps it
  return result;
}

void DeviceHeap::give_pages(Address at, Bytes bytes) {
  const CUresult unmapped = addresses_.unmap(at, bytes);
  const CUresult released = addresses_.release(at, bytes + kPageBytes);
  SIMULATOR_CHECK(unmapped == CUDA_SUCCESS && released == CUDA_SUCCESS, "pages of the heap can be given back");
}

CUresult DeviceHeap::allocate(Bytes bytes, bool own_pages, Address* out, Bytes* new_pages) {
  *new_pages = 0;
  if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  if (bytes > physical_.capacity()) return CUDA_ERROR_OUT_OF_MEMORY;
  const Bytes slot = slot_for(bytes);
  if (!own_pages && slot <= kLargestShared) return allocate_shared(bytes, slot, out, new_pages);
  const Bytes whole = round_up(bytes, kPageBytes);
  if (const CUresult result = take_pages(whole, own_pages ? Rights::of_all(Access::kReadWrite) : rights_, out);
      result != CUDA_SUCCESS)
    return result;
  allocations_.emplace(*out, Allocation{bytes, 0, *out, own_pages});
  *new_pages = whole / kPageBytes;
  return CUDA_SUCCESS;
}

CUresult DeviceHeap::allocate_shared(Bytes bytes, Bytes slot, Address* out, Bytes* new_pages) {
  std::vector<Address>& open = open_[slot];
  if (open.empty()) {
    Address page = 0;
    if (const CUresult result = take_pages(kPageBytes, rights_, &page); result != CUDA_SUCCESS) return result;
    SharedPage& shared = shared_[page];
    for (Bytes index = kPageBytes / slot; index > 0; --index) shared.free.push_back(page + (index - 1) * slot);
    open.push_back(page);
    *new_pages = 1;
  }
  const Address page = open.back();
  SharedPage& shared = shared_.at(page);
  *out = shared.free.back();
  shared.free.pop_back();
  ++shared.used;
  if (shared.free.empty()) open.pop_back();
  allocations_.emplace(*out, Allocation{bytes, slot, page, false});
  return CUDA_SUCCESS;
}

CUresult DeviceHeap::free(Address at) {
  const auto found = allocations_.find(at);
  if (found == allocations_.end()) return CUDA_ERROR_INVALID_VALUE;
  const Allocation allocation = found->second;
  allocations_.erase(found);
  if (allocation.slot == 0) {
    give_pages(at, round_up(allocation.bytes, kPageBytes));
    return CUDA_SUCCESS;
  }
  SharedPage& shared = shared_.at(allocation.page);
  std::vector<Address>& open = open_[allocation.slot];
  if (shared.free.empty()) open.push_back(allocation.page);
  shared.free.push_back(at);
  if (--shared.used > 0) return CUDA_SUCCESS;
  open.erase(std::find(open.begin(), open.end(), allocation.page));
  shared_.erase(allocation.page);
  give_pages(allocation.page, kPageBytes);
  return CUDA_SUCCESS;
}

void DeviceHeap::set_access(DeviceId device, Access access) {
  rights_ = rights_.with(device, access);
  const auto give = [&](Address at, Bytes bytes) {
    const CUresult given = addresses_.set_rights(at, bytes, rights_, Rights::of_all(Access::kReadWrite));
    SIMULATOR_CHECK(given == CUDA_SUCCESS, "pages of the heap can be opened to a device and closed");
  };
  for (const auto& [page, shared] : shared_) give(page, kPageBytes);
  for (const auto& [at, allocation] : allocations_) {
    if (allocation.slot == 0 && !allocation.is_for_all) give(at, round_up(allocation.bytes, kPageBytes));
  }
}

std::optional<Span> DeviceHeap::find(Address at) const {
  auto entry = allocations_.upper_bound(at);
  if (entry == allocations_.begin()) return std::nullopt;
  --entry;
  if (at - entry->first >= entry->second.bytes) return std::nullopt;
  return Span{entry->first, entry->second.bytes};
}

}  // namespace simulator
