// SPDX-License-Identifier: Apache-2.0
#include "offload/references.h"

#include <algorithm>

#include "driver/check.h"

namespace thermocline {
namespace {

// Words of one table that lead to the same buffers in turn (an array of structures) become one run for each.
constexpr std::size_t kLookBack = 8;
constexpr Bytes kGap = 256;

DeviceAddress lower(DeviceAddress a, DeviceAddress b) { return a < b ? a : b; }
DeviceAddress higher(DeviceAddress a, DeviceAddress b) { return a < b ? b : a; }

}  // namespace

template <class Visit>
void References::for_each_in(AddressRange range, Visit visit) {
  if (range.bytes == 0) return;
  if (!is_ours(range.at)) {
    visit(outside_);
    return;
  }
  auto at = holders_.upper_bound(range.at.value);
  if (at != holders_.begin()) --at;
  while (at != holders_.end() && at->first < range.end().value) {
    if (at->first + at->second.bytes > range.at.value) visit(at->second);
    at = at->second.runs.empty() ? holders_.erase(at) : std::next(at);
  }
}

References::Holder* References::holder_at(DeviceAddress at, DeviceAddress* end) {
  if (!is_ours(at)) {
    *end = heap_.range_begin() > at ? heap_.range_begin() : DeviceAddress{~std::uint64_t{0}};
    return &outside_;
  }
  const Buffer* const buffer = heap_.find(at);
  if (buffer == nullptr || at >= buffer->end()) return nullptr;
  *end = buffer->end();
  Holder& holder = holders_[buffer->address().value];
  if (holder.number != buffer->number()) {
    runs_ -= holder.runs.size();
    holder = Holder{.bytes = buffer->requested(), .number = buffer->number(), .runs = {}};
  }
  return &holder;
}

void References::add(Holder& holder, Run run) {
  const Buffer* const target = heap_.find(run.target);
  if (target == nullptr) return;
  const std::size_t back = std::min(holder.runs.size(), kLookBack);
  for (auto last = holder.runs.end() - static_cast<std::ptrdiff_t>(back); last != holder.runs.end(); ++last) {
    if (run.begin > last->end + kGap || last->begin > run.end + kGap || heap_.find(last->target) != target) continue;
    last->begin = lower(last->begin, run.begin);
    last->end = higher(last->end, run.end);
    return;
  }
  if (holder.runs.size() >= holder.most) collapse(holder);
  holder.runs.push_back(run);
  ++runs_;
}

void References::collapse(Holder& holder) {
  std::map<const Buffer*, Run> by_target;
  std::vector<Run> kept;
  for (const Run& run : holder.runs) {
    const Buffer* const target = heap_.find(run.target);
    if (target == nullptr) continue;  // freed: the word leads nowhere
    const auto [at, is_new] = by_target.try_emplace(target, run);
    at->second.begin = lower(at->second.begin, run.begin);
    at->second.end = higher(at->second.end, run.end);
  }
  kept.reserve(by_target.size());
  for (const auto& [target, run] : by_target) kept.push_back(run);
  // By address of what they are about, not of our own objects: the same for every run of the program.
  std::sort(kept.begin(), kept.end(), [](const Run& a, const Run& b) { return a.target < b.target; });
  runs_ -= holder.runs.size() - kept.size();
  holder.runs = std::move(kept);
  holder.most = std::max(kMostRuns, 2 * holder.runs.size());
}

void References::hold(std::span<const HeldWord> words) {
  Holder* holder = nullptr;
  DeviceAddress begin, end;
  for (const HeldWord& word : words) {
    const DeviceAddress target{word.value};
    if (!is_ours(target) || heap_.find(target) == nullptr) continue;
    if (holder == nullptr || word.at < begin || word.at >= end) {
      holder = holder_at(word.at, &end);
      begin = word.at;
    }
    if (holder == nullptr) continue;
    const DeviceAddress stop = lower(word.at + sizeof word.value, end);
    add(*holder, Run{word.at, stop, target});
  }
}

void References::clear(Holder& holder, AddressRange range) {
  const std::size_t before = holder.runs.size();
  std::erase_if(holder.runs, [&](Run& run) {
    if (run.begin >= range.end() || run.end <= range.at) return false;
    if (run.begin >= range.at && run.end <= range.end()) return true;
    // What is written over in the middle leaves words on both sides.
    if (run.begin >= range.at) run.begin = range.end();
    if (run.end <= range.end()) run.end = range.at;
    return false;
  });
  runs_ -= before - holder.runs.size();
}

void References::overwritten(DeviceAddress at, Bytes bytes) {
  for_each_in({at, bytes}, [&](Holder& holder) { clear(holder, {at, bytes}); });
}

void References::collect(const Holder& holder, AddressRange range, std::vector<Run>* out) const {
  for (const Run& run : holder.runs) {
    const Run part{higher(run.begin, range.at), lower(run.end, range.end()), run.target};
    if (part.begin < part.end) out->push_back(part);
  }
}

void References::copied(AddressRange to, AddressRange from, bool exact) {
  std::vector<Run> there;
  for_each_in(from, [&](Holder& holder) { collect(holder, from, &there); });
  if (exact) overwritten(to.at, to.bytes);
  Holder* holder = nullptr;
  DeviceAddress begin, end;
  for (const Run& run : there) {
    const DeviceAddress at = exact ? to.at + (run.begin.value - from.at.value) : to.at;
    const DeviceAddress stop = exact ? to.at + (run.end.value - from.at.value) : to.end();
    if (holder == nullptr || at < begin || at >= end) {
      holder = holder_at(at, &end);
      begin = at;
    }
    if (holder != nullptr) add(*holder, Run{at, lower(stop, end), run.target});
  }
  // Nothing may have been put into what was made for it.
  for_each_in(to, [](Holder&) {});
}

void References::forget(const Buffer& buffer) {
  const auto at = holders_.find(buffer.address().value);
  if (at == holders_.end()) return;
  runs_ -= at->second.runs.size();
  holders_.erase(at);
}

void References::visit(DeviceAddress address, std::vector<DeviceAddress>* out) {
  // One past the end of a buffer may mean that one, or the one that begins there.
  for (const DeviceAddress at : {address, address - 1}) {
    if (!is_ours(at)) continue;
    const Buffer* const buffer = heap_.find(at);
    if (buffer == nullptr) continue;
    const auto found = holders_.find(buffer->address().value);
    if (found == holders_.end() || found->second.number != buffer->number() || found->second.walk == walk_) continue;
    found->second.walk = walk_;
    for (const Run& run : found->second.runs) out->push_back(run.target);
  }
}

void References::follow(std::span<const Touch> touches, std::vector<DeviceAddress>* out) {
  ++walk_;
  for (const Run& run : outside_.runs) out->push_back(run.target);
  for (const Touch& touch : touches) {
    if (touch.bytes == 0) visit(touch.address, out);
  }
  for (std::size_t i = 0; i < out->size(); ++i) visit((*out)[i], out);
}

void References::validate() const {
  std::uint64_t runs = outside_.runs.size();
  for (const auto& [address, holder] : holders_) {
    const Buffer* const buffer = heap_.find(DeviceAddress{address});
    THERMOCLINE_CHECK(buffer != nullptr && buffer->address().value == address && buffer->number() == holder.number,
                      "what holds addresses is a live buffer");
    THERMOCLINE_CHECK(!holder.runs.empty() && holder.runs.size() <= holder.most, "its runs are some, and not too many");
    for (const Run& run : holder.runs) {
      THERMOCLINE_CHECK(run.begin >= buffer->address() && run.end <= buffer->end() && run.begin < run.end,
                        "addresses stand inside their holder");
      THERMOCLINE_CHECK(is_ours(run.target), "addresses that are followed are ours");
    }
    runs += holder.runs.size();
  }
  THERMOCLINE_CHECK(runs == runs_, "runs are counted");
}

}  // namespace thermocline
