// SPDX-License-Identifier: Apache-2.0
#include "offload/recompute/rewriting.h"

#include <algorithm>
#include <numeric>

#include "driver/page_size.h"
#include "offload/recompute/kept_inputs.h"
#include "offload/recompute/lasting_contents.h"

namespace thermocline {
namespace {

class Rewriter {
 public:
  Rewriter(const Profile& profile, const Lineage& lineage, const std::vector<Drop>& drops, const RewritingTerms& terms,
           Rewriting* out)
      : profile_(profile),
        lineage_(lineage),
        drops_(drops),
        terms_(terms),
        out_(*out),
        uses_(lineage.buffers.size()),
        dropped_(lineage.buffers.size()),
        segment_(profile.buffers.size()),
        begins_(profile.places()),
        to_come_(lineage.buffers.size()),
        kept_inputs_(lineage) {
    for (std::uint32_t q = 0; q < profile.places(); ++q) {
      for (const std::uint32_t b : lineage.operand_buffers(q)) uses_[b].push_back(q);
    }
    find_typical_bytes();
    for (std::uint32_t d = 0; d < drops.size(); ++d) {
      begins_[drops[d].last_use].push_back(d);
      ++to_come_[drops[d].buffer];
    }
  }

  bool run(std::vector<std::size_t>* failed) {
    const auto places = static_cast<std::uint32_t>(profile_.places());
    out_ = {};
    out_.recomputations.resize(places);
    out_.drops.resize(places);
    out_.profile.buffers = profile_.buffers;
    for (std::uint32_t i = 0; i < profile_.buffers.size(); ++i) {
      out_.names.push_back(segment_[i] = i);
      out_.profile.buffers[i].uses.clear();
      out_.profile.buffers[i].only_reads.clear();
    }
    open_.assign(lineage_.buffers.size(), 0);
    for (std::uint32_t d = 0; d < drops_.size(); ++d) {
      if (!drops_[d].goes_round()) continue;
      // It was dropped in the previous iteration.
      dropped_[drops_[d].buffer] = true;
      open_[drops_[d].buffer] = d;
    }
    for (std::uint32_t q = 0; q < places; ++q) {
      recompute_before(q, failed);
      if (static_cast<double>(out_.recomputed_ns) > terms_.most_recomputed_ns) {
        out_.is_too_slow = true;
        failed->clear();
        return true;
      }
      const auto at = static_cast<std::uint32_t>(out_.profile.places());
      out_.place_of.push_back(at);
      out_.runs_before.push_back(q == 0 ? at : at - out_.place_of[q - 1] - 1);
      begin_place(q, profile_.nanoseconds[q]);
      for (const std::uint32_t name : profile_.operands(q)) {
        if (name == kNoBuffer)
          use(name, true);
        else
          use(segment_[name], profile_.buffers[name].may_write_at(q));
      }
      for (const std::uint32_t d : begins_[q]) drop(d, q);
    }
    out_.profile.first_operand.push_back(static_cast<std::uint32_t>(out_.profile.operand_buffers.size()));
    translate_lifetimes();
    add_asides();
    std::ranges::sort(*failed);
    return failed->empty();
  }

 private:
  // The median size of the buffers that are allocated and freed in the iteration.
  void find_typical_bytes() {
    std::vector<Bytes> sizes;
    for (const ProfiledBuffer& buffer : profile_.buffers) {
      if (!buffer.always) sizes.push_back(buffer.bytes);
    }
    if (sizes.empty()) return;
    const auto middle = sizes.begin() + static_cast<std::ptrdiff_t>(sizes.size() / 2);
    std::nth_element(sizes.begin(), middle, sizes.end());
    typical_bytes_ = static_cast<double>(*middle);
  }

  bool maps() const { return terms_.mapping == Mapping::kEachTime; }
  std::uint32_t last_place() const { return static_cast<std::uint32_t>(out_.profile.places() - 1); }

