// SPDX-License-Identifier: Apache-2.0
#include "offload/planning/plan_timing.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace thermocline {
namespace {

// Host time per operation, eviction, fetch and so on, of the order of the driver's calls (launch 2.5 us and an event
// now and then; unmap 26 us; set access 36 us and 1.5 us a page; a copy and its events 7 us). They matter if the device
// would wait for the host, and make a plan with few large gaps better than one with many small ones.
constexpr double kHostNsPerOperation = 3.5e3;
constexpr double kHostNsPerUnmap = 26e3;
constexpr double kHostNsPerMap = 36e3;
constexpr double kHostNsPerByte = 1.5e3 / (2.0 * static_cast<double>(kMiB));
constexpr double kHostNsPerCopy = 7e3;
constexpr int kIterations = 3;
// A driver queues about this many operations of a stream; then a launch waits for the oldest of them
// (docs/driver_assumptions.md, queue_depth). Copies are submitted between launches, so none begins earlier than that.
constexpr std::uint64_t kQueuedOperations = 1024;

// Memory that becomes free at a certain time. There are two kinds, each in order of time: the end of a buffer's last
// use, and the end of a copy out.
struct Release {
  double at;
  double bytes;
};

constexpr double kSliver = 0.5;   // in bytes: less than this is rounding error
constexpr double kInstant = 1.0;  // in ns: the same

// A queue in order of time, with removal at both ends, that knows its sum.
class Releases {
 public:
  void clear() {
    items_.clear();
    first_ = 0;
    sum_ = 0;
  }
  void push(double at, double bytes) {
    if (bytes <= 0) return;
    auto later = items_.end();
    while (later != begin() && (later - 1)->at > at) --later;
    items_.insert(later, {at, bytes});
    sum_ += bytes;
  }
  double sum() const { return sum_; }
  bool empty() const { return first_ == items_.size(); }
  const Release& first() const { return items_[first_]; }
  // Takes bytes that are released at that time. False: fewer are.
  bool take_at(double at, double bytes) {
    const auto same = std::find_if(begin(), items_.end(), [&](const Release& item) {
      return std::abs(item.at - at) < kInstant && item.bytes > bytes - kSliver;
    });
    if (same == items_.end()) return false;
    sum_ -= bytes;
    same->bytes -= bytes;
    if (same->bytes <= kSliver) items_.erase(same);
    return true;
  }
  // Both return the time at which everything taken is free.
  double take_oldest(double bytes) {
    double at = 0;
    sum_ -= bytes;
    while (bytes > kSliver && !empty()) {
      Release& item = items_[first_];
      at = std::max(at, item.at);
      const double taken = std::min(bytes, item.bytes);
      bytes -= taken;
      item.bytes -= taken;
      if (item.bytes <= kSliver) drop_first();
    }
    return at;
  }
  double take_newest(double bytes) {
    double at = 0;
    sum_ -= bytes;
    while (bytes > kSliver && !empty()) {
      Release& item = items_.back();
      at = std::max(at, item.at);
      const double taken = std::min(bytes, item.bytes);
      bytes -= taken;
      item.bytes -= taken;
      if (item.bytes <= kSliver) items_.pop_back();
    }
    return at;
  }

 private:
  std::vector<Release>::iterator begin() { return items_.begin() + static_cast<std::ptrdiff_t>(first_); }
  // Releases before `first_` have been taken. They are removed once they are half of all.
  void drop_first() {
    if (++first_ < 64 || first_ * 2 < items_.size()) return;
    items_.erase(items_.begin(), begin());
    first_ = 0;
  }

  std::vector<Release> items_;
  std::size_t first_ = 0;
  double sum_ = 0;
};

}  // namespace

class PlanTimer::Simulation {
 public:
  Simulation(const Profile& profile, Bytes limit, const Link& link)
      : profile_(profile),
        limit_(limit),
        link_(link),
        buffers_(profile.buffers.size()),
        sizes_(profile.buffers.size()) {
    const auto& buffers = profile.buffers;
    const auto place = [&](std::uint32_t i, std::uint32_t at) { return buffers[i].always ? ByPlace::kNone : at; };
    births_.assign(profile.places(), buffers.size(), [&](std::uint32_t i) { return place(i, buffers[i].birth); });
    deaths_.assign(profile.places(), buffers.size(), [&](std::uint32_t i) { return place(i, buffers[i].death); });
    for (std::size_t i = 0; i < buffers.size(); ++i) {
      const auto bytes = static_cast<double>(buffers[i].bytes);
      sizes_[i] = {bytes, bytes / static_cast<double>(units_of(buffers[i].bytes)), buffers[i].density()};
    }
  }

