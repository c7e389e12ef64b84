// SPDX-License-Identifier: Apache-2.0
#include "trace/replay_timeline.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <map>
#include <unordered_map>
#include <utility>

#include "trace/gzip_lines.h"
#include "trace/json_cursor.h"

namespace thermocline {
namespace {

// Records events in the replay's order; times are known only when the replay has ended.
class TimelineRecorder : public ReplayWatcher, public MovementObserver {
 public:
  TimelineRecorder(const Trace& trace, ReplayTimeline* timeline)
      : trace_(trace), timeline_(timeline), current_(trace.buffers.size(), kNoIndex) {}

  // In host time; the end is unset while a buffer is alive.
  struct Life {
    std::int64_t begin_ns, end_ns;
    std::uint32_t first_operator, end_operator;
  };
  const std::vector<Life>& lives() const { return lives_; }
  // By operator of the timeline: its number on the device, which the parts of an operator have in common.
  const std::vector<std::uint64_t>& ordinals() const { return ordinal_of_; }

  void allocated(std::uint32_t buffer, DeviceAddress address, std::int64_t now) override {
    rename_all();
    current_[buffer] = static_cast<std::uint32_t>(lives_.size());
    lives_.push_back({now, std::numeric_limits<std::int64_t>::max(), operators(), kNoIndex});
    timeline_->changes.push_back({.at_us = 0, .begins = true, .buffer = current_[buffer]});
    at_address_[address.value] = current_[buffer];
    timeline_->buffers.push_back({.id = trace_.buffers[buffer].id,
                                  .address = address.value,
                                  .bytes = trace_.buffers[buffer].bytes,
                                  .tag = trace_.buffers[buffer].tag,
                                  .begin_us = 0,
                                  .end_us = 0,
                                  .producer = kNoIndex,
                                  .uses = {},
                                  .outlives_window = true});
  }
  void freed(std::uint32_t buffer, std::int64_t now) override {
    rename_all();
    const std::uint32_t at = std::exchange(current_[buffer], kNoIndex);
    timeline_->changes.push_back({.at_us = 0, .begins = false, .buffer = at});
    lives_[at].end_ns = now;
    lives_[at].end_operator = operators();
    end_drop(at);
    timeline_->buffers[at].outlives_window = false;
  }
  // All renames of a step come before its other events, and may form chains, so they are applied together.
  void renamed(std::uint32_t produced, std::uint32_t carried) override {
    renames_.emplace_back(carried, current_[produced]);
  }
  void submitted(std::uint32_t op, std::uint32_t stream, const Engine& engine) override {
    rename_all();
    const EngineStatistics now = engine.statistics();
    const TraceOperator& o = trace_.operators[op];
    for (const std::uint32_t buffer : trace_.reads(o)) use(buffer, false);
    for (const std::uint32_t buffer : trace_.writes(o)) use(buffer, true);
    ordinals_ += o.first_slice > 0 ? 0 : 1;
    ordinal_of_.push_back(ordinals_);
    timeline_->operators.push_back({.op = op,
                                    .stream = stream,
                                    .begin_us = 0,
                                    .end_us = 0,
                                    .device_bytes = now.device_bytes,
                                    .nonresident_bytes = now.nonresident_bytes,
                                    .dropped_bytes = dropped_bytes_,
                                    .host_bytes = now.host_live_bytes});
  }
  void step_ended() override { timeline_->step_ends.push_back(operators()); }
  void ran_again(std::uint32_t op, std::uint32_t stream, std::uint64_t ordinal) override {
    reruns_of_[ordinal].push_back(static_cast<std::uint32_t>(timeline_->reruns.size()));
    timeline_->recomputations.back().end = static_cast<std::uint32_t>(timeline_->reruns.size() + 1);
    timeline_->reruns.push_back({.op = op,
                                 .stream = stream,
                                 .begin_us = 0,
                                 .end_us = 0,
                                 .recomputation = static_cast<std::uint32_t>(timeline_->recomputations.size() - 1)});
  }