  // Begins the place of an operation, or of one that runs again before it.
  void begin_place(std::uint32_t of, std::uint64_t nanoseconds, bool is_rerun = false) {
    const Bytes not_yet = is_rerun && !profile_.unplanned_results.empty() ? profile_.unplanned_results[of] : 0;
    out_.profile.first_operand.push_back(static_cast<std::uint32_t>(out_.profile.operand_buffers.size()));
    out_.profile.nanoseconds.push_back(nanoseconds);
    out_.profile.unplanned_bytes.push_back(profile_.unplanned_bytes[of] - not_yet);
  }
  void use(std::uint32_t segment, bool may_write = true) {
    out_.profile.operand_buffers.push_back(segment);
    if (segment != kNoBuffer) out_.profile.buffers[segment].add_use(last_place(), !may_write);
  }
  // From now on the profile's buffer is a new one: its life is split here.
  std::uint32_t new_segment(std::uint32_t name, Bytes bytes, Bytes contents, std::uint32_t held_until = 0) {
    ProfiledBuffer buffer;
    buffer.bytes = bytes;
    buffer.contents = contents;
    buffer.birth = static_cast<std::uint32_t>(out_.profile.places());
    buffer.held_until = held_until;
    out_.profile.buffers.push_back(buffer);
    out_.names.push_back(name);
    return static_cast<std::uint32_t>(out_.names.size() - 1);
  }
  // If programs hold contents, they do not copy recomputed ones.
  static std::uint32_t held_once_recomputed(const ProfiledBuffer& whole) {
    return whole.held_until == 0 ? 0 : ProfiledBuffer::kAlwaysHeld;
  }
  std::uint32_t new_segment_of(std::uint32_t buffer) {
    const std::uint32_t name = lineage_.buffers[buffer].name;
    const ProfiledBuffer& whole = profile_.buffers[name];
    if (whole.always && begins_first_segment(buffer)) {
      segment_[name] = name;
      out_.profile.buffers[name].always = false;
      out_.profile.buffers[name].birth = static_cast<std::uint32_t>(out_.profile.places());
    } else {
      segment_[name] = new_segment(name, whole.bytes, whole.contents, held_once_recomputed(whole));
    }
    out_.profile.buffers[segment_[name]].begins_remapped = maps();
    return segment_[name];
  }
  // For a lasting buffer: contents that begin after its last drop exist when the next iteration begins; contents that
  // are dropped then begin in this one.
  bool begins_first_segment(std::uint32_t buffer) const {
    const bool has_begun = !out_.profile.buffers[lineage_.buffers[buffer].name].always;
    return !has_begun && (to_come_[buffer] == 0 || drops_[open_[buffer]].goes_round());
  }

  void drop(std::uint32_t d, std::uint32_t q) {
    const Drop& drop = drops_[d];
    --to_come_[drop.buffer];
    if (dropped_[drop.buffer]) return;
    dropped_[drop.buffer] = true;
    open_[drop.buffer] = d;
    const std::uint32_t name = lineage_.buffers[drop.buffer].name;
    out_.drops[q].push_back(name);
    out_.profile.buffers[segment_[name]].death = last_place();
    ProfiledBuffer& ending = out_.profile.buffers[segment_[name]];
    if (maps()) ending.successors = std::max(1.0, static_cast<double>(ending.bytes) / typical_bytes_);
    ended_.push_back(segment_[name]);
  }

  void recompute_before(std::uint32_t q, std::vector<std::size_t>* failed) {
    const std::span<const std::uint32_t> buffers = lineage_.operand_buffers(q);
    const std::span<const VersionedOperand> operands = lineage_.operands(q);
    const std::span<const Recomputation> recomputations = recomputations_at(q);
    const auto is_dropped = [this](std::uint32_t b) -> bool { return dropped_[b]; };
    if (std::ranges::none_of(buffers, is_dropped) &&
        std::ranges::none_of(recomputations, is_dropped, &Recomputation::buffer))
      return;
    const std::vector<VersionId> kept = kept_for(buffers);
    const RecomputableAt world(lineage_, dropped_, q, &uses_, terms_.kept_for, recomputations, kept);
    RecipeBuilder builder(world, terms_.recomputations.empty() ? Recipe::kMostRuns : Recipe::kMostRunsOfSegment);
    bool can = true;
    for (std::size_t i = 0; i < recomputations.size() && can; ++i) {
      if (!dropped_[recomputations[i].buffer]) continue;
      can = builder.add(recomputations[i].version);
      if (!can) failed->push_back(open_[recomputations[i].buffer]);
    }
    for (std::size_t i = 0; i < buffers.size() && can; ++i) {
      if (!dropped_[buffers[i]] || !operands[i].reads) continue;
      can = builder.add(operands[i].read);
      if (!can) failed->push_back(open_[buffers[i]]);
    }
    // After a failure rewriting continues only to find further failures.
    if (can && !builder.recipe().runs.empty()) emit(builder.recipe(), q);
    for (const std::uint32_t b : buffers) {
      // A dropped buffer that is only written gets memory again.
      if (dropped_[b]) new_segment_of(b);
      dropped_[b] = false;
    }
  }

