// SPDX-License-Identifier: Apache-2.0
#include "trace/story.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <map>
#include <utility>

#include "trace/gzip_lines.h"
#include "trace/json_cursor.h"

namespace thermocline {
namespace {

// Records events in the replay's order; times are known only when the replay has ended.
class Listener : public ReplayWatcher, public MovementObserver {
 public:
  Listener(const Trace& trace, Story* story) : trace_(trace), story_(story), current_(trace.buffers.size(), kNobody) {}

  // In host time; the end is unset while a buffer is alive.
  struct Life {
    std::int64_t begin_ns, end_ns;
    std::uint32_t first_operator, end_operator;
  };
  const std::vector<Life>& lives() const { return lives_; }

  void allocated(std::uint32_t buffer, DeviceAddress address, std::int64_t now) override {
    rename_all();
    current_[buffer] = static_cast<std::uint32_t>(lives_.size());
    lives_.push_back({now, std::numeric_limits<std::int64_t>::max(), operators(), kNobody});
    story_->changes.push_back({.at_us = 0, .begins = true, .buffer = current_[buffer]});
    story_->buffers.push_back({.id = trace_.buffers[buffer].id,
                               .address = address.value,
                               .bytes = trace_.buffers[buffer].bytes,
                               .tag = trace_.buffers[buffer].tag,
                               .begin_us = 0,
                               .end_us = 0,
                               .producer = kNobody,
                               .uses = {},
                               .outlives_window = true});
  }
  void freed(std::uint32_t buffer, std::int64_t now) override {
    rename_all();
    const std::uint32_t at = std::exchange(current_[buffer], kNobody);
    story_->changes.push_back({.at_us = 0, .begins = false, .buffer = at});
    lives_[at].end_ns = now;
    lives_[at].end_operator = operators();
    story_->buffers[at].outlives_window = false;
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
    story_->operators.push_back({.name = o.name,
                                 .stream = stream,
                                 .begin_us = 0,
                                 .end_us = 0,
                                 .device_bytes = now.device_bytes,
                                 .nonresident_bytes = now.nonresident_bytes,
                                 .host_bytes = now.host_live_bytes});
  }
  void step_ended() override { story_->step_ends.push_back(operators()); }

  void copying_out(const MovedUnit& unit, EvictReason reason) override { add_reason(true, unit, name_of(reason)); }
  void evicted(const MovedUnit&, EvictReason) override {}
  void fetching(const MovedUnit& unit, FetchReason reason) override { add_reason(false, unit, name_of(reason)); }

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

  void add_reason(bool to_host, const MovedUnit& unit, const char* reason) {
    reasons_[{unit.address.value, to_host}].push_back(reason);
  }

  std::uint32_t operators() const { return static_cast<std::uint32_t>(story_->operators.size()); }

  void use(std::uint32_t buffer, bool writes) {
    const std::uint32_t at = current_[buffer];
    if (at == kNobody) return;  // a buffer of no bytes
    StoryBuffer& b = story_->buffers[at];
    if (b.uses.empty() || b.uses.back() != operators()) b.uses.push_back(operators());
    if (writes && b.producer == kNobody && lives_[at].first_operator > 0) b.producer = operators();
  }

  const Trace& trace_;
  Story* story_;
  std::vector<std::uint32_t> current_;  // by the trace's index: index into the story's buffers
  std::vector<std::pair<std::uint32_t, std::uint32_t>> renames_;
  std::vector<Life> lives_;                                                    // by the story's index
  std::map<std::pair<std::uint64_t, bool>, std::deque<const char*>> reasons_;  // by address and direction
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
struct Ran {
  double begin_us = 0, duration_us = 0, submitted_us = 0;
  std::int64_t lane = 0;
  std::int64_t bytes = 0, address = 0, ordinal = 0;
};

bool read_arguments(JsonCursor& cursor, Ran* ran) {
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
    } else {
      cursor.skip_value();
    }
  }
  return !cursor.failed();
}

// False for a line that is not an operation.
bool read_line(std::string_view line, Ran* ran) {
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
  Residents(const Story& story, const std::vector<Listener::Life>& lives) : story_(story), lives_(lives) {
    for (std::uint32_t i = 0; i < story.buffers.size(); ++i) by_address_[story.buffers[i].address].push_back(i);
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
        if (alive && address < story_.buffers[i].address + std::max(story_.buffers[i].bytes, story_.result.page_bytes))
          return i;
      }
    }
    return kNobody;
  }

 private:
  static constexpr int kTries = 64;
  const Story& story_;
  const std::vector<Listener::Life>& lives_;
  std::map<std::uint64_t, std::vector<std::uint32_t>> by_address_;
};

