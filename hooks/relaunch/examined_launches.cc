// SPDX-License-Identifier: Apache-2.0
#include "hooks/relaunch/examined_launches.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "driver/hash.h"
#include "hooks/interpose/process_lifetime.h"
#include "hooks/relaunch/known_launch.h"
#include "hooks/runtime/engines.h"

namespace thermocline {
namespace {

constexpr std::size_t kWordBytes = sizeof(std::uint64_t);

// Up to eight bytes, as the lowest of a word.
std::uint64_t word_at(const unsigned char* at, std::size_t bytes) {
  std::uint64_t word = 0;
  if (bytes >= kWordBytes) {
    std::memcpy(&word, at, kWordBytes);
  } else if (bytes == sizeof(std::uint32_t)) {
    std::uint32_t half = 0;
    std::memcpy(&half, at, sizeof half);
    word = half;
  } else {
    std::memcpy(&word, at, bytes);
  }
  return word;
}

// Calls visit(parameter, offset, word) for each word of the parameters.
template <class Visit>
[[gnu::always_inline]] inline void for_each_word(const ParameterLayout& layout, void* const* parameters, Visit visit) {
  for (std::size_t i = 0; i < layout.size(); ++i) {
    const auto* const from = static_cast<const unsigned char*>(parameters[i]);
    for (std::size_t offset = 0; offset < layout[i].bytes; offset += kWordBytes)
      visit(i, offset, word_at(from + offset, layout[i].bytes - offset));
  }
}

std::uint64_t next_number() {
  static std::atomic<std::uint64_t> newest{0};
  return newest.fetch_add(1, std::memory_order_relaxed) + 1;
}

}  // namespace

ExaminedLaunch::ExaminedLaunch(const LaunchedKernel& kernel, const Circumstances& circumstances, const Engine& engine,
                               std::uint64_t placement, const UsedParameters& used, Findings findings)
    : function_(kernel.function),
      layout_(kernel.layout),
      grid_(std::to_array(kernel.grid)),
      block_(std::to_array(kernel.block)),
      shared_bytes_(kernel.shared_bytes),
      is_special_(kernel.is_special),
      circumstances_(circumstances),
      engine_(engine),
      placement_(placement),
      findings_(std::move(findings)),
      info_{.id = 0,
            .may_run_again = findings_.may_run_again,
            .uses = {findings_.uses.data(), findings_.uses.size()},
            .trial = findings_.trial,
            .same_as = next_number()} {
  for_each_word(*layout_, kernel.arguments.parameters,
                [&](std::size_t parameter, std::size_t offset, std::uint64_t value) {
                  unsigned char mask[kWordBytes] = {};
                  for (const ParameterRange& range : used.all()) {
                    if (range.parameter != parameter) continue;
                    const std::size_t begin = std::max<std::size_t>(range.offset, offset);
                    const std::size_t end = std::min<std::size_t>(range.offset + range.bytes, offset + kWordBytes);
                    for (std::size_t at = begin; at < end; ++at) mask[at - offset] = 0xff;
                  }
                  Word& word = words_.emplace_back();
                  word.value = value;
                  std::memcpy(&word.mask, mask, sizeof mask);
                });
}

bool ExaminedLaunch::is(const LaunchedKernel& kernel, const Circumstances& circumstances, bool* is_identical) const {
  if (function_ != kernel.function || layout_ != kernel.layout || shared_bytes_ != kernel.shared_bytes ||
      is_special_ != kernel.is_special || circumstances_.engines != circumstances.engines ||
      circumstances_.code != circumstances.code || kernel.arguments.parameters == nullptr)
    return false;
  if (!std::ranges::equal(grid_, kernel.grid) || !std::ranges::equal(block_, kernel.block)) return false;
  // As long as the set of engines is the same, all of them are there.
  if (engine_.placement() != placement_) return false;
  std::uint64_t differs = 0, matters = 0;
  const Word* word = words_.data();
  for_each_word(*layout_, kernel.arguments.parameters, [&](std::size_t, std::size_t, std::uint64_t value) {
    const std::uint64_t difference = value ^ word->value;
    differs |= difference;
    matters |= difference & word->mask;
    ++word;
  });
  *is_identical = differs == 0;
  return matters == 0;
}

bool ExaminedLaunches::key_of(std::uint64_t kind, std::span<const MemoryAccess> addresses, std::uint64_t* key) {
  std::uint64_t all = kind, is_other = 0;
  for (const MemoryAccess& one : addresses) {
    all = (all ^ one.address.value) * kHashFactor;
    is_other |= one.bytes | one.found;
  }
  *key = all;
  return is_other == 0;
}

std::shared_ptr<const ExaminedLaunch> ExaminedLaunches::find(const LaunchedKernel& kernel,
                                                             const Circumstances& circumstances, std::uint64_t key,
                                                             std::uint64_t* id) {
  std::shared_ptr<const ExaminedLaunch> launch;
  {
    const MutexLock lock(mutex_);
    if (pairs_.empty()) return nullptr;
    const SlotPair& pair = pairs_[hash_bits(key, kBits)];
    const Slot& slot = pair.newer.key == key ? pair.newer : pair.older;
    if (slot.key != key) return nullptr;
    launch = slot.launch;
    *id = slot.id;
  }
  bool is_identical = false;
  if (launch == nullptr || !launch->is(kernel, circumstances, &is_identical)) return nullptr;
  const ExaminedLaunch::Findings& findings = launch->findings();
  if (findings.form == nullptr) return launch;
  // Launches on other devices take the same room while an engine still needs this one, so there each gets its own id.
  if (is_identical && circumstances.engines->size() == 1 && launches().stays(*id)) return launch;
  *id = launches().add({findings.form, parameters_of(*kernel.layout, kernel.arguments.parameters)});
  if (is_identical) keep(key, launch, *id);
  return launch;
}

void ExaminedLaunches::keep(std::uint64_t key, std::shared_ptr<const ExaminedLaunch> launch, std::uint64_t id) {
  const MutexLock lock(mutex_);
  if (pairs_.empty()) pairs_.resize(std::size_t{1} << kBits);
  SlotPair& pair = pairs_[hash_bits(key, kBits)];
  if (pair.older.key == key || pair.newer.key != key) std::swap(pair.older, pair.newer);
  pair.newer = {key, std::move(launch), id};
}

ExaminedLaunches& examined_launches() { return process_lifetime<ExaminedLaunches>(); }

}  // namespace thermocline
