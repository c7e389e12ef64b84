// SPDX-License-Identifier: Apache-2.0
#include "trace/recording.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "allocator/heap.h"
#include "driver/hash.h"
#include "offload/operator_class.h"
#include "offload/planning/period_detector.h"
#include "offload/planning/profile.h"
#include "telemetry/recording.h"
#include "trace/event_fields.h"
#include "trace/mapped_file.h"

namespace thermocline {
namespace {

// The events of all parts of a recording, one part after the other.
class Parts {
 public:
  explicit Parts(std::vector<std::string_view> parts) : parts_(std::move(parts)) { begin(); }

  bool next(RecordedEvent* event) {
    for (; at_ < parts_.size(); ++at_, begin()) {
      if (reader_->next(event)) return true;
      cut_ = cut_ || reader_->is_cut();
    }
    return false;
  }
  bool is_cut() const { return cut_; }

 private:
  void begin() {
    if (at_ < parts_.size()) reader_.emplace(parts_[at_]);
  }

  std::vector<std::string_view> parts_;
  std::size_t at_ = 0;
  std::optional<RecordingReader> reader_;
  bool cut_ = false;
};

class LiveBuffers {
 public:
  struct Buffer {
    std::uint64_t id = 0;
    Bytes bytes = 0;
    std::uint64_t stream = 0, tag = 0;
  };
  Buffer add(std::uint64_t address, Bytes bytes, std::uint64_t stream, std::uint64_t tag) {
    remove(address);
    live_bytes_ += bytes;
    peak_ = std::max(peak_, live_bytes_);
    return buffers_[address] = {added_++, bytes, stream, tag};
  }
  // Removes and returns the buffer that began there; nothing if there was none.
  std::optional<Buffer> remove(std::uint64_t address) {
    const auto at = buffers_.find(address);
    if (at == buffers_.end()) return std::nullopt;
    const Buffer gone = at->second;
    live_bytes_ -= gone.bytes;
    buffers_.erase(at);
    return gone;
  }
  bool holds(std::uint64_t address, Bytes bytes) const {
    const auto at = buffers_.find(address);
    return at != buffers_.end() && at->second.bytes == bytes;
  }
  // In order of allocation.
  std::vector<Buffer> all() const {
    std::vector<Buffer> found;
    found.reserve(buffers_.size());
    for (const auto& [address, buffer] : buffers_) found.push_back(buffer);
    std::ranges::sort(found, {}, &Buffer::id);
    return found;
  }
  // The peak counts from now on.
  void forget_peak() { peak_ = live_bytes_; }
  // An address accesses the buffer that contains it. One past the end of a buffer accesses that buffer, and also the
  // one that begins there; one that is in none, a buffer that begins shortly behind it (Heap::meant_by).
  template <class Visit>
  void accessed_by(const MemoryAccess& access, Visit visit) const {
    const std::uint64_t begin = access.address.value, end = begin + std::max<Bytes>(access.bytes, 1);
    auto at = buffers_.upper_bound(begin);
    if (at != buffers_.begin()) {
      const auto before = std::prev(at);
      const std::uint64_t its_end = before->first + before->second.bytes;
      if (begin < its_end || (access.bytes == 0 && begin == its_end)) {
        visit(before->second);
        if (access.bytes == 0) return;
      }
    }
    if (access.bytes == 0) {
      if (at != buffers_.end() && at->first - begin <= Heap::kMostBefore) visit(at->second);
      return;
    }
    for (; at != buffers_.end() && at->first < end; ++at) visit(at->second);
  }
  Bytes live_bytes() const { return live_bytes_; }
  Bytes peak_bytes() const { return peak_; }

 private:
  std::map<std::uint64_t, Buffer> buffers_;
  std::uint64_t added_ = 0;
  Bytes live_bytes_ = 0, peak_ = 0;
};

// A first pass over the events: what must be known about the whole before anything can be written.
struct Survey {
  std::unordered_map<std::uint64_t, std::uint64_t> nanoseconds;  // by token
  std::vector<std::uint64_t> step_ends;                          // operators before the end of each step, ascending
  Bytes peak_bytes = 0;
  bool cut = false;
  bool begins_late = false;  // the oldest part is missing