  PlanTiming run(const Plan& plan) {
    PlanTiming timing;
    begin(plan);
    for (int iteration = 0; iteration < kIterations; ++iteration) {
      const double began = compute_;
      timing.starts.assign(profile_.places(), 0);
      for (std::uint32_t q = 0; q < profile_.places(); ++q) {
        if (!step(q)) return timing;
        timing.starts[q] = started_ - began;
      }
      timing.iteration_ns = compute_ - began;
    }
    timing.runs = true;
    return timing;
  }

 private:
  struct Sizes {
    double bytes, unit_bytes;
    double density;  // the fraction that crosses the link
  };
  struct State {
    bool alive = false;
    double missing = 0;  // bytes that are not on the device
    double arrived = 0;  // when its copy in has completed
    double left = 0;     // when its copy out has completed
    // The eviction units that were copied out by then, one after the other.
    std::uint32_t copies = 0;
  };

  // A buffer that lives across the end of the iteration begins on the device, unless the plan has it evicted there.
  void begin(const Plan& plan) {
    plan_ = &plan;
    buffers_.assign(buffers_.size(), {});
    free_.clear();
    leaving_.clear();
    returning_.clear();
    first_returning_ = 0;
    free_.push(0, static_cast<double>(limit_));
    host_ = compute_ = in_ = out_ = started_ = 0;
    passed_ = 0;
    std::ranges::fill(ends_, 0);
    std::vector<double> evicted(buffers_.size(), 0);
    for (const PlannedGap& gap : plan.gaps) {
      if (gap.next_use <= gap.last_use) evicted[gap.buffer] = nonresident_bytes(gap, profile_);
    }
    for (std::uint32_t i = 0; i < buffers_.size(); ++i) {
      const ProfiledBuffer& buffer = profile_.buffers[i];
      if (!buffer.always && buffer.birth <= buffer.death) continue;
      State& state = buffers_[i];
      state.alive = true;
      const double bytes = bytes_of(i) - evicted[i];
      state.missing = evicted[i];
      if (free_.sum() - static_cast<double>(profile_.unplanned_bytes[0]) < bytes) {
        state.missing += bytes;
      } else {
        free_.take_oldest(bytes);
      }
    }
    unplanned_ = 0;
  }
  double bytes_of(std::uint32_t name) const { return sizes_[name].bytes; }
  double unit_bytes_of(std::uint32_t name) const { return sizes_[name].unit_bytes; }

  // Completed copies out provide their memory to the next that needs some.
  void collect_left() {
    while (!leaving_.empty() && leaving_.first().at <= host_) {
      const Release next = leaving_.first();
      leaving_.take_oldest(next.bytes);
      free_.push(next.at, next.bytes);
      host_ += kHostNsPerUnmap;
    }
  }
  // Until free memory is enough, the host waits for copies out. The free memory itself may still be in use: that is
  // ordered on the device.
  bool make_room(double bytes) {
    if (free_.sum() < bytes) collect_left();
    while (free_.sum() < bytes) {
      if (leaving_.empty()) return false;
      const Release next = leaving_.first();
      leaving_.take_oldest(next.bytes);
      host_ = std::max(host_, next.at) + kHostNsPerUnmap;
      free_.push(next.at, next.bytes);
    }
    return true;
  }
  // A new buffer is placed on the memory that was freed last, if that is enough.
  bool bear(double bytes) {
    if (bytes <= 0) return true;
    if (free_.sum() < bytes) host_ += kHostNsPerMap + kHostNsPerByte * bytes;
    if (!make_room(bytes)) return false;
    ready_ = std::max(ready_, free_.take_newest(bytes));
    return true;
  }

  bool bear(std::uint32_t name) {
    if (profile_.buffers[name].begins_remapped) {
      host_ += kHostNsPerUnmap + kHostNsPerMap + kHostNsPerByte * bytes_of(name);
    }
    return bear(bytes_of(name));
  }

  double density_of(std::uint32_t name) const { return sizes_[name].density; }

  // Fetches one eviction unit of a buffer into memory that may still be in use when the copy is submitted.
  void fetch_unit(State& state, double bytes, double density) {
    host_ += kHostNsPerMap + kHostNsPerByte * bytes + kHostNsPerCopy;
    const double usable = free_.take_oldest(bytes);
    in_ = std::max({in_, host_, state.left, usable}) + density * bytes / link_.in_bytes_per_ns;
    state.arrived = in_;
    state.missing -= bytes;
  }
  bool fetch(std::uint32_t name) {
    State& state = buffers_[name];
    while (state.missing > kSliver) {
      const double bytes = std::min(unit_bytes_of(name), state.missing);
      if (!make_room(bytes)) return false;
      fetch_unit(state, bytes, density_of(name));
    }
    return true;
  }

  void poll_returns() {
    while (first_returning_ < returning_.size()) {
      const auto [name, used_at] = returning_[first_returning_];
      State& state = buffers_[name];
      while (used_at > passed_ && state.alive && state.missing > kSliver) {
        const double bytes = std::min(unit_bytes_of(name), state.missing);
        if (free_.sum() < bytes) collect_left();
        if (free_.sum() < bytes) return;
        fetch_unit(state, bytes, density_of(name));
      }
      ++first_returning_;
    }
  }