struct TimedCopy {
  StoryCopy copy;
  std::uint64_t address;
};

void place_copies(std::vector<TimedCopy>& timed, Listener& listener, Story* story) {
  std::ranges::stable_sort(timed, {}, [](const TimedCopy& t) { return t.copy.begin_us; });
  std::map<std::uint64_t, std::uint32_t> last_out;  // by address
  for (TimedCopy& t : timed) {
    t.copy.reason = listener.take_reason(t.copy.to_host, t.address);
    if (t.copy.to_host) {
      last_out[t.address] = static_cast<std::uint32_t>(story->copies.size());
    } else {
      const auto out = last_out.upper_bound(t.address);
      if (out != last_out.begin()) {
        const std::uint32_t found = std::prev(out)->second;
        const StoryCopy& left = story->copies[found];
        if (left.buffer == t.copy.buffer && t.address < std::prev(out)->first + left.bytes) t.copy.restores = found;
      }
    }
    story->copies.push_back(t.copy);
  }
}

bool read_timeline(const std::string& path, Listener& listener, Story* story, std::string* reason) {
  const Residents residents(*story, listener.lives());
  GzipLines lines(path);
  std::vector<TimedCopy> timed;
  constexpr std::int64_t kToDevice = 1, kToHost = 2;
  for (std::string_view line; lines.next(&line);) {
    Ran ran;
    if (!read_line(line, &ran)) continue;
    const double end_us = ran.begin_us + ran.duration_us;
    // The final reads of remaining contents are not part of the program.
    if (ran.ordinal > 0 && static_cast<std::size_t>(ran.ordinal) <= story->operators.size()) {
      StoryOperator& op = story->operators[static_cast<std::size_t>(ran.ordinal) - 1];
      op.begin_us = ran.begin_us;
      op.end_us = end_us;
    } else if (ran.lane == kToDevice || ran.lane == kToHost) {
      const auto address = static_cast<std::uint64_t>(ran.address);
      timed.push_back({{.to_host = ran.lane == kToHost,
                        .begin_us = ran.begin_us,
                        .end_us = end_us,
                        .bytes = static_cast<Bytes>(ran.bytes),
                        .buffer = residents.at(address, ran.submitted_us),
                        .restores = kNobody,
                        .reason = nullptr},
                       address});
    }
  }
  if (!lines.error().empty()) {
    *reason = lines.error();
    return false;
  }
  place_copies(timed, listener, story);
  return true;
}

void set_times(const Listener& listener, Story* story) {
  const std::vector<StoryOperator>& ops = story->operators;
  // Streams overlap: a step ends with the operator that ends last.
  double latest = 0;
  std::uint32_t at = 0;
  for (const std::uint32_t end : story->step_ends) {
    for (; at < end; ++at) latest = std::max(latest, ops[at].end_us);
    story->step_end_us.push_back(latest);
  }
  for (; at < ops.size(); ++at) latest = std::max(latest, ops[at].end_us);
  for (std::size_t i = 0; i < story->buffers.size(); ++i) {
    const Listener::Life& life = listener.lives()[i];
    StoryBuffer& buffer = story->buffers[i];
    buffer.begin_us = life.first_operator < ops.size() ? ops[life.first_operator].begin_us : latest;
    buffer.end_us = latest;
    if (life.end_operator != kNobody) buffer.end_us = life.end_operator == 0 ? 0 : ops[life.end_operator - 1].end_us;
    buffer.end_us = std::max(buffer.end_us, buffer.begin_us);
  }
  double now = 0;
  for (StoryChange& change : story->changes) {
    const StoryBuffer& buffer = story->buffers[change.buffer];
    now = std::max(now, change.begins ? buffer.begin_us : buffer.end_us);
    change.at_us = now;
  }
}

}  // namespace

bool tell_story(const Trace& trace, const StepProgram& program, ReplayOptions options, Story* out,
                std::string* reason) {
  *out = Story();
  // The timeline goes to an anonymous memory file, so that no file remains whatever happens.
  const FileDescriptor memory(memfd_create("timeline", MFD_CLOEXEC));
  if (memory.get() < 0) {
    *reason = std::string("no memory for the timeline: ") + std::strerror(errno);
    return false;
  }
  const std::string path = "/proc/self/fd/" + std::to_string(memory.get());
  Listener listener(trace, out);
  options.watcher = &listener;
  options.engine.movements = &listener;
  options.device.timeline = path;
  if (!replay(trace, program, options, &out->result, reason)) return false;
  if (!read_timeline(path, listener, out, reason)) return false;
  set_times(listener, out);
  return true;
}

}  // namespace thermocline
