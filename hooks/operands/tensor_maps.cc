// SPDX-License-Identifier: Apache-2.0
#include "hooks/operands/tensor_maps.h"

#include <algorithm>
#include <bit>
#include <mutex>

#include "driver/hash.h"
#include "hooks/interpose/process_lifetime.h"

namespace thermocline {
namespace {

// One round of MurmurHash3's 64-bit finaliser (Appleby, public domain) for each word.
std::uint64_t stir(std::uint64_t hash, std::uint64_t word) {
  hash = (std::rotl(hash, 27) ^ word) * 0xFF51AFD7ED558CCDu;
  return hash ^ (hash >> 33);
}

std::uint64_t stir_words(const void* at, std::size_t words) {
  std::uint64_t hash = kHashFactor;
  for (std::size_t i = 0; i < words; ++i) {
    std::uint64_t word;
    std::memcpy(&word, static_cast<const unsigned char*>(at) + i * sizeof word, sizeof word);
    hash = stir(hash, word);
  }
  return hash;
}

}  // namespace

std::uint64_t TensorMaps::digest(const void* map) { return stir_words(map, kBytes / 8); }
std::uint64_t TensorMaps::filter_bit(const void* map) { return stir_words(map, 4); }

void TensorMaps::add(const void* map, DeviceAddress address) {
  known_[digest(map)] = address;
  const std::uint64_t bit = filter_bit(map);
  filter_[bit / 64 % kFilterWords].fetch_or(std::uint64_t{1} << bit % 64, std::memory_order_relaxed);
  any_.store(true, std::memory_order_release);
}

std::optional<DeviceAddress> TensorMaps::find(const void* map) const {
  const std::uint64_t key = digest(map);
  const std::shared_lock lock(mutex_);
  const auto found = known_.find(key);
  if (found == known_.end()) return std::nullopt;
  return found->second;
}

std::size_t TensorMaps::size() const {
  const std::shared_lock lock(mutex_);
  return known_.size();
}

TensorMaps& tensor_maps() { return process_lifetime<TensorMaps>(); }

void scan_tensor_maps(const TensorMaps& maps, const ParameterLayout* layout, KernelArguments arguments,
                      AccessList* out) {
  if (maps.empty()) return;
  const auto scan = [&](const void* at, std::size_t bytes) {
    maps.search(at, bytes, 0, TensorMaps::kParameterAlignment,
                [&](std::size_t, DeviceAddress address) { out->word(address.value); });
  };
  if (arguments.parameters != nullptr) {
    if (layout == nullptr) return;  // everything counts as accessed
    for (std::size_t i = 0; i < layout->size(); ++i) scan(arguments.parameters[i], (*layout)[i].bytes);
    return;
  }
  const ExtraBlock block = read_extra(arguments.extra);
  if (block.at == nullptr) return;
  if (layout == nullptr) return scan(block.at, block.bytes);
  for (const ParameterSlot& slot : *layout) {
    if (slot.offset >= block.bytes) continue;
    scan(static_cast<const unsigned char*>(block.at) + slot.offset, std::min(slot.bytes, block.bytes - slot.offset));
  }
}

}  // namespace thermocline