  // The number of operators to skip: the rest of the step in which the recording begins.
  std::uint64_t first_written() const { return begins_late && step_ends.size() > 1 ? step_ends.front() : 0; }
};

class Surveyor {
 public:
  Survey survey(const std::vector<std::string_view>& parts) {
    Parts events(parts);
    bool is_first = true;
    for (RecordedEvent event; events.next(&event); is_first = false) {
      if (is_first) found_.begins_late = event.kind == RecordedKind::kPart;
      look_at(event);
    }
    found_.cut = events.is_cut();
    found_.peak_bytes = live_.peak_bytes();
    found_.step_ends = marks_.empty() ? std::move(periods_) : std::move(marks_);
    return std::move(found_);
  }

 private:
  void look_at(const RecordedEvent& event) {
    switch (event.kind) {
      case RecordedKind::kAllocate:
        add(event);
        break;
      case RecordedKind::kHeld:
        if (!live_.holds(event.address, event.bytes)) add(event);
        break;
      case RecordedKind::kFree:
        release(event.address);
        break;
      case RecordedKind::kDuration:
        found_.nanoseconds[event.token] = event.nanoseconds;
        break;
      case RecordedKind::kStep:
        marks_.push_back(operators_);
        break;
      case RecordedKind::kOperate:
        operate(event);
        break;
      case RecordedKind::kName:
        // Copies and sets are recorded with all their accesses; those of kernels are read from their parameters.
        if (event.text.starts_with("cuMem")) calls_.insert(event.name);
        break;
      case RecordedKind::kThread:
      case RecordedKind::kTag:
      case RecordedKind::kTagged:
      case RecordedKind::kPart:
        break;
    }
  }

  void add(const RecordedEvent& event) {
    release(event.address);
    static_cast<void>(live_.add(event.address, event.bytes, 0, 0));
  }

  void release(std::uint64_t address) {
    if (const auto gone = live_.remove(address)) uses_.freed(gone->id);
  }

  // Reuse is determined as in the library (LearnedPolicy::arriving), so that equal layers are told apart here,
  // too.
  Reuse reuse_of(const RecordedEvent& event) {
    operands_.clear();
    for (const MemoryAccess& access : event.accesses) {
      live_.accessed_by(access, [this](const LiveBuffers::Buffer& buffer) {
        if (std::ranges::find(operands_, buffer.id, &ProfileRecorder::Operand::serial) != operands_.end()) return;
        operands_.push_back({.serial = buffer.id, .bytes = buffer.bytes, .contents = buffer.bytes, .planned = true});
      });
    }
    const std::size_t sure =
        calls_.contains(event.name) ? operands_.size() : std::min(operands_.size(), ProfileRecorder::kSureOperands);
    return uses_.add(operands_, sure, 0, live_.live_bytes());
  }

  void operate(const RecordedEvent& event) {
    ++operators_;
    const PeriodDetector::Event step =
        period_detector_.add(event.token * kHashFactor + event.name, live_.live_bytes(), reuse_of(event));
    const std::uint64_t period = period_detector_.period();
    if (step == PeriodDetector::Event::kFound) {
      for (const std::uint64_t at : {operators_ - 2 * period, operators_ - period, operators_}) end_step(at);
    } else if (step == PeriodDetector::Event::kMatch && period_detector_.position() + 1 == period) {
      end_step(operators_);
    }
  }

  // The events before the first period form a step, unless there are none.
  void end_step(std::uint64_t at) {
    if (at > (periods_.empty() ? 0 : periods_.back())) periods_.push_back(at);
  }