  void copying_out(const MovedUnit& unit, EvictReason reason) override { add_reason(true, unit, name_of(reason)); }
  void evicted(const MovedUnit&, EvictReason) override {}
  void fetching(const MovedUnit& unit, FetchReason reason) override { add_reason(false, unit, name_of(reason)); }
  // The plan drops contents after the operator that is being submitted.
  void dropped(const MovedUnit& unit) override {
    const std::uint32_t buffer = alive_at(unit.address.value);
    if (buffer != kNoIndex) open_drops_[buffer] = static_cast<std::uint32_t>(timeline_->drops.size());
    if (buffer != kNoIndex) dropped_bytes_ += unit.bytes;
    timeline_->drops.push_back({.begin_us = 0,
                                .end_us = 0,
                                .bytes = unit.bytes,
                                .buffer = buffer,
                                .after = operators(),
                                .returned = kNoIndex});
    drop_ends_.push_back(kNoIndex);
  }
  void recomputing(RecomputeReason reason) override {
    const auto at = static_cast<std::uint32_t>(timeline_->reruns.size());
    timeline_->recomputations.push_back(
        {.reason = name_of(reason), .before = operators(), .begin = at, .end = at, .drops = {}});
  }
  void recomputed(const MovedUnit& unit, RecomputeReason) override {
    const std::uint32_t buffer = alive_at(unit.address.value);
    const auto open = open_drops_.find(buffer);
    if (open == open_drops_.end()) return;
    timeline_->drops[open->second].returned = static_cast<std::uint32_t>(timeline_->recomputations.size() - 1);
    timeline_->recomputations.back().drops.push_back(open->second);
    end_drop(buffer);
  }
  // By drop: the operator before which it ended; kNoIndex: it did not.
  const std::vector<std::uint32_t>& drop_ends() const { return drop_ends_; }

  // The run of the operator with that number on the device that has not been taken yet; kNoIndex: there is none.
  std::uint32_t take_rerun(std::uint64_t ordinal) {
    const auto found = reruns_of_.find(ordinal);
    if (found == reruns_of_.end() || found->second.empty()) return kNoIndex;
    const std::uint32_t rerun = found->second.front();
    found->second.pop_front();
    return rerun;
  }

  // The reason of the next copy at that address in that direction: copies of one eviction unit are done in the order in
  // which they are submitted.
  const char* take_reason(bool to_host, std::uint64_t address) {
    const auto found = reasons_.find({address, to_host});
    if (found == reasons_.end() || found->second.empty()) return "unknown";
    const char* const reason = found->second.front();
    found->second.pop_front();
    return reason;
  }

 private:
  void rename_all() {
    for (const auto& [carried, at] : renames_) current_[carried] = at;
    renames_.clear();
  }

  std::uint32_t alive_at(std::uint64_t address) const {
    const auto found = at_address_.find(address);
    return found == at_address_.end() ? kNoIndex : found->second;
  }

  void end_drop(std::uint32_t buffer) {
    const auto open = open_drops_.find(buffer);
    if (open == open_drops_.end()) return;
    drop_ends_[open->second] = operators();
    dropped_bytes_ -= timeline_->drops[open->second].bytes;
    open_drops_.erase(open);
  }

  void add_reason(bool to_host, const MovedUnit& unit, const char* reason) {
    reasons_[{unit.address.value, to_host}].push_back(reason);
  }

  std::uint32_t operators() const { return static_cast<std::uint32_t>(timeline_->operators.size()); }

