// SPDX-License-Identifier: Apache-2.0
#include "offload/plan_timing.h"

#include <algorithm>
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
constexpr int kIterations = 3;

// Memory that becomes free at a time. Both kinds come in order of time: the end of a buffer's last use, the end of a
// copy out.
struct Release {
  double at;
  double bytes;
};

enum class Where : std::uint8_t { kDead, kResident, kAway };

class Simulation {
 public:
  Simulation(const Profile& profile, const Plan& plan, Bytes limit, const Link& link)
      : profile_(profile),
        plan_(plan),
        link_(link),
        free_(static_cast<double>(limit)),
        buffers_(profile.buffers.size()),
        births_(profile.places()),
        deaths_(profile.places()) {
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
      if (away[i] || free_ - static_cast<double>(profile_.unplanned_bytes[0]) < bytes) {
        buffers_[i].where = Where::kAway;
      } else {
        buffers_[i].where = Where::kResident;
        free_ -= bytes;
      }
    }
    unplanned_ = 0;
  }

  // Memory that becomes free first, whatever freed it; null when nothing will.
  std::deque<Release>* first_release() {
    if (deaths_pending_.empty()) return outs_pending_.empty() ? nullptr : &outs_pending_;
    if (outs_pending_.empty()) return &deaths_pending_;
    return deaths_pending_.front().at <= outs_pending_.front().at ? &deaths_pending_ : &outs_pending_;
  }

  // In program order: the host waits until what has become free covers it.
  bool acquire(double bytes) {
    while (free_ < bytes) {
      std::deque<Release>* pending = first_release();
      if (pending == nullptr) return false;
      host_ = std::max(host_, pending->front().at) + kHostNsPerUnmap;
      free_ += pending->front().bytes;
      pending->pop_front();
    }
    free_ -= bytes;
    return true;
  }
  bool acquire_now(double bytes) {
    for (std::deque<Release>* pending = first_release(); pending != nullptr && pending->front().at <= host_;
         pending = first_release()) {
      host_ += kHostNsPerUnmap;
      free_ += pending->front().bytes;
      pending->pop_front();
    }
    if (free_ < bytes) return false;
    free_ -= bytes;
    return true;
  }
  // A new buffer may be laid over what died before it in program order: the stream orders them, nobody waits.
  bool acquire_for_birth(double bytes) {
    while (bytes > 0 && !deaths_pending_.empty()) {
      Release& newest = deaths_pending_.back();
      const double taken = std::min(bytes, newest.bytes);
      bytes -= taken;
      newest.bytes -= taken;
      if (newest.bytes <= 0) deaths_pending_.pop_back();
    }
    if (bytes <= 0) return true;
    host_ += kHostNsPerMap + kHostNsPerByte * bytes;
    return acquire(bytes);
  }

  void bring_back(std::uint32_t name) {
    const auto bytes = static_cast<double>(profile_.buffers[name].bytes);
    host_ += kHostNsPerMap + kHostNsPerByte * bytes + kHostNsPerCopy;
    in_ = std::max({in_, host_, buffers_[name].left}) + bytes / link_.in_bytes_per_ns;
    buffers_[name].where = Where::kResident;
    buffers_[name].arrived = in_;
  }

  void poll_returns() {
    while (!returning_.empty()) {
      const std::uint32_t name = returning_.front();
      if (buffers_[name].where == Where::kAway) {
        if (!acquire_now(static_cast<double>(profile_.buffers[name].bytes))) return;
        bring_back(name);
      }
      returning_.pop_front();
    }
  }

  bool step(std::uint32_t q) {
    host_ += kHostNsPerOperation;
    const auto unplanned = static_cast<double>(profile_.unplanned_bytes[q]);
    if (unplanned > unplanned_) {
      if (!acquire_for_birth(unplanned - unplanned_)) return false;
    } else {
      free_ += unplanned_ - unplanned;
    }
    unplanned_ = unplanned;
    for (const std::uint32_t name : births_[q]) {
      if (buffers_[name].where != Where::kDead) continue;
      if (!acquire_for_birth(static_cast<double>(profile_.buffers[name].bytes))) return false;
      buffers_[name].where = Where::kResident;
    }
    double ready = compute_;
    for (const std::uint32_t name : profile_.operands(q)) {
      if (name == kNoBuffer) continue;
      State& state = buffers_[name];
      if (state.where != Where::kResident) {
        if (!acquire(static_cast<double>(profile_.buffers[name].bytes))) return false;
        bring_back(name);
      }
      ready = std::max({ready, state.arrived, state.left});
    }
    started_ = std::max(ready, host_);
    compute_ = started_ + static_cast<double>(profile_.nanoseconds[q]);
    for (const std::uint32_t name : deaths_[q]) {
      const auto bytes = static_cast<double>(profile_.buffers[name].bytes);
      if (buffers_[name].where == Where::kResident) deaths_pending_.push_back({compute_, bytes});
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
    host_ += kHostNsPerCopy;
    out_ = std::max(out_, compute_) + bytes / link_.out_bytes_per_ns;
    state.left = out_;
    state.where = Where::kAway;
    outs_pending_.push_back({out_, bytes});
  }

  const Profile& profile_;
  const Plan& plan_;
  const Link& link_;
  double free_;
  double unplanned_ = 0;
  double host_ = 0, compute_ = 0, in_ = 0, out_ = 0, started_ = 0;
  std::vector<State> buffers_;
  std::vector<std::vector<std::uint32_t>> births_, deaths_;
  std::deque<Release> deaths_pending_, outs_pending_;
  std::deque<std::uint32_t> returning_;
};

}  // namespace

PlanTiming time_plan(const Profile& profile, const Plan& plan, Bytes limit, const Link& link) {
  return Simulation(profile, plan, limit, link).run();
}

}  // namespace thermocline
