// SPDX-License-Identifier: Apache-2.0
#include "trace/execution_order.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <span>
#include <tuple>

#include "driver/check.h"

namespace thermocline {
namespace {

// Each round begins with the best order of the previous one; the recorded workloads gain nothing after the third round.
constexpr int kMostRounds = 6;

using Order = std::vector<std::uint32_t>;

// Lists of numbers, one list for each key, in one array.
class Lists {
 public:
  // From pairs of key and number.
  Lists(std::size_t keys, const std::vector<std::pair<std::uint32_t, std::uint32_t>>& pairs) : begin_(keys + 1) {
    for (const auto& [key, number] : pairs) ++begin_[key + 1];
    std::partial_sum(begin_.begin(), begin_.end(), begin_.begin());
    numbers_.resize(pairs.size());
    std::vector<std::size_t> at(begin_.begin(), begin_.end() - 1);
    for (const auto& [key, number] : pairs) numbers_[at[key]++] = number;
  }
  std::span<const std::uint32_t> operator[](std::uint32_t key) const {
    return {numbers_.data() + begin_[key], begin_[key + 1] - begin_[key]};
  }

 private:
  std::vector<std::size_t> begin_;
  std::vector<std::uint32_t> numbers_;
};

// A buffer that is not alive throughout the step.
struct Passing {
  std::int64_t bytes;
  bool is_from_before, outlives_step;
  std::vector<std::uint32_t> uses;
};

using Pairs = std::vector<std::pair<std::uint32_t, std::uint32_t>>;

// Collects which operator must run after which other one, according to the uses of one buffer.
void add_dependences(const StepBuffer& buffer, std::uint32_t operators, Pairs* behind) {
  constexpr std::uint32_t kNoIndex = ~std::uint32_t{0};
  std::uint32_t writer = kNoIndex;
  std::vector<std::uint32_t> readers;
  for (const StepUse& use : buffer.uses) {
    if (use.op >= operators) return;
    if (use.writes) {
      for (const std::uint32_t reader : readers) behind->emplace_back(reader, use.op);
      if (readers.empty() && writer != kNoIndex) behind->emplace_back(writer, use.op);
      readers.clear();
      writer = use.op;
    } else {
      if (writer != kNoIndex) behind->emplace_back(writer, use.op);
      readers.push_back(use.op);
    }
  }
}

Pairs reversed(Pairs pairs) {
  for (auto& [first, second] : pairs) std::swap(first, second);
  return pairs;
}

class Step {
 public:
  explicit Step(const SteadyStep& step)
      : operators_(step.operators()),
        buffers_(passing(step)),
        lasting_(lasting_bytes(step)),
        accessed_(operators_, accesses()),
        behind_(operators_, dependences(step)),
        before_(operators_, reversed(dependences(step))) {}

  std::uint32_t operators() const { return operators_; }

  // The largest number of bytes alive at once in that order.
  Bytes peak(const Order& order) const {
    std::vector<std::size_t> left(buffers_.size());
    std::vector<bool> is_alive(buffers_.size());
    std::int64_t alive = 0;
    for (std::size_t b = 0; b < buffers_.size(); ++b) {
      left[b] = buffers_[b].uses.size();
      is_alive[b] = buffers_[b].is_from_before;
      if (is_alive[b]) alive += buffers_[b].bytes;
    }
    std::int64_t most = alive;
    for (const std::uint32_t op : order) {
      for (const std::uint32_t b : accessed_[op]) {
        if (!is_alive[b]) alive += buffers_[b].bytes;
        is_alive[b] = true;
      }
      most = std::max(most, alive);
      for (const std::uint32_t b : accessed_[op]) {
        if (--left[b] == 0 && !buffers_[b].outlives_step) alive -= buffers_[b].bytes;
      }
    }
    return lasting_ + static_cast<Bytes>(most);
  }

  // List scheduling: always runs an operator whose predecessors have all run. Prefers the one that frees most; if each
  // would allocate more than it frees, the first by `rank` or (`by_growth`) the one that allocates least. `backward`:
  // the order is built from the end of the step.
  Order schedule(const std::vector<std::uint32_t>& rank, bool backward, bool by_growth) const;

 private:
  static std::vector<Passing> passing(const SteadyStep& step) {
    std::vector<Passing> all;
    for (const StepBuffer& buffer : step.buffers) {
      Passing one{static_cast<std::int64_t>(buffer.bytes), buffer.is_from_before, buffer.outlives_step, {}};
      for (const StepUse& use : buffer.uses) {
        if (use.op < step.operators()) one.uses.push_back(use.op);
      }
      if (!buffer.is_persistent() && !one.uses.empty()) all.push_back(std::move(one));
    }
    return all;
  }
  static Bytes lasting_bytes(const SteadyStep& step) {
    Bytes bytes = 0;
    for (const StepBuffer& buffer : step.buffers) bytes += buffer.is_persistent() ? buffer.bytes : 0;
    return bytes;
  }
  static Pairs dependences(const SteadyStep& step) {
    Pairs behind;
    for (const StepBuffer& buffer : step.buffers) add_dependences(buffer, step.operators(), &behind);
    std::ranges::sort(behind);
    behind.erase(std::unique(behind.begin(), behind.end()), behind.end());
    return behind;
  }
  Pairs accesses() const {
    Pairs all;
    for (std::uint32_t b = 0; b < buffers_.size(); ++b) {
      for (const std::uint32_t op : buffers_[b].uses) all.emplace_back(op, b);
    }
    return all;
  }