  void use(std::uint32_t buffer, bool writes) {
    const std::uint32_t at = current_[buffer];
    if (at == kNoIndex) return;  // a buffer of no bytes
    // An overwrite ends the drop of the contents, unless this is the operator after which they were dropped.
    const auto open = open_drops_.find(at);
    if (open != open_drops_.end() && timeline_->drops[open->second].after < operators()) end_drop(at);
    TimelineBuffer& b = timeline_->buffers[at];
    if (b.uses.empty() || b.uses.back() != operators()) b.uses.push_back(operators());
    if (writes && b.producer == kNoIndex && lives_[at].first_operator > 0) b.producer = operators();
  }

  const Trace& trace_;
  ReplayTimeline* timeline_;
  std::vector<std::uint32_t> current_;  // by the trace's index: index into the timeline's buffers
  std::vector<std::pair<std::uint32_t, std::uint32_t>> renames_;
  std::vector<Life> lives_;  // by the timeline's index
  std::vector<std::uint64_t> ordinal_of_;
  std::uint64_t ordinals_ = 0;
  std::map<std::pair<std::uint64_t, bool>, std::deque<const char*>> reasons_;  // by address and direction
  std::unordered_map<std::uint64_t, std::uint32_t> at_address_;                // the newest buffer
  std::unordered_map<std::uint32_t, std::uint32_t> open_drops_;                // by buffer of the timeline
  std::vector<std::uint32_t> drop_ends_;                                       // by drop
  std::unordered_map<std::uint64_t, std::deque<std::uint32_t>> reruns_of_;     // by ordinal, in order of submission
  Bytes dropped_bytes_ = 0;
};

class FileDescriptor {
 public:
  explicit FileDescriptor(int fd) : fd_(fd) {}
  ~FileDescriptor() {
    if (fd_ >= 0) close(fd_);
  }
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

// One line of the timeline.
struct TimedOperation {
  double begin_us = 0, duration_us = 0, submitted_us = 0;
  std::int64_t lane = 0;
  std::int64_t bytes = 0, address = 0, ordinal = 0, relaunch = 0;
};

bool read_arguments(JsonCursor& cursor, TimedOperation* ran) {
  if (!cursor.enter_object()) return false;
  for (std::string_view key; cursor.next_key(&key);) {
    if (key == "submitted") {
      cursor.read_number(&ran->submitted_us);
    } else if (key == "bytes") {
      cursor.read_integer(&ran->bytes);
    } else if (key == "address") {
      cursor.read_integer(&ran->address);
    } else if (key == "ordinal") {
      cursor.read_integer(&ran->ordinal);
    } else if (key == "relaunch") {
      cursor.read_integer(&ran->relaunch);
    } else {
      cursor.skip_value();
    }
  }
  return !cursor.failed();
}

// False for a line that is not an operation.
bool read_line(std::string_view line, TimedOperation* ran) {
  if (line.ends_with(',')) line.remove_suffix(1);
  // A cursor can not return to an object's member from inside another member, so the arguments get a cursor of their
  // own.
  const std::size_t arguments = line.find("\"args\":");
  if (!line.starts_with("{\"ph\":\"X\"") || arguments == std::string_view::npos) return false;
  const std::string head = std::string(line.substr(0, arguments)) + "\"args\":0}";
  JsonCursor cursor(head);
  if (!cursor.enter_object()) return false;
  for (std::string_view key; cursor.next_key(&key);) {
    if (key == "tid") {
      cursor.read_integer(&ran->lane);
    } else if (key == "ts") {
      cursor.read_number(&ran->begin_us);
    } else if (key == "dur") {
      cursor.read_number(&ran->duration_us);
    } else {
      cursor.skip_value();
    }
  }
  line.remove_prefix(arguments + 7);
  line.remove_suffix(1);
  JsonCursor inner(line);
  return !cursor.failed() && read_arguments(inner, ran);
}

// Which buffer was alive at an address when a copy was submitted. Addresses are reused at other times.
class Residents {
 public:
  Residents(const ReplayTimeline& timeline, const std::vector<TimelineRecorder::Life>& lives)
      : timeline_(timeline), lives_(lives) {
    for (std::uint32_t i = 0; i < timeline.buffers.size(); ++i) by_address_[timeline.buffers[i].address].push_back(i);
  }

