// SPDX-License-Identifier: Apache-2.0
#include "offload/page_assignment/live_range_timing.h"

#include <algorithm>
#include <deque>
#include <unordered_map>

namespace thermocline {
namespace {

using Kind = LiveRangeChange::Kind;

// The free pages, under a rule for who takes which.
class Pages {
 public:
  virtual ~Pages() = default;
  // The time at which the pages for the live range are free. `writes`: they are written by an operation, which is
  // ordered after everything submitted, rather than filled by a copy in.
  virtual double take(std::uint32_t page_owner, std::size_t stay, bool writes) = 0;
  // `copied`: the pages are free once they have been copied out, at `time`; else after their last use.
  virtual void evict(std::uint32_t page_owner, std::size_t stay, double time, bool copied) = 0;
  // All times are reduced by this.
  virtual void shift(double by) = 0;
};

// Any page will do. An operation takes the pages used last. A copy in, and pages that are copied out, go oldest first,
// because copies out end later than this estimate.
class AnyPages : public Pages {
 public:
  AnyPages(const LiveRangeHistory& history, std::uint64_t loose) : history_(history) {
    if (loose > 0) copied_.push_back({0, loose});
  }

  // There may be fewer pages than needed: blocks that are not in the history provide some.
  double take(std::uint32_t page_owner, std::size_t, bool writes) override {
    double time = kLongAgo;
    for (std::uint64_t count = history_.page_owners[page_owner].range.count;
         count > 0 && !(used_.empty() && copied_.empty());) {
      const bool used = copied_.empty() || (!used_.empty() && (writes || used_.front().time <= copied_.front().time));
      const bool newest = used && writes;
      std::deque<Left>& from = used ? used_ : copied_;
      Left& one = newest ? from.back() : from.front();
      const std::uint64_t taken = std::min(count, one.count);
      time = std::max(time, one.time);
      count -= taken;
      one.count -= taken;
      if (one.count > 0) continue;
      if (newest) {
        from.pop_back();
      } else {
        from.pop_front();
      }
    }
    return time;
  }
  void evict(std::uint32_t page_owner, std::size_t, double time, bool copied) override {
    (copied ? copied_ : used_).push_back({time, history_.page_owners[page_owner].range.count});
  }
  void shift(double by) override {
    for (std::deque<Left>* const all : {&used_, &copied_}) {
      for (Left& left : *all) left.time -= by;
    }
  }

 private:
  static constexpr double kLongAgo = -1e18;
  struct Left {
    double time;
    std::uint64_t count;
  };
  const LiveRangeHistory& history_;
  std::deque<Left> used_, copied_;  // in order
};

class KnownPages : public Pages {
 public:
  explicit KnownPages(const StayPages& pages) : pages_(pages) {}

  double take(std::uint32_t page_owner, std::size_t stay, bool) override {
    double time = -1e18;
    for (const PageNumber page : pages_[page_owner][stay]) {
      if (const auto found = free_.find(page); found != free_.end()) time = std::max(time, found->second);
    }
    return time;
  }
  void evict(std::uint32_t page_owner, std::size_t stay, double time, bool) override {
    for (const PageNumber page : pages_[page_owner][stay]) free_[page] = time;
  }
  void shift(double by) override {
    for (auto& [page, time] : free_) time -= by;
  }

 private:
  const StayPages& pages_;
  std::unordered_map<PageNumber, double> free_;
};

class Clocks {
 public:
  Clocks(const LiveRangeHistory& history, PageCosts costs, Pages& pages)
      : history_(history), costs_(costs), pages_(pages), arrived_(history.page_owners.size()) {
    for (const PageOwner& page_owner : history.page_owners) times.stays.emplace_back(page_owner.stays.size());
  }

  // Runs once before, to know which pages the previous iteration leaves free.
  void run() {
    iterate();
    const double now = std::max({compute_, out_, in_});
    pages_.shift(now);
    for (double& time : arrived_) time -= now;
    compute_ -= now;
    out_ -= now;
    in_ -= now;
    iterate();
    times.iteration_ns = std::max({compute_, out_, in_});
    for (std::size_t i = 0; i < history_.page_owners.size(); ++i) {
      const std::vector<PageOwner::Stay>& stays = history_.page_owners[i].stays;
      if (!stays.empty() && stays.back().to == history_.end()) times.stays[i].back().free = times.iteration_ns;
    }
  }

  LiveRangeTimes times;

 private:
  void iterate() {
    begun_.clear();
    for (const PageOwner& page_owner : history_.page_owners) {
      begun_.push_back(!page_owner.stays.empty() && page_owner.stays.front().from == 0 ? 1 : 0);
    }
    std::uint64_t before = 0;
    for (const LiveRangeChange& change : history_.changes) {
      compute_ += static_cast<double>(change.nanoseconds - before);
      before = change.nanoseconds;
      apply(change);
    }
  }

  void apply(const LiveRangeChange& change) {
    const std::uint32_t i = change.page_owner;
    const auto count = static_cast<double>(history_.page_owners[i].range.count);
    switch (change.kind) {
      case Kind::kTakes:
        times.stays[i][begun_[i]].wanted = compute_;
        compute_ = std::max(compute_, pages_.take(i, begun_[i]++, true));
        break;
      case Kind::kReturns:
        times.stays[i][begun_[i]].wanted = in_;
        in_ = std::max(in_, pages_.take(i, begun_[i]++, false)) + count * costs_.in_ns;
        arrived_[i] = in_;
        break;
      case Kind::kUses:
        compute_ = std::max(compute_, arrived_[i]);
        break;
      case Kind::kFrees:
        evict(i, compute_, false);
        break;
      case Kind::kLeaves:
        out_ = std::max(out_, compute_) + count * costs_.out_ns;
        evict(i, out_, true);
        break;
    }
  }

  void evict(std::uint32_t page_owner, double time, bool copied) {
    const std::size_t stay = begun_[page_owner] - 1;
    times.stays[page_owner][stay].free = time;
    pages_.evict(page_owner, stay, time, copied);
  }

  const LiveRangeHistory& history_;
  const PageCosts costs_;
  Pages& pages_;
  double compute_ = 0, out_ = 0, in_ = 0;
  std::vector<double> arrived_;     // by page owner: end of its last copy in
  std::vector<std::size_t> begun_;  // by page owner: number of live ranges begun
};

}  // namespace

LiveRangeTimes time_live_ranges(const LiveRangeHistory& history, std::uint64_t loose, PageCosts costs) {
  AnyPages pages(history, loose);
  Clocks clocks(history, costs, pages);
  clocks.run();
  return std::move(clocks.times);
}

double time_with_pages(const LiveRangeHistory& history, const StayPages& stay_pages, PageCosts costs) {
  KnownPages pages(stay_pages);
  Clocks clocks(history, costs, pages);
  clocks.run();
  return clocks.times.iteration_ns;
}

}  // namespace thermocline
