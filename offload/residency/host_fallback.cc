// SPDX-License-Identifier: Apache-2.0
#include "offload/residency/host_fallback.h"

#include <algorithm>
#include <cstring>

#include "driver/hash.h"

namespace thermocline {
namespace {

constexpr std::size_t kLine = 64;
constexpr std::size_t kLines = 64;
// In one operation of the program.
constexpr int kAtOnce = 4;

// Each word changes all above it.
std::uint64_t mix(std::uint64_t digest, std::uint64_t word) {
  digest = (digest ^ word) * kHashFactor;
  return digest ^ (digest >> 32);
}

std::uint64_t mix_bytes(std::uint64_t digest, std::span<const unsigned char> bytes) {
  for (std::size_t at = 0; at < bytes.size(); at += sizeof digest) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + at, std::min(sizeof word, bytes.size() - at));
    digest = mix(digest, word);
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

std::uint64_t Net::digest_of(const EvictionUnit& part) const {
  if (!readable_) return 0;
  return digest_of_samples({static_cast<const unsigned char*>(part.host), static_cast<std::size_t>(part.host_bytes)});
}

void Net::cover(EvictionUnit& part) {
  if (!on()) return;
  if (!full() && part.host != nullptr && hurried_ && hurried_()) {
    late_.push_back(&part);
  } else {
    cover_now(part);
  }
}

void Net::catch_up() {
  for (int i = 0; i < kAtOnce && !late_.empty() && !hurried_(); ++i) {
    EvictionUnit& part = *late_.back();
    late_.pop_back();
    cover_now(part);
  }
}

void Net::forget_late(EvictionUnit& part) {
  if (std::erase(late_, &part) > 0) ++statistics_.bare;
}

void Net::cover_now(EvictionUnit& part) {
  part.used_there = false;
  pages_.clear();
  const bool mappable = part.host != nullptr && host_.pages_of(part.host, part.bytes(), &pages_);
  if (!mappable || !heap_.show(*part.whole->block, part.range, pages_).ok()) {
    ++statistics_.bare;
    // Its addresses may lead to it all the same, without access.
    part.covered = mappable;
    part.digest = mappable ? digest_of(part) : 0;
    return;
  }
  ++statistics_.covered;
  part.covered = true;
  part.digest = digest_of(part);
}

void Net::uncovered(EvictionUnit& part) {
  forget_late(part);
  if (!part.covered) return;
  part.covered = false;
  if (part.used_there || part.host == nullptr || digest_of(part) == part.digest) return;
  ++statistics_.unseen;
  unseen_.push_back(part.whole->block->begin());
}

bool Net::abandon(EvictionUnit& part) {
  forget_late(part);
  if (!part.covered) return false;
  part.covered = false;
  // Whoever has been given the address may still be on its way there.
  return heap_.abandon_shown(*part.whole->block, part.range, part.host, clock_.newest());
}

std::vector<void*> Net::collect(Wait wait) {
  if (wait == Wait::kYes) static_cast<void>(heap_.sweep(wait));
  return heap_.take_released();
}

}  // namespace thermocline