  std::uint32_t at(std::uint64_t address, double submitted_us) const {
    const auto submitted_ns = static_cast<std::int64_t>(submitted_us * 1e3);
    auto place = by_address_.upper_bound(address);
    // Slabs of small buffers are copied whole: a buffer that begins before the address may still be the right one, even
    // if a higher one has ended.
    for (int tries = 0; place != by_address_.begin() && tries < kTries; ++tries) {
      --place;
      for (const std::uint32_t i : place->second) {
        const bool alive = lives_[i].begin_ns <= submitted_ns + 1 && submitted_ns <= lives_[i].end_ns;
        if (alive &&
            address < timeline_.buffers[i].address + std::max(timeline_.buffers[i].bytes, timeline_.result.page_bytes))
          return i;
      }
    }
    return kNoIndex;
  }

 private:
  static constexpr int kTries = 64;
  const ReplayTimeline& timeline_;
  const std::vector<TimelineRecorder::Life>& lives_;
  std::map<std::uint64_t, std::vector<std::uint32_t>> by_address_;
};

struct TimedCopy {
  TimelineCopy copy;
  std::uint64_t address;
};

void place_copies(std::vector<TimedCopy>& timed, TimelineRecorder& recorder, ReplayTimeline* timeline) {
  std::ranges::stable_sort(timed, {}, [](const TimedCopy& t) { return t.copy.begin_us; });
  std::map<std::uint64_t, std::uint32_t> last_out;  // by address
  for (TimedCopy& t : timed) {
    t.copy.reason = recorder.take_reason(t.copy.to_host, t.address);
    if (t.copy.to_host) {
      last_out[t.address] = static_cast<std::uint32_t>(timeline->copies.size());
    } else {
      const auto out = last_out.upper_bound(t.address);
      if (out != last_out.begin()) {
        const std::uint32_t found = std::prev(out)->second;
        const TimelineCopy& left = timeline->copies[found];
        if (left.buffer == t.copy.buffer && t.address < std::prev(out)->first + left.bytes) t.copy.restores = found;
      }
    }
    timeline->copies.push_back(t.copy);
  }
}

// Which operator of the timeline a launch was: the parts of one are launched in order.
class Launches {
 public:
  explicit Launches(const std::vector<std::uint64_t>& ordinals) : ordinals_(ordinals) {}

  std::uint32_t next(std::int64_t ordinal) {
    const auto number = static_cast<std::uint64_t>(ordinal);
    const auto first = static_cast<std::size_t>(std::ranges::lower_bound(ordinals_, number) - ordinals_.begin());
    const std::size_t at = first + seen_[number]++;
    return at < ordinals_.size() && ordinals_[at] == number ? static_cast<std::uint32_t>(at) : kNoIndex;
  }

