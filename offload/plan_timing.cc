// SPDX-License-Identifier: Apache-2.0
#include "offload/plan_timing.h"

#include <algorithm>
#include <cmath>
#include <deque>

namespace thermocline {
namespace {

// What things cost the host, of the order of the driver's calls (launch 2.5 us and an event now and then; unmap 26 us;
// set access 36 us and 1.5 us a page; a copy and its events 7 us). They matter where the device would wait for the
// host, and make a plan of few large gaps better than one of many small ones.
constexpr double kHostNsPerOperation = 3.5e3;
constexpr double kHostNsPerUnmap = 26e3;
constexpr double kHostNsPerMap = 36e3;
constexpr double kHostNsPerByte = 1.5e3 / (2.0 * static_cast<double>(kMiB));
constexpr double kHostNsPerCopy = 7e3;
// As Residency cuts blocks.
constexpr double kPartBytes = 32.0 * static_cast<double>(kMiB);
constexpr int kIterations = 3;

// Memory that becomes free at a time. Both kinds come in order of time: the end of a buffer's last use, the end of a
// copy out.
struct Release {
  double at;
  double bytes;
};

enum class Where : std::uint8_t { kDead, kResident, kAway };

// A queue that is taken from at both ends, and knows its sum.
class Releases {
 public:
  void push(double at, double bytes) {
    if (bytes <= 0) return;
    items_.push_back({at, bytes});
    sum_ += bytes;
  }
  double sum() const { return sum_; }
  bool empty() const { return items_.empty(); }
  const Release& first() const { return items_.front(); }
  // Both answer when all that was taken is free.
  double take_oldest(double bytes) {
    double at = 0;
    sum_ -= bytes;
    while (bytes > kSliver && !items_.empty()) {
      Release& item = items_.front();
      at = std::max(at, item.at);
      const double taken = std::min(bytes, item.bytes);
      bytes -= taken;
      item.bytes -= taken;
      if (item.bytes <= kSliver) items_.pop_front();
    }
    return at;
  }
  double take_newest(double bytes) {
    double at = 0;
    sum_ -= bytes;
    while (bytes > kSliver && !items_.empty()) {
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
  static constexpr double kSliver = 0.5;  // of a byte: what rounding leaves
  std::deque<Release> items_;
  double sum_ = 0;
};

class Simulation {
 public:
  Simulation(const Profile& profile, const Plan& plan, Bytes limit, const Link& link)
      : profile_(profile),
        plan_(plan),
        link_(link),
        buffers_(profile.buffers.size()),
        births_(profile.places()),
        deaths_(profile.places()) {
    free_.push(0, static_cast<double>(limit));
    for (std::uint32_t i = 0; i < profile.buffers.size(); ++i) {
      const ProfiledBuffer& buffer = profile.buffers[i];
      if (buffer.always) continue;
      births_[buffer.birth].push_back(i);
      deaths_[buffer.death].push_back(i);
    }
  }

  PlanTiming run() {
    PlanTiming timing;
    begin();
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
  struct State {
    Where where = Where::kDead;
    double missing = 0;  // bytes that are not back yet, while kAway and on its way
    double arrived = 0;  // its copy back has passed
    double left = 0;     // its copy out has passed
  };

  // What lives across the end of the iteration begins on the device, unless the plan has it away there.
  void begin() {
    std::vector<bool> away(buffers_.size(), false);
    for (const PlannedGap& gap : plan_.gaps) {
      if (gap.arrive <= gap.leave) away[gap.buffer] = true;
    }
    for (std::uint32_t i = 0; i < buffers_.size(); ++i) {
      const ProfiledBuffer& buffer = profile_.buffers[i];
      if (!buffer.always && buffer.birth <= buffer.death) continue;
      const auto bytes = static_cast<double>(buffer.bytes);
      if (away[i] || free_.sum() - static_cast<double>(profile_.unplanned_bytes[0]) < bytes) {
        buffers_[i].where = Where::kAway;
        buffers_[i].missing = bytes;
      } else {
        buffers_[i].where = Where::kResident;
        free_.take_oldest(bytes);
      }
    }
    unplanned_ = 0;
  }

  // What has left by now is dropped for whoever asks.
  void collect_left() {
    while (!leaving_.empty() && leaving_.first().at <= host_) {
      const Release next = leaving_.first();
      leaving_.take_oldest(next.bytes);
      free_.push(next.at, next.bytes);
      host_ += kHostNsPerUnmap;
    }
  }
  // Until free memory covers it, the host waits for what is on its way out. Free memory itself may still be in use: the
  // device orders it.
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
  // A new buffer is laid over what died last, where there is enough.
  bool bear(double bytes) {
    if (bytes <= 0) return true;
    if (free_.sum() < bytes) host_ += kHostNsPerMap + kHostNsPerByte * bytes;
    if (!make_room(bytes)) return false;
    ready_ = std::max(ready_, free_.take_newest(bytes));
    return true;
  }

  // One part of a buffer, into memory that may still be in use when the copy is submitted.
  void bring_part(State& state, double bytes) {
    host_ += kHostNsPerMap + kHostNsPerByte * bytes + kHostNsPerCopy;
    const double usable = free_.take_oldest(bytes);
    in_ = std::max({in_, host_, state.left, usable}) + bytes / link_.in_bytes_per_ns;
    state.arrived = in_;
    state.missing -= bytes;
  }
  static double part_of(double bytes) { return bytes / std::ceil(bytes / kPartBytes); }

  bool bring_back(std::uint32_t name) {
    State& state = buffers_[name];
    const double part = part_of(static_cast<double>(profile_.buffers[name].bytes));
    while (state.missing > 0.5) {
      const double bytes = std::min(part, state.missing);
      if (!make_room(bytes)) return false;
      bring_part(state, bytes);
    }
    state.where = Where::kResident;
    return true;
  }

  void poll_returns() {
    while (!returning_.empty()) {
      const std::uint32_t name = returning_.front();
      State& state = buffers_[name];
      const double part = part_of(static_cast<double>(profile_.buffers[name].bytes));
      while (state.where == Where::kAway && state.missing > 0.5) {
        const double bytes = std::min(part, state.missing);
        if (free_.sum() < bytes) collect_left();
        if (free_.sum() < bytes) return;
        bring_part(state, bytes);
      }
      if (state.where == Where::kAway) state.where = Where::kResident;
      returning_.pop_front();
    }
  }

  bool step(std::uint32_t q) {
    host_ += kHostNsPerOperation;
    ready_ = 0;
    const auto unplanned = static_cast<double>(profile_.unplanned_bytes[q]);
    if (unplanned > unplanned_) {
      if (!bear(unplanned - unplanned_)) return false;
    } else {
      free_.push(compute_, unplanned_ - unplanned);
    }
    unplanned_ = unplanned;
    for (const std::uint32_t name : births_[q]) {
      if (buffers_[name].where != Where::kDead) continue;
      if (!bear(static_cast<double>(profile_.buffers[name].bytes))) return false;
      buffers_[name].where = Where::kResident;
    }
    for (const std::uint32_t name : profile_.operands(q)) {
      if (name == kNoBuffer) continue;
      State& state = buffers_[name];
      if (state.where != Where::kResident && !bring_back(name)) return false;
      ready_ = std::max({ready_, state.arrived, state.left});
    }
    started_ = std::max({compute_, ready_, host_});
    compute_ = started_ + static_cast<double>(profile_.nanoseconds[q]);
    for (const std::uint32_t name : deaths_[q]) {
      const auto bytes = static_cast<double>(profile_.buffers[name].bytes);
      if (buffers_[name].where == Where::kResident) free_.push(compute_, bytes);
      buffers_[name].where = Where::kDead;
    }
    for (const std::uint32_t gap : plan_.leaves[q]) leave(plan_.gaps[gap].buffer);
    for (const std::uint32_t gap : plan_.returns[q]) returning_.push_back(plan_.gaps[gap].buffer);
    poll_returns();
    return true;
  }

  void leave(std::uint32_t name) {
    State& state = buffers_[name];
    if (state.where != Where::kResident) return;
    const auto bytes = static_cast<double>(profile_.buffers[name].bytes);
    const double part = part_of(bytes);
    out_ = std::max({out_, compute_, host_});
    for (double rest = bytes; rest > 0.5; rest -= part) {
      host_ += kHostNsPerCopy;
      out_ += part / link_.out_bytes_per_ns;
      leaving_.push(out_, part);
    }
    state.left = out_;
    state.where = Where::kAway;
    state.missing = bytes;
  }

  const Profile& profile_;
  const Plan& plan_;
  const Link& link_;
  Releases free_, leaving_;
  double unplanned_ = 0;
  double ready_ = 0;  // of the operation in hand: its memory and its operands
  double host_ = 0, compute_ = 0, in_ = 0, out_ = 0, started_ = 0;
  std::vector<State> buffers_;
  std::vector<std::vector<std::uint32_t>> births_, deaths_;
  std::deque<std::uint32_t> returning_;
};

}  // namespace

PlanTiming time_plan(const Profile& profile, const Plan& plan, Bytes limit, const Link& link) {
  return Simulation(profile, plan, limit, link).run();
}

}  // namespace thermocline
