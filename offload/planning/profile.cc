// SPDX-License-Identifier: Apache-2.0
#include "offload/planning/profile.h"

#include <algorithm>
#include <numeric>

#include "driver/check.h"

namespace thermocline {
void ProfiledBuffer::add_use(std::uint32_t place, bool only_reads_it) {
  if (uses.empty() || uses.back() != place) {
    uses.push_back(place);
    only_reads.push_back(only_reads_it);
  } else {
    only_reads.back() = only_reads.back() && only_reads_it;
  }
}

bool ProfiledBuffer::may_write_at(std::uint32_t place) const {
  const auto use = std::lower_bound(uses.begin(), uses.end(), place);
  if (use == uses.end() || *use != place) return false;
  const auto index = static_cast<std::size_t>(use - uses.begin());
  return index >= only_reads.size() || !only_reads[index];
}

void ProfileRecorder::allocated(std::uint64_t serial, Bytes bytes) {
  // A block that was used before, and has got other buffers since, may have pages.
  if (!lives_.contains(serial) && unused_.try_emplace(serial, bytes).second) unused_bytes_ += bytes;
}

Bytes ProfileRecorder::take_unused(std::uint64_t serial) {
  const auto unused = unused_.find(serial);
  if (unused == unused_.end()) return 0;
  const Bytes bytes = unused->second;
  unused_.erase(unused);
  unused_bytes_ -= bytes;
  return bytes;
}

void ProfileRecorder::freed(std::uint64_t serial) {
  if (unused_bytes_ > 0) take_unused(serial);
  const auto life = lives_.find(serial);
  // A buffer that is kept although freed is freed a second time, by the engine.
  if (life == lives_.end() || life->second.dead) return;
  life->second.dead = true;
  life->second.death = first_ + operations_.size() - 1;
}

bool ProfileRecorder::usage_of_last(std::size_t own, Usage* out) {
  const Recorded& operation = operations_.back();
  if (operation.operands > Usage::kMost) return false;
  out->first_operand = operation.first_operand;
  out->operands = static_cast<std::uint32_t>(operation.operands);
  out->own = static_cast<std::uint32_t>(own);
  for (std::size_t i = 0; i < operation.operands; ++i) {
    const std::uint64_t serial = operands_[operation.first_operand - first_operand_ + i].serial;
    out->used[i] = {&life_of(serial), serial};
  }
  return true;
}

void ProfileRecorder::store_again(Usage& usage) {
  for (std::uint64_t i = 0; i < usage.operands; ++i) {
    const Operand operand = operands_[usage.first_operand - first_operand_ + i];
    operands_.push_back(operand);
  }
  usage.first_operand = end_operand_;
  end_operand_ += usage.operands;
}

void ProfileRecorder::forget() {
  const std::size_t half = operations_.size() / 2;
  operations_.erase(operations_.begin(), operations_.begin() + static_cast<std::ptrdiff_t>(half));
  first_ += half;
  operands_.erase(operands_.begin(), operands_.begin() + static_cast<std::ptrdiff_t>(kept_from_ - first_operand_));
  first_operand_ = kept_from_;
  kept_from_ = end_operand_;
  std::erase_if(lives_, [this](const auto& life) { return life.second.dead && life.second.death < first_; });
  recent_.fill({});
}

std::span<const ProfileRecorder::Operand> ProfileRecorder::operands_of(std::uint64_t ordinal,
                                                                       std::vector<Operand>* scratch) const {
  const Recorded& operation = operations_[ordinal - first_];
  const auto begin = operands_.begin() + static_cast<std::ptrdiff_t>(operation.first_operand - first_operand_);
  scratch->assign(begin, begin + static_cast<std::ptrdiff_t>(operation.operands));
  return *scratch;
}

Profile ProfileRecorder::make(std::size_t period) const {
  THERMOCLINE_CHECK(operations_.size() >= 2 * period, "a profile needs two whole iterations");
  const std::uint64_t end = first_ + operations_.size();
  const std::uint64_t begin = end - period;
  Profile profile;
  Names names;
  std::vector<Operand> now, before;

  // A block that is allocated in this iteration and outlives it has, in the next iteration, the role of the block that
  // was accessed at the same place one iteration ago: both get the same name.
  const auto name_of = [&](const Operand& operand, const Operand* earlier) {
    if (!operand.planned) return kNoBuffer;
    if (const auto known = names.find(operand.serial); known != names.end()) return known->second;
    const Life& life = lives_.at(operand.serial);
    std::uint32_t name = kNoBuffer;
    if (life.first_use >= begin && !life.dead && earlier != nullptr && earlier->serial != operand.serial) {
      const auto found = names.find(earlier->serial);
      if (found != names.end() && profile.buffers[found->second].bytes == operand.bytes) name = found->second;
    }
    if (name == kNoBuffer) {
      name = static_cast<std::uint32_t>(profile.buffers.size());
      profile.buffers.push_back({.bytes = operand.bytes, .contents = operand.contents});
    }
    names[operand.serial] = name;
    profile.buffers[name].latest_serial = operand.serial;
    return name;
  };

  for (std::uint64_t ordinal = begin; ordinal < end; ++ordinal) {
    const auto place = static_cast<std::uint32_t>(ordinal - begin);
    const std::span<const Operand> operands = operands_of(ordinal, &now);
    const std::span<const Operand> earlier = operands_of(ordinal - period, &before);
    profile.first_operand.push_back(static_cast<std::uint32_t>(profile.operand_buffers.size()));
    profile.nanoseconds.push_back(operations_[ordinal - first_].nanoseconds);
    profile.unplanned_bytes.push_back(operations_[ordinal - first_].live_bytes);
    for (std::size_t i = 0; i < operands.size(); ++i) {
      const bool same_shape = earlier.size() == operands.size() && earlier[i].bytes == operands[i].bytes;
      const std::uint32_t name = name_of(operands[i], same_shape ? &earlier[i] : nullptr);
      profile.operand_buffers.push_back(name);
      if (name == kNoBuffer) continue;
      profile.buffers[name].add_use(place, operands[i].only_read);
    }
  }
  profile.first_operand.push_back(static_cast<std::uint32_t>(profile.operand_buffers.size()));
  set_lifetimes(begin, names, &profile);
  return profile;
}

void ProfileRecorder::set_lifetimes(std::uint64_t begin, const Names& names, Profile* profile) const {
  const auto places = static_cast<std::uint32_t>(profile->places());
  struct Ends {
    bool before = false, beyond = false;  // alive when the iteration began; when it ended
    std::uint32_t birth = 0, death = 0;
  };
  std::vector<Ends> ends(profile->buffers.size());
  for (ProfiledBuffer& buffer : profile->buffers) {
    ends[static_cast<std::size_t>(&buffer - profile->buffers.data())].death = places - 1;
  }
  for (const auto& [serial, name] : names) {
    const Life& life = lives_.at(serial);
    Ends& end = ends[name];
    if (life.first_use < begin)
      end.before = true;
    else
      end.birth = static_cast<std::uint32_t>(life.first_use - begin);
    if (!life.dead)
      end.beyond = true;
    else
      end.death = static_cast<std::uint32_t>(life.death - begin);
  }
  std::vector<std::int64_t> change(places + 1, 0);
  const auto lives_in = [&change](std::uint32_t from, std::uint32_t to, Bytes bytes) {
    change[from] += static_cast<std::int64_t>(bytes);
    change[to + 1] -= static_cast<std::int64_t>(bytes);
  };
  for (std::size_t i = 0; i < ends.size(); ++i) {
    ProfiledBuffer& buffer = profile->buffers[i];
    buffer.birth = ends[i].birth;
    buffer.death = ends[i].death;
    // Allocated and freed within one iteration, in this order or the other way round; alive at both ends and neither
    // allocated nor freed: always alive.
    const bool born = ends[i].birth > 0 || !ends[i].before;
    const bool dies = ends[i].death < places - 1 || !ends[i].beyond;
    buffer.always = !born && !dies;
    if (buffer.always || buffer.birth <= buffer.death) {
      lives_in(buffer.birth, buffer.death, buffer.bytes);
    } else {
      lives_in(0, buffer.death, buffer.bytes);
      lives_in(buffer.birth, places - 1, buffer.bytes);
    }
  }
  // Buffers that the iteration does not use are evicted while room is short: they are evicted first, and never fetched.
  auto planned = static_cast<std::int64_t>(idle_bytes(begin, names));
  for (std::uint32_t q = 0; q < places; ++q) {
    planned += change[q];
    const Bytes live = profile->unplanned_bytes[q];
    profile->unplanned_bytes[q] = live > static_cast<Bytes>(planned) ? live - static_cast<Bytes>(planned) : 0;
  }
}

// Bytes of blocks that can be evicted, were used before `begin`, and live on without being used since.
Bytes ProfileRecorder::idle_bytes(std::uint64_t begin, const Names& names) const {
  Bytes bytes = 0;
  for (const auto& [serial, life] : lives_) {
    if (life.planned && !life.dead && life.last_use < begin && !names.contains(serial)) bytes += life.bytes;
  }
  return bytes;
}

}  // namespace thermocline