  friend class Scheduler;
  const std::uint32_t operators_;
  const std::vector<Passing> buffers_;
  const Bytes lasting_;
  const Lists accessed_;         // by operator: buffers
  const Lists behind_, before_;  // by operator: those that must run after it, and before it
};

// One run of the list scheduler. In a backward run a buffer's life begins with its last use and ends with its first.
class Scheduler {
 public:
  Scheduler(const Step& step, const std::vector<std::uint32_t>& rank, bool backward, bool by_growth)
      : step_(step), rank_(rank), backward_(backward), by_growth_(by_growth), waits_for_(step.operators_) {
    for (const Passing& buffer : step.buffers_) {
      left_.push_back(buffer.uses.size());
      is_alive_.push_back(backward ? buffer.outlives_step : buffer.is_from_before);
    }
    has_run_.resize(step.operators_);
    for (std::uint32_t op = 0; op < step.operators_; ++op) {
      waits_for_[op] = (backward ? step.behind_ : step.before_)[op].size();
      growth_.push_back(growth_of(op));
      if (waits_for_[op] == 0) ready_.insert(key_of(op));
    }
  }

  Order run() {
    Order order;
    while (!ready_.empty()) {
      const std::uint32_t op = std::get<3>(*ready_.begin());
      ready_.erase(ready_.begin());
      order.push_back(op);
      has_run_[op] = true;
      for (const std::uint32_t b : step_.accessed_[op]) access(b);
      for (const std::uint32_t next : (backward_ ? step_.before_ : step_.behind_)[op]) {
        if (--waits_for_[next] == 0) ready_.insert(key_of(next));
      }
    }
    THERMOCLINE_CHECK(order.size() == step_.operators_, "A recorded step has no circle of dependences.");
    if (backward_) std::ranges::reverse(order);
    return order;
  }

 private:
  using Key = std::tuple<bool, std::int64_t, std::uint32_t, std::uint32_t>;

  Key key_of(std::uint32_t op) const {
    const bool grows = growth_[op] > 0;
    const std::uint32_t rank = backward_ ? step_.operators_ - 1 - rank_[op] : rank_[op];
    return {grows, grows && !by_growth_ ? 0 : growth_[op], rank, op};
  }
  bool dies(const Passing& buffer) const { return backward_ ? !buffer.is_from_before : !buffer.outlives_step; }

  // Bytes alive after the operator, minus those before it.
  std::int64_t growth_of(std::uint32_t op) const {
    std::int64_t bytes = 0;
    for (const std::uint32_t b : step_.accessed_[op]) {
      const Passing& buffer = step_.buffers_[b];
      if (!is_alive_[b]) bytes += buffer.bytes;
      if (left_[b] == 1 && dies(buffer)) bytes -= buffer.bytes;
    }
    return bytes;
  }

  void change(std::uint32_t op, std::int64_t bytes) {
    const bool is_ready = waits_for_[op] == 0;
    if (is_ready) ready_.erase(key_of(op));
    growth_[op] += bytes;
    if (is_ready) ready_.insert(key_of(op));
  }

  // An operator that uses the buffer has run.
  void access(std::uint32_t b) {
    const Passing& buffer = step_.buffers_[b];
    const bool was_born = !is_alive_[b];
    is_alive_[b] = true;
    const bool is_last_next = --left_[b] == 1 && dies(buffer);
    if (!was_born && !is_last_next) return;
    for (const std::uint32_t op : buffer.uses) {
      if (has_run_[op]) continue;
      if (was_born) change(op, -buffer.bytes);
      if (is_last_next) change(op, -buffer.bytes);
    }
  }

  const Step& step_;
  const std::vector<std::uint32_t>& rank_;
  const bool backward_, by_growth_;
  std::vector<std::size_t> waits_for_;  // by operator: predecessors that have not run yet
  std::vector<std::int64_t> growth_;    // by operator, in the current state
  std::vector<bool> has_run_;
  std::vector<std::size_t> left_;  // by buffer: remaining uses
  std::vector<bool> is_alive_;
  std::set<Key> ready_;
};

Order Step::schedule(const std::vector<std::uint32_t>& rank, bool backward, bool by_growth) const {
  return Scheduler(*this, rank, backward, by_growth).run();
}

Bytes recorded_peak(const SteadyStep& step) {
  ByteProfile profile(step.operators());
  for (const StepBuffer& buffer : step.buffers) {
    const std::uint32_t end = buffer.outlives_step ? step.operators() : std::min(buffer.end, step.operators());
    if (buffer.begin < end) profile.add(buffer.begin, end, buffer.bytes);
  }
  const std::vector<Bytes> alive = profile.per_operator();
  return alive.empty() ? 0 : *std::ranges::max_element(alive);
}

}  // namespace

ExecutionOrder better_order(const SteadyStep& recorded) {
  const Step step(recorded);
  ExecutionOrder best;
  best.order.resize(step.operators());
  std::iota(best.order.begin(), best.order.end(), 0U);
  best.recorded_peak = recorded_peak(recorded);
  best.trimmed_peak = best.best_peak = step.peak(best.order);
  std::vector<std::uint32_t> rank = best.order;
  for (int round = 0; round < kMostRounds; ++round) {
    const Bytes before = best.best_peak;
    for (const bool backward : {false, true}) {
      for (const bool by_growth : {false, true}) {
        Order order = step.schedule(rank, backward, by_growth);
        const Bytes peak = step.peak(order);
        if (peak >= best.best_peak) continue;
        best.best_peak = peak;
        best.order = std::move(order);
      }
    }
    if (best.best_peak == before) break;
    for (std::uint32_t at = 0; at < best.order.size(); ++at) rank[best.order[at]] = at;
  }
  return best;
}

}  // namespace thermocline
