// SPDX-License-Identifier: Apache-2.0
#include "offload/recompute/joint_plan.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <queue>

namespace thermocline {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
// Shorter gaps gain little, and there are many of them.
constexpr std::uint32_t kLeastGap = 20;

// Bytes that are live at each place, everything on the device.
std::vector<double> live_bytes_of(const Profile& profile) {
  std::vector<double> live(profile.places() + 1);
  const auto add = [&live](std::uint32_t from, std::uint32_t to, double bytes) {
    live[from] += bytes;
    live[to + std::size_t{1}] -= bytes;
  };
  const auto last = static_cast<std::uint32_t>(profile.places() - 1);
  for (const ProfiledBuffer& buffer : profile.buffers) {
    const auto bytes = static_cast<double>(buffer.bytes);
    const bool goes_round = !buffer.always && buffer.birth > buffer.death;
    if (buffer.always || goes_round) add(0, buffer.always ? last : buffer.death, bytes);
    if (!buffer.always) add(buffer.birth, goes_round ? last : buffer.death, bytes);
  }
  for (std::size_t q = 1; q < live.size(); ++q) live[q] += live[q - 1];
  live.resize(profile.places());
  for (std::size_t q = 0; q < live.size(); ++q) live[q] += static_cast<double>(profile.unplanned_bytes[q]);
  return live;
}

class Ranking {
 public:
  Ranking(const Profile& profile, const Lineage& lineage, Bytes limit)
      : profile_(profile),
        lineage_(lineage),
        readers_(lineage.buffers.size()),
        dropped_(lineage.buffers.size()) {
    find_crowded(limit);
    find_candidates();
  }

  std::vector<Drop> run() {
    for (std::uint32_t c = 0; c < candidates_.size(); ++c) push(c);
    std::vector<Drop> chosen;
    while (!open_.empty()) {
      const Entry best = open_.top();
      open_.pop();
      std::vector<VersionId> leaves;
      const double key = key_of(best.candidate, &leaves);
      if (key <= 0) continue;
      // Others that were chosen have made it dearer since.
      if (!open_.empty() && Entry{key, best.candidate} < open_.top()) {
        open_.push({key, best.candidate});
        continue;
      }
      choose(best.candidate, leaves);
      chosen.push_back(candidates_[best.candidate]);
    }
    return chosen;
  }

 private:
  struct Entry {
    double key;
    std::uint32_t candidate;
    bool operator<(const Entry& other) const {
      return key != other.key ? key < other.key : candidate > other.candidate;
    }
  };

  void find_crowded(Bytes limit) {
    const std::vector<double> live = live_bytes_of(profile_);
    crowded_.assign(live.size() + 1, 0);
    for (std::size_t q = 0; q < live.size(); ++q) {
      crowded_[q + 1] = crowded_[q] + (live[q] > static_cast<double>(limit) ? 1 : 0);
    }
  }
  bool is_crowded_between(std::uint32_t leave, std::uint32_t arrive) const {
    return crowded_[arrive] > crowded_[leave + 1];
  }

  void find_candidates() {
    std::vector<Drop> last(lineage_.buffers.size());  // `leave`, and the version that stands behind it
    std::vector<bool> used(lineage_.buffers.size());
    for (std::uint32_t q = 0; q < lineage_.places(); ++q) {
      const std::span<const VersionedOperand> operands = lineage_.operands(q);
      const std::span<const std::uint32_t> buffers = lineage_.operand_buffers(q);
      for (std::size_t i = 0; i < buffers.size(); ++i) {
        const std::uint32_t b = buffers[i];
        Drop& drop = last[b];
        if (used[b] && q - drop.leave >= kLeastGap && may_be_dropped(b) && is_crowded_between(drop.leave, q)) {
          drop.arrive = q;
          drop.version = operands[i].reads ? operands[i].read : kNoVersion;
          candidates_.push_back(drop);
        }
        drop = {.buffer = b, .leave = q, .arrive = q, .version = kNoVersion};
        used[b] = true;
      }
    }
  }
  // What lives across the end of the iteration is another one's there.
  bool may_be_dropped(std::uint32_t b) const {
    const std::uint32_t name = lineage_.buffers[b].name;
    if (name == kNoBuffer || lineage_.buffers[b].death == LineageBuffer::kOutlives) return false;
    const ProfiledBuffer& buffer = profile_.buffers[name];
    return !buffer.always && buffer.birth <= buffer.death;
  }

  void push(std::uint32_t c) {
    std::vector<VersionId> leaves;
    if (const double key = key_of(c, &leaves); key > 0) open_.push({key, c});
  }