  // The inputs that the program has freed and that still exist because these of its buffers are dropped. Published
  // policies keep nothing.
  std::vector<VersionId> kept_for(std::span<const std::uint32_t> buffers) const {
    std::vector<VersionId> kept;
    if (!terms_.recomputations.empty()) return kept;
    for (const std::uint32_t b : buffers) {
      if (!dropped_[b]) continue;
      const std::vector<VersionId> inputs = kept_inputs_.of(drops_[open_[b]]);
      kept.insert(kept.end(), inputs.begin(), inputs.end());
    }
    return kept;
  }

  // The input that the program has freed lives until the last rerun that reads it.
  void keep_until_now(VersionId input, std::uint32_t q) {
    const LineageBuffer& buffer = lineage_.buffer_of(input);
    if (buffer.death >= q) return;
    if (buffer.name != kNoBuffer) {
      kept_until_.resize(std::max<std::size_t>(kept_until_.size(), segment_[buffer.name] + std::size_t{1}));
      kept_until_[segment_[buffer.name]] = last_place();
      return;
    }
    for (std::uint32_t place = out_.place_of[buffer.death] + 1; place <= last_place(); ++place)
      out_.profile.unplanned_bytes[place] += buffer.bytes;
  }

  std::span<const Recomputation> recomputations_at(std::uint32_t q) const {
    const std::vector<Recomputation>& all = terms_.recomputations;
    return {std::ranges::lower_bound(all, q, {}, &Recomputation::place),
            std::ranges::upper_bound(all, q, {}, &Recomputation::place)};
  }

  static std::vector<std::uint32_t> values_by(const Recipe& recipe, std::uint32_t Recipe::Value::*run) {
    std::vector<std::uint32_t> order(recipe.values.size());
    std::iota(order.begin(), order.end(), 0U);
    std::ranges::stable_sort(order, {}, [&](std::uint32_t v) { return recipe.values[v].*run; });
    return order;
  }

  void emit(const Recipe& recipe, std::uint32_t q) {
    std::vector<std::uint32_t> segments(recipe.values.size(), kNoBuffer);
    const std::vector<std::uint32_t> by_first = values_by(recipe, &Recipe::Value::first_run);
    const std::vector<std::uint32_t> by_last = values_by(recipe, &Recipe::Value::last_run);
    auto begins = by_first.begin(), ends = by_last.begin();
    for (std::uint32_t r = 0; r < recipe.runs.size(); ++r) {
      const auto operation = static_cast<std::uint32_t>(recipe.runs[r].operation);
      for (; begins != by_first.end() && recipe.values[*begins].first_run == r; ++begins)
        segments[*begins] = segment_for(recipe.values[*begins]);
      begin_place(q, profile_.nanoseconds[operation], true);
      out_.reruns.push_back(operation);
      out_.recomputed_ns += profile_.nanoseconds[operation];
      ++out_.recomputed_operations;
      const std::span<const std::uint32_t> buffers = lineage_.operand_buffers(operation);
      for (std::size_t i = 0; i < buffers.size(); ++i) {
        const std::uint32_t value = recipe.operands[recipe.runs[r].first_operand + i];
        const std::uint32_t name = lineage_.buffers[buffers[i]].name;
        use(value != Recipe::kInPlace ? segments[value] : name == kNoBuffer ? kNoBuffer : segment_[name]);
      }
      for (; ends != by_last.end() && recipe.values[*ends].last_run == r; ++ends) {
        if (recipe.values[*ends].own || segments[*ends] == kNoBuffer) continue;
        out_.profile.buffers[segments[*ends]].death = last_place();
      }
    }
    std::vector<VersionId> inputs = recipe.inputs;
    std::ranges::sort(inputs);
    inputs.erase(std::unique(inputs.begin(), inputs.end()), inputs.end());
    for (const VersionId input : inputs) keep_until_now(input, q);
    for (const Recipe::Value& value : recipe.values) {
      if (!value.own) continue;
      const std::uint32_t buffer = lineage_.versions[value.version].buffer;
      out_.recomputations[q].push_back(lineage_.buffers[buffer].name);
      dropped_[buffer] = false;
    }
  }