  Survey found_;
  std::vector<std::uint64_t> marks_, periods_;
  LiveBuffers live_;
  ProfileRecorder uses_;
  std::vector<ProfileRecorder::Operand> operands_;  // of the operation
  PeriodDetector period_detector_;
  std::unordered_set<std::uint64_t> calls_;  // names of the driver's functions
  std::uint64_t operators_ = 0;
};

class Converter {
 public:
  Converter(const Survey& survey, EventSink* out, RecordingSummary* summary)
      : survey_(survey), out_(out), summary_(summary) {}

  // Returns "" or the reason why the sink rejected an event.
  std::string run(const std::vector<std::string_view>& parts) {
    Parts events(parts);
    reach();
    for (RecordedEvent event; !done() && reason_.empty() && events.next(&event);) convert(event);
    summary_->operators = operators_ - survey_.first_written();
    summary_->peak_live_bytes = live_.peak_bytes();
    return reason_;
  }

 private:
  // True if the recording has steps and the ends of all of them have been written.
  bool done() const { return !survey_.step_ends.empty() && ends_ == survey_.step_ends.size(); }
  bool is_writing() const { return operators_ >= survey_.first_written(); }

  // Writes the step ends that come after `operators_` operators.
  void reach() {
    for (; ends_ < survey_.step_ends.size() && survey_.step_ends[ends_] == operators_; ++ends_) {
      if (ends_ == 0 && survey_.first_written() > 0) {
        live_.forget_peak();
        for (const LiveBuffers::Buffer& buffer : live_.all()) tell_allocation(buffer);
        continue;
      }
      ++summary_->steps;
      begin_event("step");
      end_event();
    }
  }

  void begin_event(const char* kind) {
    fields_.clear();
    fields_.kind = kind;
    if (thread_ != 0) fields_.thread = static_cast<std::int64_t>(thread_);
  }
  void end_event() {
    if (reason_.empty()) reason_ = out_->event(fields_, ++line_);
  }
  void put_stream(std::uint64_t handle) {
    if (handle == 0) return;
    fields_.stream = static_cast<std::int64_t>(streams_.try_emplace(handle, streams_.size() + 1).first->second);
  }

  void convert(const RecordedEvent& event) {
    switch (event.kind) {
      case RecordedKind::kName:
        names_[event.name] = event.text.empty() ? "unknown" : event.text;
        classes_[event.name] = classify_operator(event.text, {});
        break;
      case RecordedKind::kAllocate:
        add(event, tag_);
        break;
      case RecordedKind::kHeld:
        if (!live_.holds(event.address, event.bytes)) add(event, event.tag);
        break;
      case RecordedKind::kFree:
        release(event.address, event.stream);
        break;
      case RecordedKind::kOperate:
        if (is_writing()) operate(event);
        ++operators_;
        reach();
        break;
      case RecordedKind::kThread:
        thread_ = event.thread;
        break;
      case RecordedKind::kTag:
        tags_[event.tag] = event.text;
        break;
      case RecordedKind::kTagged:
        tag_ = event.tag;
        break;
      case RecordedKind::kDuration:
      case RecordedKind::kStep:
      case RecordedKind::kPart:
        break;
    }
  }

  void add(const RecordedEvent& event, std::uint64_t tag) {
    // The buffer's free is missing if recording was not switched on yet, or if a free failed.
    release(event.address, event.stream);
    const LiveBuffers::Buffer buffer = live_.add(event.address, event.bytes, event.stream, tag);
    if (is_writing()) tell_allocation(buffer);
  }

  void tell_allocation(const LiveBuffers::Buffer& buffer) {
    ++summary_->buffers;
    begin_event("alloc");
    fields_.buffer = static_cast<std::int64_t>(buffer.id);
    fields_.bytes = static_cast<std::int64_t>(buffer.bytes);
    put_stream(buffer.stream);
    if (buffer.tag != 0) fields_.tag = tags_[buffer.tag];
    end_event();
  }

  void release(std::uint64_t address, std::uint64_t stream) {
    const std::optional<LiveBuffers::Buffer> gone = live_.remove(address);
    if (!gone || !is_writing()) return;
    begin_event("free");
    fields_.buffer = static_cast<std::int64_t>(gone->id);
    put_stream(stream);
    end_event();
  }