  // Bytes a nanosecond; 0: it can not be recomputed, or others could not be any more.
  double key_of(std::uint32_t c, std::vector<VersionId>* leaves) {
    const Drop& drop = candidates_[c];
    const auto bytes = static_cast<double>(profile_.buffers[lineage_.buffers[drop.buffer].name].bytes);
    if (drop.version == kNoVersion) return bytes;
    double ns = cost(drop.version, drop.arrive, drop.buffer, leaves);
    for (const std::uint32_t e : readers_[drop.buffer]) {
      const Drop& other = candidates_[e];
      if (other.arrive <= drop.leave || other.arrive > drop.arrive || ns == kNever) continue;
      const double again = cost(drop.version, other.arrive, drop.buffer, nullptr);
      // Made for the other, it is kept until its own use.
      if (again == kNever || drop.arrive > other.arrive + kKeptFor) ns += again;
    }
    return ns == kNever ? 0 : bytes / std::max(ns, 1.0);
  }

  // Nanoseconds to make the version at the place, `also` being dropped.
  double cost(VersionId version, std::uint32_t place, std::uint32_t also, std::vector<VersionId>* leaves) {
    std::vector<std::uint32_t> set;
    const auto mark = [&](std::uint32_t b) {
      if (!dropped_[b]) set.push_back(b);
      dropped_[b] = true;
    };
    mark(also);
    for (const std::uint32_t e : chosen_) {
      if (candidates_[e].leave < place && place <= candidates_[e].arrive) mark(candidates_[e].buffer);
    }
    const RecomputableAt world(lineage_, dropped_, place);
    RecipeBuilder builder(world);
    double ns = 0;
    if (builder.add(version)) {
      for (const Recipe::Run& run : builder.recipe().runs) ns += static_cast<double>(profile_.nanoseconds[run.operation]);
      if (leaves != nullptr) *leaves = builder.recipe().leaves;
    } else {
      ns = kNever;
    }
    for (const std::uint32_t b : set) dropped_[b] = false;
    return ns;
  }

  void choose(std::uint32_t c, const std::vector<VersionId>& leaves) {
    chosen_.push_back(c);
    const auto reads = [this](std::uint32_t e, std::uint32_t b) {
      std::vector<std::uint32_t>& readers = readers_[b];
      if (std::ranges::find(readers, e) == readers.end()) readers.push_back(e);
    };
    for (const VersionId leaf : leaves) reads(c, lineage_.versions[leaf].buffer);
    // Whoever was made of it is made of its inputs now.
    const Drop& drop = candidates_[c];
    for (const std::uint32_t e : std::vector<std::uint32_t>(readers_[drop.buffer])) {
      if (candidates_[e].arrive <= drop.leave || candidates_[e].arrive > drop.arrive) continue;
      for (const VersionId leaf : leaves) reads(e, lineage_.versions[leaf].buffer);
    }
  }

  const Profile& profile_;
  const Lineage& lineage_;
  std::vector<std::uint32_t> crowded_;  // places before, where more is live than the limit
  std::vector<Drop> candidates_;
  std::vector<std::uint32_t> chosen_;
  std::vector<std::vector<std::uint32_t>> readers_;  // by buffer: chosen candidates that are made of it
  std::vector<bool> dropped_;                        // scratch of cost()
  std::priority_queue<Entry> open_;
};

}  // namespace

std::vector<Drop> rank_drops(const Profile& profile, const Lineage& lineage, Bytes limit) {
  return Ranking(profile, lineage, limit).run();
}

namespace {

constexpr std::size_t kLengths = 20;
constexpr double kFaster = 0.999;

// The first `length` of the ranked, but for those that can not be had once the others are gone.
Plan plan_of(const Profile& profile, const Lineage& lineage, std::vector<Drop> drops, Bytes limit, const Link& link) {
  auto rewriting = std::make_shared<Rewriting>();
  std::size_t failed = 0;
  while (!rewrite(profile, lineage, drops, rewriting.get(), &failed)) {
    drops.erase(drops.begin() + static_cast<std::ptrdiff_t>(failed));
  }
  Plan plan = plan_iteration(rewriting->profile, limit, link);
  if (!drops.empty()) plan.rewriting = std::move(rewriting);
  return plan;
}

}  // namespace

Plan plan_jointly(const Profile& profile, const Lineage& lineage, Bytes limit, const Link& link) {
  Plan best = plan_iteration(profile, limit, link);
  const std::vector<Drop> ranked = rank_drops(profile, lineage, limit);
  std::size_t before = 0;
  for (std::size_t i = 1; i <= kLengths; ++i) {
    const std::size_t length = (ranked.size() * i + kLengths - 1) / kLengths;
    if (length == before) continue;
    before = length;
    const auto end = ranked.begin() + static_cast<std::ptrdiff_t>(length);
    Plan plan = plan_of(profile, lineage, {ranked.begin(), end}, limit, link);
    if (plan.fits && (!best.fits || plan.predicted_ns < kFaster * best.predicted_ns)) best = std::move(plan);
  }
  return best;
}

}  // namespace thermocline