  std::uint32_t segment_for(const Recipe::Value& value) {
    const std::uint32_t buffer = lineage_.versions[value.version].buffer;
    if (value.own) return new_segment_of(buffer);
    const std::uint32_t name = lineage_.buffers[buffer].name;
    const Bytes bytes = lineage_.buffers[buffer].bytes;
    if (name != kNoBuffer) {
      const ProfiledBuffer& whole = profile_.buffers[name];
      return new_segment(kNoBuffer, whole.bytes, whole.contents, held_once_recomputed(whole));
    }
    // Large scratch memory has whole pages of its own; small scratch memory shares slabs with other small buffers.
    if (bytes < profile_.page_bytes / 2) return kNoBuffer;
    return new_segment(kNoBuffer, round_up(bytes, profile_.page_bytes), bytes);
  }

  // Translates births and deaths from the original profile to places in the new one.
  void translate_lifetimes() {
    std::vector<bool> has_ended(out_.names.size());
    for (const std::uint32_t segment : ended_) has_ended[segment] = true;
    for (std::uint32_t i = 0; i < out_.names.size(); ++i) {
      ProfiledBuffer& buffer = out_.profile.buffers[i];
      const std::uint32_t name = out_.names[i];
      if (name == kNoBuffer) continue;
      const ProfiledBuffer& whole = profile_.buffers[name];
      if (i == name && buffer.always == whole.always) {
        buffer.birth = out_.place_of[whole.birth] - (whole.is_result ? 0 : out_.runs_before[whole.birth]);
      }
      if (i == name && whole.held_until < out_.place_of.size()) buffer.held_until = out_.place_of[whole.held_until];
      if (!has_ended[i]) buffer.death = out_.place_of[whole.death];
      if (i < kept_until_.size() && kept_until_[i] > 0) buffer.death = std::max(buffer.death, kept_until_[i]);
    }
  }

  // Adds the copies of inputs that are copied aside for dead contents.
  void add_asides() {
    if (terms_.lasting == nullptr) return;
    const auto places = static_cast<std::uint32_t>(out_.profile.places());
    for (const LastingContents::Aside& aside : terms_.lasting->asides_of(drops_)) {
      const Bytes bytes = lineage_.buffer_of(aside.input).bytes;
      const std::uint32_t end = (out_.place_of[aside.until] + 1) % places;
      std::uint32_t place = out_.place_of[aside.from];
      do {
        out_.profile.unplanned_bytes[place] += bytes;
        place = (place + 1) % places;
      } while (place != end);
    }
  }

  const Profile& profile_;
  const Lineage& lineage_;
  const std::vector<Drop>& drops_;
  const RewritingTerms terms_;
  double typical_bytes_ = 1;
  Rewriting& out_;
  std::vector<std::vector<std::uint32_t>> uses_;  // by buffer of the lineage
  std::vector<bool> dropped_;                     // by buffer of the lineage
  std::vector<std::uint32_t> open_;               // by buffer of the lineage: its current drop
  std::vector<std::uint32_t> segment_;  // by buffer of the original profile: its current buffer in the new one
  std::vector<std::vector<std::uint32_t>> begins_;  // by place: drops that begin after it
  std::vector<std::uint32_t> to_come_;              // by buffer of the lineage: drops that have not begun yet
  const KeptInputs kept_inputs_;
  std::vector<std::uint32_t> kept_until_;  // by buffer of the new profile; 0: it is not kept
  std::vector<std::uint32_t> ended_;       // buffers of the new profile that were ended by a drop
};

}  // namespace

bool rewrite(const Profile& profile, const Lineage& lineage, const std::vector<Drop>& drops,
             const RewritingTerms& terms, Rewriting* out, std::vector<std::size_t>* failed) {
  failed->clear();
  return Rewriter(profile, lineage, drops, terms, out).run(failed);
}

}  // namespace thermocline
