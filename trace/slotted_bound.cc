// SPDX-License-Identifier: Apache-2.0
#include "trace/slotted_bound.h"

#include <algorithm>
#include <cmath>

namespace thermocline {
namespace {

constexpr double kUnit = static_cast<double>(kGiB);
constexpr int kMostIterations = 200'000;
// Below this a dual price is rounding error: link time is 1e-2 seconds per GiB or more.
constexpr double kNoPrice = 1e-7;

double to_gib(Bytes bytes) { return static_cast<double>(bytes) / kUnit; }

}  // namespace

SlotInput::SlotInput(const SteadyStep& s, const DeviceRates& r, Bytes smallest_to_leave)
    : step(s),
      rates(r),
      smallest(smallest_to_leave),
      bound(bound_bytes(s, smallest)),
      wanted(wanted_bytes(s, smallest)),
      used(s.operators()) {
  bound.resize(s.operators());
  wanted.resize(s.operators());
  for (const StepBuffer& buffer : s.buffers) {
    for (const StepUse& use : buffer.uses) {
      if (buffer.bytes >= smallest && use.op < s.operators()) used[use.op] += buffer.bytes;
    }
  }
}

SlottedBound::SlottedBound(const SlotInput& input, std::vector<std::uint32_t> edges)
    : operators_(input.step.operators()), edges_(std::move(edges)) {
  for (const std::uint32_t edge : edges_) held_.push_back(to_gib(input.bound[edge]));
  add_slots(input);
  for (const StepBuffer& buffer : input.step.buffers) {
    if (buffer.bytes >= input.smallest && buffer.bytes > 0) collect(buffer);
  }
  for (const auto& [pattern, bytes] : patterns_) {
    if (pattern.made_in == kClean) {
      add_clean(pattern, to_gib(bytes));
    } else if (pattern.gaps.size() == 1) {
      add_single(pattern, to_gib(bytes));
    } else {
      add_several(pattern, to_gib(bytes));
    }
  }
}

void SlottedBound::add_slots(const SlotInput& input) {
  const double in = input.rates.link_to_device_bytes_per_second / kUnit;
  const double out = input.rates.link_to_host_bytes_per_second / kUnit;
  Bytes all = 0;
  for (const StepBuffer& buffer : input.step.buffers) all += buffer.bytes;
  // No slot needs to be longer than its operators plus the transfer of everything.
  const double longest = to_gib(all) / std::min(in, out);
  for (std::size_t u = 0; u < edges_.size(); ++u) {
    const std::uint32_t end = u + 1 < edges_.size() ? edges_[u + 1] : operators_;
    double compute = 0;
    for (std::uint32_t k = edges_[u]; k < end; ++k) compute += input.step.seconds[k];
    const int length = programme_.add_variable(compute, compute + longest, 1);
    inward_.push_back(programme_.add_row(-kUnlimited, 0));
    programme_.add_term(inward_.back(), length, -in);
    outward_.push_back(programme_.add_row(-kUnlimited, 0));
    programme_.add_term(outward_.back(), length, -out);
    memory_.push_back(programme_.add_row(-kUnlimited, kUnlimited));
  }
}

int SlottedBound::slot_of(std::uint32_t op) const {
  return static_cast<int>(std::ranges::upper_bound(edges_, op) - edges_.begin()) - 1;
}

// Divides the buffer's uses into versions; a version begins with a write and ends with the next one.
void SlottedBound::collect(const StepBuffer& buffer) {
  const auto behind_step = [this](const StepUse& use) { return use.op >= operators_; };
  const std::size_t n = static_cast<std::size_t>(std::ranges::find_if(buffer.uses, behind_step) - buffer.uses.begin());
  if (n == 0) return;
  const auto is_write = [&](std::size_t i) { return buffer.uses[i % n].writes; };
  std::size_t first = 0;
  while (buffer.is_persistent() && first < n && !is_write(first)) ++first;
  const bool is_constant = first == n;
  if (is_constant) first = 0;
  // A persistent buffer's last version ends with its first use in the next step.
  const std::size_t last = buffer.is_persistent() ? first + n : n - 1;
  for (std::size_t begin = first; begin < last;) {
    std::size_t end = begin + 1;
    while (end < last && !is_write(end)) ++end;
    // A version from before the step that ends in it is assumed to have been copied out before the step.
    const bool is_clean = is_constant || (begin == 0 && buffer.is_from_before && !is_write(0));
    add_version(buffer, n, begin, end, is_clean);
    begin = end;
  }
}

// A version with uses [begin, end], the last of which may write the next version. Indices from `uses` on are of the
// next step.
void SlottedBound::add_version(const StepBuffer& buffer, std::size_t uses, std::size_t begin, std::size_t end,
                               bool is_clean) {
  const int slots = static_cast<int>(edges_.size());
  const auto step_of = [&](std::size_t i) { return static_cast<int>(i / uses) * slots; };
  Pattern version{is_clean ? kClean : slot_of(buffer.uses[begin % uses].op) + step_of(begin), {}, buffer.density()};
  for (std::size_t i = begin; i < end; ++i) {
    const StepUse& next = buffer.uses[(i + 1) % uses];
    if (!next.reads) continue;
    const int to = slot_of(next.op);
    const bool is_at_edge = edges_[static_cast<std::size_t>(to)] == next.op;
    const Gap gap{slot_of(buffer.uses[i % uses].op) + step_of(i) + 1, to + step_of(i + 1) + (is_at_edge ? 0 : 1)};
    if (gap.first >= gap.end) continue;
    for (int e = gap.first; e < gap.end; ++e) held_[slot_at(e)] += to_gib(buffer.bytes);
    if (is_clean) {
      count({kClean, {gap}, buffer.density()}, buffer.bytes);
    } else {
      version.gaps.push_back(gap);
    }
  }
  if (!version.gaps.empty()) count(std::move(version), buffer.bytes);
}

void SlottedBound::count(Pattern pattern, Bytes bytes) {
  // Counted from the step in which it begins.
  const int slots = static_cast<int>(edges_.size());
  const int shift = (pattern.made_in == kClean ? pattern.gaps.front().first : pattern.made_in) / slots * slots;
  if (pattern.made_in != kClean) pattern.made_in -= shift;
  for (Gap& gap : pattern.gaps) gap = {gap.first - shift, gap.end - shift};
  patterns_[std::move(pattern)] += bytes;
}

// Dropping costs nothing, so all bytes that are fetched again were off the device since the gap began.
void SlottedBound::add_clean(const Pattern& pattern, double gib) {
  const Gap gap = pattern.gaps.front();
  int before = -1;
  for (int e = gap.first; e < gap.end; ++e) {
    const int evicted = programme_.add_variable(0, gib);
    programme_.add_term(memory_[slot_at(e)], evicted, 1);
    programme_.add_term(inward_[slot_at(e)], evicted, pattern.density);
    if (e > gap.first) {
      programme_.add_term(inward_[slot_at(e - 1)], evicted, -pattern.density);
      at_least(before, evicted);
    }
    before = evicted;
  }
}

// Bytes copied out for a version's only gap stay off the device until they are fetched. So the bytes copied out between
// two edges equal the increase of the bytes off the device plus the fetched bytes.
void SlottedBound::add_single(const Pattern& pattern, double gib) {
  const Gap gap = pattern.gaps.front();
  int evicted = programme_.add_variable(0, gib);
  programme_.add_term(memory_[slot_at(gap.first)], evicted, 1);
  if (gap.first == pattern.made_in + 1) {
    programme_.add_term(outward_[slot_at(pattern.made_in)], evicted, pattern.density);
  } else {
    int next_edge = pattern.made_in + 1;
    at_least(copied_until(pattern, gap.first, &next_edge, -1, gib), evicted);
  }
  for (int e = gap.first; e + 1 < gap.end; ++e) {
    const int next = programme_.add_variable(0, gib);
    const int back = programme_.add_variable(0, gib);
    programme_.add_term(memory_[slot_at(e + 1)], next, 1);
    programme_.add_term(inward_[slot_at(e)], back, pattern.density);
    const auto copy_out = [&](int row, double density) {
      programme_.add_term(row, next, density);
      programme_.add_term(row, evicted, -density);
      programme_.add_term(row, back, density);
    };
    copy_out(programme_.add_row(0, kUnlimited), 1);
    copy_out(outward_[slot_at(e)], pattern.density);
    evicted = next;
  }
  programme_.add_term(inward_[slot_at(gap.end - 1)], evicted, pattern.density);
}

void SlottedBound::add_several(const Pattern& pattern, double gib) {
  int copied = -1;
  int next_edge = pattern.made_in + 1;
  for (const Gap& gap : pattern.gaps) {
    int before = -1;  // variable: how the bytes that were fetched since the last edge came back
    for (int e = gap.first; e < gap.end; ++e) {
      copied = copied_until(pattern, e, &next_edge, copied, gib);
      const int evicted = programme_.add_variable(0, gib);
      const int back = programme_.add_variable(0, gib);
      const int came_back = programme_.add_row(0, kUnlimited);
      at_least(copied, evicted);
      if (e > gap.first) programme_.add_term(before, evicted, 1);
      programme_.add_term(came_back, evicted, -1);
      programme_.add_term(came_back, back, 1);
      programme_.add_term(memory_[slot_at(e)], evicted, 1);
      programme_.add_term(inward_[slot_at(e)], back, pattern.density);
      before = came_back;
    }
  }
}

// Variable: the bytes copied out by the edge. `copied`: the same for the edge before *next_edge (-1: no bytes).
int SlottedBound::copied_until(const Pattern& pattern, int edge, int* next_edge, int copied, double gib) {
  for (; *next_edge <= edge; ++*next_edge) {
    const int slot = outward_[slot_at(*next_edge - 1)];
    const int more = programme_.add_variable(0, gib);
    programme_.add_term(slot, more, pattern.density);
    if (copied >= 0) {
      programme_.add_term(slot, copied, -pattern.density);
      at_least(more, copied);
    }
    copied = more;
  }
  return copied;
}

void SlottedBound::at_least(int larger, int smaller) {
  const int row = programme_.add_row(0, kUnlimited);
  programme_.add_term(row, larger, 1);
  programme_.add_term(row, smaller, -1);
}

double SlottedBound::seconds(Bytes budget) {
  for (std::size_t u = 0; u < edges_.size(); ++u) programme_.set_row(memory_[u], held_[u] - to_gib(budget), kUnlimited);
  return programme_.lower_bound(kMostIterations);
}

bool SlottedBound::is_decisive(std::size_t edge) const {
  const std::size_t before = (edge + edges_.size() - 1) % edges_.size();
  const auto differs = [this](int a, int b) {
    return std::abs(programme_.multiplier(a) - programme_.multiplier(b)) > kNoPrice;
  };
  return programme_.multiplier(memory_[edge]) > kNoPrice || differs(inward_[edge], inward_[before]) ||
         differs(outward_[edge], outward_[before]);
}

}  // namespace thermocline
