// SPDX-License-Identifier: Apache-2.0
#include "offload/recompute/lasting_contents.h"

#include <algorithm>

#include "offload/recompute/kept_inputs.h"

namespace thermocline {

// The inputs from which a dead content can be made while it is dropped. Small inputs exist, copied aside. Large ones
// that repeatable operations of the iteration make count as dropped, too: then the recipe includes their inputs.
class LastingContents::World {
 public:
  World(const LastingContents& contents, const Drop& drop, Bytes bytes)
      : contents_(contents), drop_(drop), bytes_(bytes) {}

  bool producer(VersionId version, std::uint64_t* operation) const {
    *operation = lineage().versions[version].producer;
    return *operation != LineageVersion::kBefore && lineage().is_repeatable(static_cast<std::uint32_t>(*operation));
  }
  std::span<const VersionedOperand> operands(std::uint64_t operation) const {
    return lineage().operands(static_cast<std::uint32_t>(operation));
  }
  bool is_available(VersionId version) const {
    const LineageBuffer& buffer = lineage().buffer_of(version);
    if (!lineage().is_current_at(version, drop_.last_use + 1)) return false;
    if (buffer.death != LineageBuffer::kOutlives) return false;  // freed before, or perhaps another one each time
    std::uint64_t operation = 0;
    return is_kept_for(buffer.bytes, bytes_) || !producer(version, &operation);
  }
  bool owns(VersionId) const { return false; }

 private:
  const Lineage& lineage() const { return contents_.lineage_; }
  const LastingContents& contents_;
  const Drop& drop_;
  const Bytes bytes_;
};

LastingContents::LastingContents(const Profile& profile, const Lineage& lineage)
    : lineage_(lineage), is_lasting_(lineage.buffers.size()), first_write_(lineage.buffers.size(), kNever) {
  if (!lineage.drops_lasting) return;
  find_lasting(profile);
  find_dead();
}

void LastingContents::find_lasting(const Profile& profile) {
  std::vector<std::uint32_t> roles(profile.buffers.size());
  for (const LineageBuffer& buffer : lineage_.buffers) {
    if (buffer.name != kNoBuffer) ++roles[buffer.name];
  }
  for (std::uint32_t b = 0; b < lineage_.buffers.size(); ++b) {
    const LineageBuffer& buffer = lineage_.buffers[b];
    is_lasting_[b] = buffer.name != kNoBuffer && buffer.may_be_dropped && buffer.death == LineageBuffer::kOutlives &&
                     profile.buffers[buffer.name].always && roles[buffer.name] == 1;
  }
}

void LastingContents::find_dead() {
  struct Now {
    std::uint32_t first_use = kNever, last_use = kNever;
    bool begins_overwritten = false;
    VersionId content = kNoVersion;
  };
  std::vector<Now> now(lineage_.buffers.size());
  const auto add = [this](const Now& one, std::uint32_t buffer, std::uint32_t next_use) {
    const Drop drop{.buffer = buffer, .last_use = one.last_use, .next_use = next_use, .version = kNoVersion};
    dead_.push_back(drop);
    by_key_[key_of(drop)].content = one.content;
  };
  for (std::uint32_t q = 0; q < lineage_.places(); ++q) {
    const std::span<const VersionedOperand> operands = lineage_.operands(q);
    const std::span<const std::uint32_t> buffers = lineage_.operand_buffers(q);
    for (std::size_t i = 0; i < buffers.size(); ++i) {
      const std::uint32_t b = buffers[i];
      const VersionedOperand& operand = operands[i];
      if (operand.writes) first_write_[b] = std::min(first_write_[b], q);
      if (!is_lasting_[b]) continue;
      Now& one = now[b];
      if (one.first_use == kNever) {
        one.first_use = q;
        one.begins_overwritten = !operand.reads;
      } else if (!operand.reads) {
        add(one, b, q);
      }
      one.last_use = q;
      one.content = operand.writes ? operand.written : operand.read;
    }
  }
  for (std::uint32_t b = 0; b < now.size(); ++b) {
    if (now[b].begins_overwritten) add(now[b], b, now[b].first_use);
  }
  // Contents copied aside are small compared with all contents made of them.
  std::unordered_map<VersionId, Bytes> made;
  std::erase_if(dead_, [&](const Drop& drop) {
    Dead& dead = by_key_[key_of(drop)];
    if (!find_inputs(drop, &dead.asides)) return true;
    for (const VersionId input : dead.asides) made[input] += lineage_.buffers[drop.buffer].bytes;
    return false;
  });
  std::erase_if(dead_, [&](const Drop& drop) {
    return std::ranges::any_of(by_key_[key_of(drop)].asides, [&](VersionId input) {
      return !is_kept_for(lineage_.buffer_of(input).bytes, made[input]);
    });
  });
}

VersionId LastingContents::content_of(const Drop& drop) const {
  const auto known = by_key_.find(key_of(drop));
  return known == by_key_.end() ? kNoVersion : known->second.content;
}

bool LastingContents::find_inputs(const Drop& drop, std::vector<VersionId>* asides) const {
  const World world(*this, drop, lineage_.buffers[drop.buffer].bytes);
  RecipeBuilder builder(world);
  if (!builder.add(content_of(drop))) return false;
  for (const VersionId input : builder.recipe().inputs) {
    if (!stays(input, drop) && std::ranges::find(*asides, input) == asides->end()) asides->push_back(input);
  }
  return true;
}

// The place of the operation that overwrites it; kNever: none does.
std::uint32_t LastingContents::overwritten_at(VersionId version) const {
  const std::uint32_t last = lineage_.versions[version].last;
  return last != LineageVersion::kBefore ? last : first_write_[lineage_.versions[version].buffer];
}

bool LastingContents::stays(VersionId version, const Drop& drop) const {
  if (lineage_.versions[version].last != LineageVersion::kBefore)
    return !drop.goes_round() && lineage_.versions[version].last >= drop.next_use;
  return !drop.goes_round() || overwritten_at(version) >= drop.next_use;
}

std::vector<LastingContents::Aside> LastingContents::asides_of(const std::vector<Drop>& drops) const {
  const auto places = static_cast<std::uint32_t>(lineage_.places());
  const auto distance = [places](std::uint32_t from, std::uint32_t to) { return (to + places - from) % places; };
  std::vector<Aside> all;
  std::unordered_map<VersionId, std::size_t> index;
  for (const Drop& drop : drops) {
    const auto dead = by_key_.find(key_of(drop));
    if (drop.version != kNoVersion || dead == by_key_.end()) continue;
    for (const VersionId input : dead->second.asides) {
      const auto [at, is_new] = index.try_emplace(input, all.size());
      if (is_new) all.push_back({input, overwritten_at(input), drop.next_use});
      Aside& aside = all[at->second];
      if (distance(aside.from, drop.next_use) > distance(aside.from, aside.until)) aside.until = drop.next_use;
    }
  }
  return all;
}

}  // namespace thermocline
