// SPDX-License-Identifier: Apache-2.0
#include "trace/bounds.h"

#include <algorithm>
#include <queue>

namespace thermocline {
namespace {

constexpr Bytes kLarge = kMiB;
// A search ends after this many rounds without a gain. Rounds of the first search are cheap, and the second search
// begins with the result of the first.
constexpr int kIdleRounds = 5;
constexpr int kSecondIdleRounds = 3;

// Operators [first, end) of the window do not need these bytes on the device.
struct IdleStretch {
  std::uint32_t first;
  std::uint32_t end;
  Bytes bytes;
  bool is_fetched;
};

std::vector<IdleStretch> idle_stretches(const SteadyStep& step, Bytes smallest) {
  std::vector<IdleStretch> all;
  for (const StepBuffer& buffer : step.buffers) {
    if (buffer.bytes < smallest) continue;
    for (std::size_t i = 0; i < buffer.uses.size(); ++i) {
      const std::uint32_t first = i == 0 ? 0 : buffer.uses[i - 1].op + 1;
      if ((i > 0 || buffer.is_from_before) && first < buffer.uses[i].op)
        all.push_back({first, buffer.uses[i].op, buffer.bytes, buffer.uses[i].reads});
    }
    // State that persists need not be back on the device when the window ends.
    const std::uint32_t last = buffer.uses.empty() ? 0 : buffer.uses.back().op + 1;
    if (buffer.is_from_before && buffer.end == step.window_operators && last < buffer.end)
      all.push_back({last, buffer.end, buffer.bytes, false});
  }
  std::ranges::sort(all, {}, &IdleStretch::first);
  return all;
}

std::vector<Bytes> living_bytes(const SteadyStep& step) {
  ByteProfile profile(step.window_operators);
  for (const StepBuffer& buffer : step.buffers) profile.add(buffer.begin, buffer.end, buffer.bytes);
  return profile.per_operator();
}

double pinch_seconds(const SteadyStep& step, Bytes budget, const DeviceRates& rates) {
  ByteProfile profile(step.operators());
  for (const StepBuffer& buffer : step.buffers) {
    if (buffer.is_from_before) continue;
    for (std::size_t i = 0; i < buffer.uses.size() && buffer.uses[i].op < step.operators(); ++i)
      profile.add(buffer.wanted_from(i), buffer.uses[i].op + std::size_t{1}, buffer.bytes);
  }
  const std::vector<Bytes> made = profile.per_operator();
  const double total = step.compute_seconds();
  double before = 0;
  double bound = 0;
  double density = 1;  // lower bound for the fraction of the evicted bytes that crosses the link
  for (const StepBuffer& buffer : step.buffers)
    density = buffer.bytes > 0 ? std::min(density, buffer.density()) : density;
  for (std::size_t k = 0; k < made.size(); ++k) {
    const auto evicted = density * static_cast<double>(made[k] > budget ? made[k] - budget : 0);
    bound = std::max(bound, std::max(before, evicted / rates.link_to_host_bytes_per_second) +
                                std::max(total - before, evicted / rates.link_to_device_bytes_per_second));
    before += step.seconds[k];
  }
  return bound;
}

Bytes most(const std::vector<Bytes>& bytes) { return bytes.empty() ? 0 : *std::ranges::max_element(bytes); }

}  // namespace

// Each evicted byte costs one return, however long it stays on the host. So at the first operator that lacks room, the
// best of the open stretches is the one that ends last: from there on it covers whatever another one would. (An
// exchange argument; the choice is Belady's.) Stretches without a return are always chosen, completely.
std::optional<Bytes> least_volume(const SteadyStep& step, Bytes budget, Bytes smallest) {
  const auto ends_earlier = [](const IdleStretch& a, const IdleStretch& b) { return a.end < b.end; };
  std::priority_queue<IdleStretch, std::vector<IdleStretch>, decltype(ends_earlier)> open(ends_earlier);
  const std::vector<IdleStretch> stretches = idle_stretches(step, smallest);
  const std::vector<Bytes> needed = living_bytes(step);
  std::vector<Bytes> back(needed.size() + 1);  // per operator: chosen bytes whose stretch ends there
  Bytes volume = 0;
  Bytes evicted = 0;
  std::size_t next = 0;
  for (std::size_t k = 0; k < needed.size(); ++k) {
    evicted -= back[k];
    for (; next < stretches.size() && stretches[next].first <= k; ++next) {
      const IdleStretch& stretch = stretches[next];
      if (stretch.is_fetched) {
        open.push(stretch);
      } else {
        evicted += stretch.bytes;
        back[stretch.end] += stretch.bytes;
      }
    }
    while (needed[k] > evicted + budget) {
      if (open.empty() || open.top().end <= k) return std::nullopt;
      IdleStretch stretch = open.top();
      open.pop();
      const Bytes taken = std::min(stretch.bytes, needed[k] - evicted - budget);
      evicted += taken;
      volume += taken;
      back[stretch.end] += taken;
      stretch.bytes -= taken;
      if (stretch.bytes > 0) open.push(stretch);
    }
  }
  return volume;
}

SwapBounds::SwapBounds(const Trace& trace, const DeviceRates& rates, std::size_t slots, Bytes page_bytes)
    : rates_(rates),
      slots_(slots),
      page_bytes_(page_bytes),
      step_(steady_step(trace, rates, page_bytes)),
      with_ends_(with_ends(step_)),
      all_(with_ends_, rates, 0),
      large_(step_, rates, kLarge) {}

Bytes SwapBounds::least_budget() const { return most(bound_bytes(step_, 0)); }

Bounds SwapBounds::under(Bytes budget) const {
  Bounds bounds;
  bounds.compute_ms = step_.busiest_stream * 1e3;
  bounds.bound_ms = bounds.compute_ms;
  bounds.is_feasible = budget >= least_budget();
  if (!bounds.is_feasible || !step_.is_single_stream) return bounds;
  bounds.pinch_ms = pinch_seconds(step_, budget, rates_) * 1e3;
  // If not all bytes cross the link, it matters which ones return and not only how many.
  if (const std::optional<Bytes> volume = page_bytes_ > 1 ? std::nullopt : least_volume(step_, budget, kLarge)) {
    bounds.restored_bytes = *volume / step_.window_steps;
    bounds.volume_ms = static_cast<double>(*bounds.restored_bytes) / rates_.link_to_device_bytes_per_second * 1e3;
  }
  // The linear programme with large buffers only is smaller, and finds the same edges.
  SlotSearch slotted;
  if (budget >= most(large_.bound)) {
    slotted = search_slots(large_, budget, slots_, kIdleRounds);
    bounds.slotted_ms = slotted.seconds * 1e3;
  }
  for (std::uint32_t& edge : slotted.decisive) edge *= 2;
  slotted = search_slots(all_, budget, slots_, kSecondIdleRounds, std::move(slotted.decisive));
  bounds.bound_ms = std::max({bounds.compute_ms, *bounds.pinch_ms, slotted.seconds * 1e3});
  return bounds;
}

}  // namespace thermocline
