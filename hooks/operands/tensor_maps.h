// SPDX-License-Identifier: Apache-2.0
// Tensor maps (CUtensorMap) that describe the engines' memory. A tensor map is opaque, and its tensor's address need
// not appear in it unchanged. So each map that the driver writes is remembered, by a digest of its 128 bytes,
// together with the address. It is recognized when a kernel is given the map by value, and when a copy writes it to
// memory.
//
// A map refers to an address, not to a buffer: it describes whatever is allocated there later. When more than kMost
// maps are remembered, those whose address has no live buffer are removed. Thread-safe.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <optional>
#include <unordered_map>

#include "driver/locks.h"
#include "hooks/interpose/lock_levels.h"
#include "hooks/interpose/process_lifetime.h"
#include "hooks/operands/parameters.h"

namespace thermocline {

class TensorMaps {
 public:
  static constexpr std::size_t kBytes = 128;
  // Alignment of maps (CUDA 13: 128): the hardware reads them only at such addresses. A parameter that holds some is
  // aligned in the constant bank, not among the parameters. Structures passed by value are small and are searched at
  // every offset.
  static constexpr std::size_t kAlignment = 64;
  static constexpr std::size_t kParameterAlignment = 16;
  static constexpr std::size_t kMost = std::size_t{1} << 18;

  bool empty() const noexcept { return !any_.load(std::memory_order_acquire); }
  // False: there are too many. `is_live` returns whether a buffer exists at an address; it is called without a lock.
  bool remember(const void* map, DeviceAddress address, const std::function<bool(DeviceAddress)>& is_live);
  std::optional<DeviceAddress> find(const void* map) const;

  // Calls found(offset, address) for each map in `bytes` whose destination address is a multiple of `unit`; `to` is the
  // destination address of the first byte.
  template <class Found>
  void search(const void* at, std::size_t bytes, std::uint64_t to, std::size_t unit, Found found) const {
    const auto* const data = static_cast<const unsigned char*>(at);
    for (std::size_t offset = (unit - to % unit) % unit; offset + kBytes <= bytes; offset += unit) {
      if (!may_be_known(data + offset)) continue;
      if (const auto address = find(data + offset)) found(offset, *address);
    }
  }

  std::size_t size() const;

 private:
  // A filter of bits, set for the maps that are remembered. Data that is not a map nearly always hits a bit that is not
  // set.
  static constexpr std::size_t kFilterWords = 1024;

  static std::uint64_t digest(const void* map);
  static std::uint64_t filter_bit(const void* map);
  bool may_be_known(const void* map) const {
    const std::uint64_t bit = filter_bit(map);
    return (filter_[bit / 64 % kFilterWords].load(std::memory_order_relaxed) >> bit % 64 & 1) != 0;
  }
  struct Entry {
    DeviceAddress address;
    std::uint64_t added = 0;  // differs each time that it is remembered
  };

  // False: it is not there, and there are too many.
  bool add(const void* map, DeviceAddress address);
  // Whether entries are to be removed: not before as many as an eighth of them were refused since that did not help.
  bool may_make_room();
  void remove_dead(const std::function<bool(DeviceAddress)>& is_live);

  mutable SharedMutex mutex_{"tensor maps", lock_level::kLeaf};
  std::unordered_map<std::uint64_t, Entry> known_ THERMOCLINE_GUARDED_BY(mutex_);
  std::uint64_t adds_ THERMOCLINE_GUARDED_BY(mutex_) = 0;
  std::size_t refused_ THERMOCLINE_GUARDED_BY(mutex_) = 0;
  std::atomic<bool> any_{false};
  std::array<std::atomic<std::uint64_t>, kFilterWords> filter_{};
};

inline TensorMaps& tensor_maps() { return process_lifetime<TensorMaps>(); }

// Calls found(address, tensor) for each map in bytes that are copied to `to`.
template <class Found>
void search_for_tensor_maps(const void* from, Bytes bytes, std::uint64_t to, Found found) {
  const TensorMaps& maps = tensor_maps();
  if (maps.empty()) return;
  maps.search(from, bytes, to, TensorMaps::kAlignment,
              [&](std::size_t offset, DeviceAddress tensor) { found(DeviceAddress{to + offset}, tensor); });
}

// Adds accesses for the maps among the arguments. Without a layout, the block of `extra` is searched.
void scan_tensor_maps(const TensorMaps& maps, const ParameterLayout* layout, KernelArguments arguments,
                      AccessList* out);

}  // namespace thermocline
