// SPDX-License-Identifier: Apache-2.0
#include "trace/choice_costs.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <unordered_map>

namespace thermocline {

class ChoiceCostsReader : public EventSink {
 public:
  ChoiceCostsReader(const DeviceRates& rates, ChoiceCosts* out) : rates_(rates), out_(*out) {}

  std::string header(std::string_view /*json*/) override { return ""; }

  std::string event(const EventFields& fields, std::size_t line) override {
    if (fields.kind == "choice") {
      choices_.declare(fields, line);
      out_.choices_.emplace_back(fields.alternatives.size());
    } else if (fields.kind == "step") {
      step_is_over_ = step_is_over_ || operates_;
    } else {
      // The step that just ended was not the last one.
      if (step_is_over_) begin_step();
      ++out_.places_;
      count(fields);
    }
    return "";
  }

 private:
  ChoiceCosts::Cost& cost_of(const EventFields& fields) {
    std::optional<ChoicePlace> place;
    choices_.place(fields, &place);
    return place ? out_.choices_[place->choice][place->alternative] : out_.common_;
  }

  void count(const EventFields& fields) {
    ChoiceCosts::Cost& cost = cost_of(fields);
    const std::uint32_t at = out_.places_ - 1;
    if (fields.kind == "alloc") {
      bytes_[*fields.buffer] = *fields.bytes;
      cost.changes.push_back({at, *fields.bytes});
    } else if (fields.kind == "free") {
      // It is still alive here.
      cost.changes.push_back({at + 1, -bytes_.at(*fields.buffer)});
    } else {
      TraceOperator op{.name = 0, .first_operand = 0, .reads = 0, .writes = 0, .flops = 0, .bytes = 0};
      op.flops = fields.flops.value_or(0);
      op.bytes = fields.traffic.value_or(0);
      if (fields.microseconds) op.microseconds = *fields.microseconds;
      cost.seconds += seconds_of(op, rates_);
      operates_ = true;
    }
  }

  void begin_step() {
    step_is_over_ = operates_ = false;
    begin_step(&out_.common_);
    for (std::vector<ChoiceCosts::Cost>& alternatives : out_.choices_) {
      for (ChoiceCosts::Cost& cost : alternatives) begin_step(&cost);
    }
    out_.places_ = 1;
  }
  static void begin_step(ChoiceCosts::Cost* cost) {
    std::int64_t live = 0;
    for (const ChoiceCosts::Change& change : cost->changes) live += change.bytes;
    *cost = {.seconds = 0};
    if (live != 0) cost->changes.push_back({0, live});
  }

  const DeviceRates& rates_;
  ChoiceCosts& out_;
  ChoiceChecker choices_;
  std::unordered_map<std::int64_t, std::int64_t> bytes_;  // by buffer
  bool operates_ = false, step_is_over_ = false;
};

ChoiceCosts::ChoiceCosts(const TraceFamily& family, const DeviceRates& rates) {
  ChoiceCostsReader reader(rates, this);
  TraceError error;
  family.pass_on(&reader, &error);
}

std::int64_t ChoiceCosts::Cost::live_at(std::uint32_t at) const {
  std::int64_t live = 0;
  for (const Change& change : changes) {
    if (change.at > at) break;
    live += change.bytes;
  }
  return live;
}

std::int64_t ChoiceCosts::Cost::most() const {
  std::int64_t live = 0, most = 0;
  for (const Change& change : changes) most = std::max(most, live += change.bytes);
  return most;
}

ChoiceSelection ChoiceCosts::fastest() const {
  ChoiceSelection selection;
  for (const std::vector<Cost>& alternatives : choices_) {
    const auto faster = [](const Cost& a, const Cost& b) {
      return a.seconds != b.seconds ? a.seconds < b.seconds : a.most() < b.most();
    };
    selection.push_back(
        static_cast<std::uint32_t>(std::ranges::min_element(alternatives, faster) - alternatives.begin()));
  }
  return selection;
}

void ChoiceCosts::add(const Cost& cost, std::int64_t sign, std::vector<std::int64_t>* live) const {
  std::int64_t now = 0;
  std::size_t next = 0;
  for (std::uint32_t at = 0; at < live->size(); ++at) {
    for (; next < cost.changes.size() && cost.changes[next].at <= at; ++next) now += cost.changes[next].bytes;
    (*live)[at] += sign * now;
  }
}

std::vector<ChoiceCosts::Switch> ChoiceCosts::switches(ChoiceSelection selection, Bytes limit) const {
  std::vector<std::int64_t> live(places_);
  add(common_, 1, &live);
  std::vector<std::vector<bool>> taken;
  for (std::uint32_t c = 0; c < choices_.size(); ++c) {
    add(choices_[c][selection[c]], 1, &live);
    taken.emplace_back(choices_[c].size())[selection[c]] = true;
  }
  const auto best_at = [&](std::uint32_t at) {
    std::optional<Switch> best;
    double best_gain = 0;
    for (std::uint32_t c = 0; c < choices_.size(); ++c) {
      const Cost& now = choices_[c][selection[c]];
      for (std::uint32_t a = 0; a < choices_[c].size(); ++a) {
        const Cost& then = choices_[c][a];
        if (taken[c][a]) continue;
        const auto saved = static_cast<double>(now.live_at(at) - then.live_at(at));
        const double gain = saved / std::max(then.seconds - now.seconds, 1e-12);
        if (gain > best_gain) best = Switch{c, a}, best_gain = gain;
      }
    }
    return best;
  };
  // If several places need equally much, the first one comes first.
  const auto comes_later = [&live](std::uint32_t a, std::uint32_t b) {
    return live[a] != live[b] ? live[a] < live[b] : a > b;
  };
  std::vector<Switch> list;
  for (std::optional<Switch> next;; list.push_back(*next)) {
    std::vector<std::uint32_t> above;
    for (std::uint32_t at = 0; at < places_; ++at) {
      if (live[at] > static_cast<std::int64_t>(limit)) above.push_back(at);
    }
    std::ranges::make_heap(above, comes_later);
    for (next.reset(); !next && !above.empty();) {
      std::ranges::pop_heap(above, comes_later);
      const std::uint32_t at = above.back();
      above.pop_back();
      next = best_at(at);
      // The place is not examined again, and is not in the heap any more.
      if (!next) live[at] = std::numeric_limits<std::int64_t>::min() / 2;
    }
    if (!next) return list;
    add(choices_[next->choice][selection[next->choice]], -1, &live);
    add(choices_[next->choice][next->alternative], 1, &live);
    selection[next->choice] = next->alternative;
    taken[next->choice][next->alternative] = true;
  }
}

}  // namespace thermocline