  void operate(const RecordedEvent& event) {
    begin_event("op");
    // The block with the name may be missing.
    const auto name = names_.find(event.name);
    fields_.name = name != names_.end() ? name->second : "unknown";
    Bytes bytes = 0;
    const auto add = [](std::vector<std::int64_t>& list, std::uint64_t id) {
      const auto number = static_cast<std::int64_t>(id);
      if (std::find(list.begin(), list.end(), number) == list.end()) list.push_back(number);
    };
    for (const MemoryAccess& access : event.accesses) {
      live_.accessed_by(access, [&](const LiveBuffers::Buffer& buffer) {
        bytes += access.bytes != 0 ? std::min(access.bytes, buffer.bytes) : buffer.bytes;
        // A partial write keeps the other contents, so it reads, too.
        const bool is_in_part = access.bytes != 0 && access.bytes < buffer.bytes;
        if (access.access != Access::kWrite || is_in_part) add(fields_.reads, buffer.id);
        if (access.access != Access::kRead) add(fields_.writes, buffer.id);
      });
    }
    const auto known = survey_.nanoseconds.find(event.token);
    if (known == survey_.nanoseconds.end()) ++summary_->guessed;
    const std::uint64_t nanoseconds =
        known != survey_.nanoseconds.end() ? known->second : guessed_nanoseconds(bytes, classes_[event.name]);
    fields_.microseconds = static_cast<double>(nanoseconds) / 1e3;
    put_stream(event.stream);
    end_event();
  }

  const Survey& survey_;
  EventSink* out_;
  RecordingSummary* summary_;
  EventFields fields_;
  std::string reason_;
  std::size_t line_ = 1;
  std::uint64_t operators_ = 0;  // written or skipped
  std::size_t ends_ = 0;         // step ends that have been passed
  std::uint64_t thread_ = 0, tag_ = 0;
  LiveBuffers live_;
  std::unordered_map<std::uint64_t, std::string> names_, tags_;
  std::unordered_map<std::uint64_t, OperatorClass> classes_;
  std::unordered_map<std::uint64_t, std::uint64_t> streams_;
};

// Returns "" or the reason of failure.
std::string add_part(const MappedFile& file, std::vector<std::string_view>* parts) {
  if (!file.bytes().starts_with(kRecordingHeader)) {
    return "not a recording of this version: its first line is not '" +
           std::string(kRecordingHeader.substr(0, kRecordingHeader.size() - 1)) + "'";
  }
  parts->push_back(file.bytes().substr(kRecordingHeader.size()));
  return "";
}

}  // namespace

bool is_recording(std::string_view begin) { return begin.starts_with(kAnyRecording); }

std::string read_recording(const std::string& path, const std::string& program, EventSink* out,
                           RecordingSummary* summary) {
  *summary = {};
  std::vector<std::string_view> parts;
  const std::unique_ptr<MappedFile> older = MappedFile::open(path + std::string(kOlderPart));
  const std::unique_ptr<MappedFile> newer = MappedFile::open(path);
  if (newer == nullptr && older == nullptr) return std::string("can not be opened: ") + std::strerror(errno);
  for (const MappedFile* part : {older.get(), newer.get()}) {
    if (part == nullptr) continue;
    if (std::string reason = add_part(*part, &parts); !reason.empty()) return reason;
  }
  const Survey found = Surveyor().survey(parts);
  summary->cut = found.cut;
  summary->begins_late = found.begins_late;
  if (!found.begins_late) summary->peak_with_rest_bytes = found.peak_bytes;
  const std::size_t unwritten = found.first_written() > 0 ? 1 : 0;
  const nlohmann::json header = {{"schema", "thermocline-trace/1"},
                                 {"source", "thermocline record"},
                                 {"program", program},
                                 {"steps", found.step_ends.size() - unwritten}};
  const std::string text = header.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  if (std::string reason = out->header(text); !reason.empty()) return reason;
  return Converter(found, out, summary).run(parts);
}

}  // namespace thermocline
