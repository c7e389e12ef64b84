// SPDX-License-Identifier: Apache-2.0
// Searches for the edges at which to cut a step into slots (trace/slotted_bound.h). In the best cut only a few edges
// matter: where memory is short, and where the link changes direction. All others can be removed without changing the
// bound.
#include <algorithm>
#include <cmath>

#include "trace/slotted_bound.h"

namespace thermocline {
namespace {

using Edges = std::vector<std::uint32_t>;

constexpr int kMostRounds = 32;
constexpr double kGain = 1e-6;

void sort_out(Edges* edges) {
  std::ranges::sort(*edges);
  edges->erase(std::unique(edges->begin(), edges->end()), edges->end());
}

std::uint32_t largest(const std::vector<Bytes>& bytes, std::uint32_t begin, std::uint32_t end) {
  return static_cast<std::uint32_t>(std::max_element(bytes.begin() + begin, bytes.begin() + end) - bytes.begin());
}

std::uint32_t half_time(const SteadyStep& step, std::uint32_t begin, std::uint32_t end) {
  double left = 0;
  for (std::uint32_t k = begin; k < end; ++k) left += step.seconds[k] / 2;
  std::uint32_t k = begin;
  while (k + 1 < end && (left -= step.seconds[k]) > 0) ++k;
  return k;
}

// Half of the cuts divide the number of operators evenly, half the time; the first part is `shift` of the size of the
// others.
Edges even_cuts(const SteadyStep& step, std::size_t slots, double shift) {
  const std::size_t half = std::max<std::size_t>(slots / 2, 1);
  const auto part = [&](std::size_t i) { return (static_cast<double>(i) + shift) / static_cast<double>(half); };
  Edges cuts;
  for (std::size_t i = 0; i < half; ++i)
    cuts.push_back(static_cast<std::uint32_t>(part(i) * static_cast<double>(step.operators())));
  const double total = step.compute_seconds();
  double before = 0;
  std::size_t i = 0;
  for (std::uint32_t k = 0; k < step.operators(); before += step.seconds[k++]) {
    for (; i < half && before >= total * part(i); ++i) cuts.push_back(k);
  }
  sort_out(&cuts);
  return cuts;
}

Edges grid(const SlotInput& input, std::size_t slots, int round) {
  double whole;
  const std::size_t parts = std::max<std::size_t>(slots * static_cast<std::size_t>(3 + round % 4) / 4, 2);
  const Edges cuts = even_cuts(input.step, parts, std::modf(round * 0.6180339887, &whole));
  Edges edges;
  for (std::size_t i = 0; i < cuts.size(); ++i) {
    const std::uint32_t end = i + 1 < cuts.size() ? cuts[i + 1] : input.step.operators();
    // Takes turns: the operator of the part that uses most, the one before which most is needed, and the first one.
    edges.push_back(round % 3 == 0   ? largest(input.used, cuts[i], end)
                    : round % 3 == 1 ? largest(input.wanted, cuts[i], end)
                                     : cuts[i]);
  }
  return edges;
}

Edges next_edges(const SlotInput& input, const SlottedBound& last, std::size_t slots, int round) {
  const Edges& old = last.edges();
  Edges edges = grid(input, slots, round);
  edges.push_back(0);
  for (std::size_t u = 0; u < old.size(); ++u) {
    if (last.is_decisive(u)) {
      edges.push_back(old[u]);
      if (old[u] + 1 < input.step.operators()) edges.push_back(old[u] + 1);
    }
    if (!last.is_decisive(u) && !last.is_decisive((u + 1) % old.size())) continue;
    const std::uint32_t begin = old[u] + 1;
    const std::uint32_t end = u + 1 < old.size() ? old[u + 1] : input.step.operators();
    if (begin >= end) continue;
    for (const std::uint32_t edge : {largest(input.used, begin, end), largest(input.wanted, begin, end),
                                     half_time(input.step, begin, end), begin + (end - begin) / 2})
      edges.push_back(edge);
  }
  sort_out(&edges);
  return edges;
}

}  // namespace

SlotSearch search_slots(const SlotInput& input, Bytes budget, std::size_t slots, int idle_rounds,
                        std::vector<std::uint32_t> first) {
  SlotSearch search{0, std::move(first)};
  if (input.step.operators() == 0) return search;
  Edges edges = grid(input, slots, 0);
  edges.push_back(0);
  edges.push_back(largest(input.wanted, 0, input.step.operators()));
  edges.insert(edges.end(), search.decisive.begin(), search.decisive.end());
  sort_out(&edges);
  for (int round = 1, idle = 0; round <= kMostRounds && idle < idle_rounds; ++round, ++idle) {
    SlottedBound slotted(input, edges);
    const double seconds = slotted.seconds(budget);
    if (seconds > search.seconds * (1 + kGain)) {
      idle = -1;
      search.decisive.clear();
      for (std::size_t e = 0; e < edges.size(); ++e) {
        if (slotted.is_decisive(e)) search.decisive.push_back(edges[e]);
      }
    }
    search.seconds = std::max(search.seconds, seconds);
    edges = next_edges(input, slotted, slots, round);
  }
  return search;
}

}  // namespace thermocline
