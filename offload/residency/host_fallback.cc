// SPDX-License-Identifier: Apache-2.0
#include "offload/residency/host_fallback.h"

#include <algorithm>
#include <cstring>

#include "driver/hash.h"

namespace thermocline {
namespace {

constexpr std::size_t kLine = 64;
constexpr std::size_t kLines = 64;
// The most mappings made during one operation of the program.
constexpr int kAtOnce = 4;

std::uint64_t mix_bytes(std::uint64_t digest, std::span<const unsigned char> bytes) {
  for (std::size_t at = 0; at < bytes.size(); at += sizeof digest) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + at, std::min(sizeof word, bytes.size() - at));
    digest = folded_hash(digest, word);
  }
  return digest;
}

}  // namespace

std::uint64_t digest_of_samples(std::span<const unsigned char> bytes) {
  std::uint64_t digest = bytes.size();
  if (bytes.size() <= kLine * kLines) return mix_bytes(digest, bytes);
  const std::size_t last = bytes.size() - kLine;
  for (std::size_t i = 0; i < kLines; ++i) {
    digest = mix_bytes(digest, bytes.subspan(last / (kLines - 1) * i, kLine));
  }
  return mix_bytes(digest, bytes.subspan(last, kLine));
}

std::uint64_t HostMappings::digest_of(const EvictionUnit& unit) const {
  if (!readable_) return 0;
  return digest_of_samples({static_cast<const unsigned char*>(unit.host), static_cast<std::size_t>(unit.host_bytes)});
}

void HostMappings::map_to_host(EvictionUnit& unit) {
  if (!on()) return;
  if (!full() && unit.host != nullptr && hurried_ && hurried_()) {
    late_.push_back(&unit);
  } else {
    map_to_host_now(unit);
  }
}

void HostMappings::catch_up() {
  for (int i = 0; i < kAtOnce && !late_.empty() && !hurried_(); ++i) {
    EvictionUnit& unit = *late_.back();
    late_.pop_back();
    map_to_host_now(unit);
  }
}

void HostMappings::forget_late(EvictionUnit& unit) {
  if (std::erase(late_, &unit) > 0) ++statistics_.unmapped;
}

void HostMappings::map_to_host_now(EvictionUnit& unit) {
  unit.used_there = false;
  pages_.clear();
  const bool mappable = unit.host != nullptr && host_.pages_of(unit.host, unit.bytes(), &pages_);
  if (!mappable || !heap_.show(*unit.whole->block, unit.range, pages_).ok()) {
    ++statistics_.unmapped;
    // Even on failure the addresses may be mapped to the host copy, without access.
    unit.mapped_to_host = mappable;
    unit.digest = mappable ? digest_of(unit) : 0;
    return;
  }
  ++statistics_.mapped;
  unit.mapped_to_host = true;
  unit.digest = digest_of(unit);
}

void HostMappings::mapped_to_pages(EvictionUnit& unit) {
  forget_late(unit);
  if (!unit.mapped_to_host) return;
  unit.mapped_to_host = false;
  if (unit.used_there || unit.host == nullptr || digest_of(unit) == unit.digest) return;
  ++statistics_.unseen;
  unseen_.push_back(unit.whole->block->begin());
}

bool HostMappings::abandon(EvictionUnit& unit) {
  forget_late(unit);
  if (!unit.mapped_to_host) return false;
  unit.mapped_to_host = false;
  // Work that was given the address may not have accessed it yet.
  return heap_.abandon_shown(*unit.whole->block, unit.range, unit.host, clock_.newest());
}

std::vector<void*> HostMappings::collect(Wait wait) {
  if (wait == Wait::kYes) static_cast<void>(heap_.sweep(wait));
  return heap_.take_released();
}

}  // namespace thermocline
