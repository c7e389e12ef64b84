// SPDX-License-Identifier: Apache-2.0
#include "hooks/operands/tensor_maps.h"

#include <algorithm>
#include <bit>
#include <utility>
#include <vector>

#include "driver/hash.h"

namespace thermocline {
namespace {

// One round of MurmurHash3's 64-bit finalizer (Appleby, public domain) for each word: the filter takes the lowest bits,
// which a multiplication alone leaves the poorest.
std::uint64_t stir(std::uint64_t hash, std::uint64_t word) {
  hash = (std::rotl(hash, 27) ^ word) * 0xFF51AFD7ED558CCDu;
  return hash ^ (hash >> 33);
}

std::uint64_t hash_of_words(const void* at, std::size_t words) {
  std::uint64_t hash = kHashFactor;
  for (std::size_t i = 0; i < words; ++i) {
    std::uint64_t word;
    std::memcpy(&word, static_cast<const unsigned char*>(at) + i * sizeof word, sizeof word);
    hash = stir(hash, word);
  }
  return hash;
}

}  // namespace

std::uint64_t TensorMaps::digest(const void* map) { return hash_of_words(map, kBytes / 8); }
std::uint64_t TensorMaps::filter_bit(const void* map) { return hash_of_words(map, 4); }

bool TensorMaps::add(const void* map, DeviceAddress address) {
  const std::uint64_t key = digest(map);
  const WriterLock lock(mutex_);
  if (known_.size() >= kMost && !known_.contains(key)) return false;
  known_[key] = {address, ++adds_};
  const std::uint64_t bit = filter_bit(map);
  filter_[bit / 64 % kFilterWords].fetch_or(std::uint64_t{1} << bit % 64, std::memory_order_relaxed);
  any_.store(true, std::memory_order_release);
  return true;
}

bool TensorMaps::may_make_room() {
  const WriterLock lock(mutex_);
  return refused_ == 0 || refused_++ >= kMost / 8;
}

void TensorMaps::remove_dead(const std::function<bool(DeviceAddress)>& is_live) {
  std::vector<std::pair<std::uint64_t, Entry>> dead;
  {
    const ReaderLock lock(mutex_);
    dead.assign(known_.begin(), known_.end());
  }
  std::erase_if(dead, [&](const auto& one) { return is_live(one.second.address); });
  const WriterLock lock(mutex_);
  for (const auto& [key, entry] : dead) {
    // It may have been remembered again meanwhile, of a new buffer.
    const auto found = known_.find(key);
    if (found != known_.end() && found->second.added == entry.added) known_.erase(found);
  }
  refused_ = known_.size() > kMost - kMost / 8 ? 1 : 0;
}

bool TensorMaps::remember(const void* map, DeviceAddress address, const std::function<bool(DeviceAddress)>& is_live) {
  if (add(map, address)) return true;
  if (!may_make_room()) return false;
  remove_dead(is_live);
  return add(map, address);
}

std::optional<DeviceAddress> TensorMaps::find(const void* map) const {
  const std::uint64_t key = digest(map);
  const ReaderLock lock(mutex_);
  const auto found = known_.find(key);
  if (found == known_.end()) return std::nullopt;
  return found->second.address;
}

std::size_t TensorMaps::size() const {
  const ReaderLock lock(mutex_);
  return known_.size();
}

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