 private:
  const std::vector<std::uint64_t>& ordinals_;
  std::unordered_map<std::uint64_t, std::size_t> seen_;
};

bool read_timeline(const std::string& path, TimelineRecorder& recorder, ReplayTimeline* timeline, std::string* reason) {
  const Residents residents(*timeline, recorder.lives());
  Launches launches(recorder.ordinals());
  GzipLines lines(path);
  std::vector<TimedCopy> timed;
  constexpr std::int64_t kToDevice = 1, kToHost = 2;
  for (std::string_view line; lines.next(&line);) {
    TimedOperation ran;
    if (!read_line(line, &ran)) continue;
    const double end_us = ran.begin_us + ran.duration_us;
    if (ran.relaunch != 0) {
      if (const std::uint32_t at = recorder.take_rerun(static_cast<std::uint64_t>(ran.ordinal)); at != kNoIndex) {
        timeline->reruns[at].begin_us = ran.begin_us;
        timeline->reruns[at].end_us = end_us;
      }
      continue;
    }
    // The final reads of remaining contents are not part of the program.
    if (const std::uint32_t at = ran.ordinal > 0 ? launches.next(ran.ordinal) : kNoIndex; at != kNoIndex) {
      TimelineOperator& op = timeline->operators[at];
      op.begin_us = ran.begin_us;
      op.end_us = end_us;
    } else if (ran.lane == kToDevice || ran.lane == kToHost) {
      const auto address = static_cast<std::uint64_t>(ran.address);
      timed.push_back({{.to_host = ran.lane == kToHost,
                        .begin_us = ran.begin_us,
                        .end_us = end_us,
                        .bytes = static_cast<Bytes>(ran.bytes),
                        .buffer = residents.at(address, ran.submitted_us),
                        .restores = kNoIndex,
                        .reason = nullptr},
                       address});
    }
  }
  if (!lines.error().empty()) {
    *reason = lines.error();
    return false;
  }
  place_copies(timed, recorder, timeline);
  return true;
}

void set_times(const TimelineRecorder& recorder, ReplayTimeline* timeline) {
  const std::vector<TimelineOperator>& ops = timeline->operators;
  // Streams overlap: a step ends with the operator that ends last.
  double latest = 0;
  std::uint32_t at = 0;
  for (const std::uint32_t end : timeline->step_ends) {
    for (; at < end; ++at) latest = std::max(latest, ops[at].end_us);
    timeline->step_end_us.push_back(latest);
  }
  for (; at < ops.size(); ++at) latest = std::max(latest, ops[at].end_us);
  for (std::size_t i = 0; i < timeline->buffers.size(); ++i) {
    const TimelineRecorder::Life& life = recorder.lives()[i];
    TimelineBuffer& buffer = timeline->buffers[i];
    buffer.begin_us = life.first_operator < ops.size() ? ops[life.first_operator].begin_us : latest;
    buffer.end_us = latest;
    if (life.end_operator != kNoIndex) buffer.end_us = life.end_operator == 0 ? 0 : ops[life.end_operator - 1].end_us;
    buffer.end_us = std::max(buffer.end_us, buffer.begin_us);
  }
  for (std::size_t i = 0; i < timeline->drops.size(); ++i) {
    TimelineDrop& drop = timeline->drops[i];
    const std::uint32_t end = recorder.drop_ends()[i];
    drop.begin_us = drop.after < ops.size() ? ops[drop.after].end_us : latest;
    drop.end_us = end < ops.size() ? ops[end].begin_us : latest;
    if (drop.returned == kNoIndex) continue;
    const TimelineRecomputation& made = timeline->recomputations[drop.returned];
    if (made.end > made.begin) drop.end_us = timeline->reruns[made.end - 1].end_us;
  }
  double now = 0;
  for (TimelineChange& change : timeline->changes) {
    const TimelineBuffer& buffer = timeline->buffers[change.buffer];
    now = std::max(now, change.begins ? buffer.begin_us : buffer.end_us);
    change.at_us = now;
  }
}

}  // namespace

bool replay_with_timeline(const Trace& trace, const StepProgram& program, ReplayOptions options, ReplayTimeline* out,
                          std::string* reason) {
  *out = ReplayTimeline();
  // The timeline goes to an anonymous memory file, so that no file remains whatever happens.
  const FileDescriptor memory(memfd_create("timeline", MFD_CLOEXEC));
  if (memory.get() < 0) {
    *reason = std::string("no memory for the timeline: ") + std::strerror(errno);
    return false;
  }
  const std::string path = "/proc/self/fd/" + std::to_string(memory.get());
  TimelineRecorder recorder(trace, out);
  options.watcher = &recorder;
  options.engine.movements = &recorder;
  options.device.timeline = path;
  if (!replay(trace, program, options, &out->result, reason)) return false;
  if (!read_timeline(path, recorder, out, reason)) return false;
  set_times(recorder, out);
  return true;
}

}  // namespace thermocline