  bool step(std::uint32_t q) {
    host_ = std::max(host_, ends_[passed_ % kQueuedOperations]) + kHostNsPerOperation;
    ready_ = 0;
    const auto unplanned = static_cast<double>(profile_.unplanned_bytes[q]);
    if (unplanned > unplanned_) {
      if (!bear(unplanned - unplanned_)) return false;
    } else {
      free_.push(compute_, unplanned_ - unplanned);
    }
    unplanned_ = unplanned;
    for (const std::uint32_t name : births_[q]) {
      if (buffers_[name].alive) continue;
      if (!bear(name)) return false;
      buffers_[name].alive = true;
    }
    for (const std::uint32_t name : profile_.operands(q)) {
      if (name == kNoBuffer) continue;
      State& state = buffers_[name];
      if (!state.alive && !bear(name)) return false;
      state.alive = true;
      if (state.missing > kSliver && !fetch(name)) return false;
      ready_ = std::max({ready_, state.arrived, state.left});
    }
    started_ = std::max({compute_, ready_, host_});
    compute_ = started_ + static_cast<double>(profile_.nanoseconds[q]);
    ends_[passed_ % kQueuedOperations] = compute_;
    for (const std::uint32_t name : deaths_[q]) {
      State& state = buffers_[name];
      if (state.alive) free_.push(compute_, bytes_of(name) - state.missing);
      free_leaving(name);
      host_ += profile_.buffers[name].successors * (kHostNsPerMap + kHostNsPerUnmap);
      state = {};
    }
    for (const std::uint32_t gap : plan_->evictions[q]) evict(plan_->gaps[gap]);
    ++passed_;
    for (const std::uint32_t gap : plan_->fetches[q]) {
      const std::uint64_t places = profile_.places();
      returning_.push_back(
          {plan_->gaps[gap].buffer, passed_ + (plan_->gaps[gap].next_use + places - q - 1) % places + 1});
    }
    poll_returns();
    return true;
  }

  // The next new buffer gets the pages of the buffer that died last, even while these are still being copied out, and
  // waits for the copies' end: evicting a buffer just before its death makes others wait.
  void free_leaving(std::uint32_t name) {
    const State& state = buffers_[name];
    const double unit = unit_bytes_of(name), each = density_of(name) * unit / link_.out_bytes_per_ns;
    for (std::uint32_t i = 0; i < state.copies && state.left - i * each > compute_; ++i) {
      if (leaving_.take_at(state.left - i * each, unit)) free_.push(state.left - i * each, unit);
    }
  }

  void evict(const PlannedGap& gap) {
    State& state = buffers_[gap.buffer];
    if (!state.alive || state.missing > kSliver) return;
    const double unit = unit_bytes_of(gap.buffer);
    state.left = compute_;
    if (gap.clean_units > 0) leaving_.push(compute_, gap.clean_units * unit);
    state.missing = unit * gap.units;
    if (gap.clean_units == gap.units) return;
    out_ = std::max({out_, compute_, host_});
    for (std::uint32_t i = gap.clean_units; i < gap.units; ++i) {
      host_ += kHostNsPerCopy;
      out_ += density_of(gap.buffer) * unit / link_.out_bytes_per_ns;
      leaving_.push(out_, unit);
    }
    state.left = out_;
    state.copies = gap.units - gap.clean_units;
  }

  const Profile& profile_;
  const Bytes limit_;
  const Link& link_;
  const Plan* plan_ = nullptr;
  Releases free_, leaving_;
  double unplanned_ = 0;
  double ready_ = 0;  // when the current operation's memory and operands are ready
  double host_ = 0, compute_ = 0, in_ = 0, out_ = 0, started_ = 0;
  std::vector<State> buffers_;
  std::vector<Sizes> sizes_;
  ByPlace births_, deaths_;  // of buffers
  // As in LearnedPolicy: in order of next use. A buffer that was fetched for its use before its turn has returned.
  struct Return {
    std::uint32_t buffer;
    std::uint64_t used_at;  // by passed_
  };
  std::vector<Return> returning_;
  std::size_t first_returning_ = 0;                                    // those before have returned
  std::uint64_t passed_ = 0;                                           // places
  std::vector<double> ends_ = std::vector<double>(kQueuedOperations);  // of the last operations, in turn
};

PlanTimer::PlanTimer(const Profile& profile, Bytes limit, const Link& link)
    : simulation_(std::make_unique<Simulation>(profile, limit, link)) {}
PlanTimer::~PlanTimer() = default;

PlanTiming PlanTimer::time(const Plan& plan) { return simulation_->run(plan); }

}  // namespace thermocline
