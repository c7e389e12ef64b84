// SPDX-License-Identifier: Apache-2.0
#include "trace/recording.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "offload/operator_class.h"
#include "offload/recogniser.h"
#include "offload/recording.h"

namespace thermocline {
namespace {

// A file in memory, for as long as one lives.
class MappedFile {
 public:
  // errno says why not.
  static std::unique_ptr<MappedFile> open(const std::string& path) {
    const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (file < 0) return nullptr;
    struct stat facts {};
    std::unique_ptr<MappedFile> mapped(new MappedFile);
    if (fstat(file, &facts) == 0 && facts.st_size > 0) {
      void* const at = mmap(nullptr, static_cast<std::size_t>(facts.st_size), PROT_READ, MAP_PRIVATE, file, 0);
      if (at != MAP_FAILED) mapped->bytes_ = {static_cast<const char*>(at), static_cast<std::size_t>(facts.st_size)};
    }
    close(file);
    return mapped;
  }
  ~MappedFile() {
    if (!bytes_.empty()) munmap(const_cast<char*>(bytes_.data()), bytes_.size());
  }
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  std::string_view bytes() const { return bytes_; }

 private:
  MappedFile() = default;
  std::string_view bytes_;
};

class LiveBuffers {
 public:
  struct Buffer {
    std::uint64_t id = 0;
    Bytes bytes = 0;
  };
  void add(std::uint64_t address, Bytes bytes) {
    remove(address);
    buffers_[address] = {added_++, bytes};
    live_bytes_ += bytes;
    peak_ = std::max(peak_, live_bytes_);
  }
  // The buffer that began there; none where there was none.
  std::optional<Buffer> remove(std::uint64_t address) {
    const auto at = buffers_.find(address);
    if (at == buffers_.end()) return std::nullopt;
    const Buffer gone = at->second;
    live_bytes_ -= gone.bytes;
    buffers_.erase(at);
    return gone;
  }
  bool contains(std::uint64_t address) const { return buffers_.contains(address); }
  // A word touches the buffer around it; one past the end, the buffer that ends there, and the one that begins there.
  template <class Visit>
  void touched_by(const Touch& touch, Visit visit) const {
    const std::uint64_t begin = touch.address.value, end = begin + std::max<Bytes>(touch.bytes, 1);
    auto at = buffers_.upper_bound(begin);
    if (at != buffers_.begin()) {
      const auto before = std::prev(at);
      const std::uint64_t its_end = before->first + before->second.bytes;
      if (begin < its_end || (touch.bytes == 0 && begin == its_end)) visit(before->second);
    }
    if (touch.bytes == 0) return;
    for (; at != buffers_.end() && at->first < end; ++at) visit(at->second);
  }
  Bytes live_bytes() const { return live_bytes_; }
  Bytes peak_bytes() const { return peak_; }
  std::uint64_t added() const { return added_; }

 private:
  std::map<std::uint64_t, Buffer> buffers_;
  std::uint64_t added_ = 0;
  Bytes live_bytes_ = 0, peak_ = 0;
};

// What has to be known of the whole before anything can be written.
struct Survey {
  std::unordered_map<std::uint64_t, std::uint64_t> nanoseconds;  // by token
  std::vector<std::uint64_t> step_ends;                          // operators before the end of each step, ascending
  bool cut = false;
};

Survey survey(std::string_view events) {
  Survey found;
  std::vector<std::uint64_t> marks, periods;
  LiveBuffers live;
  Recogniser recogniser;
  RecordingReader reader(events);
  std::uint64_t operators = 0;
  const auto end_step = [&periods](std::uint64_t at) {
    if (periods.empty() || periods.back() < at) periods.push_back(at);
  };
  for (RecordedEvent event; reader.next(&event);) {
    switch (event.kind) {
      case RecordedKind::kAllocate:
        live.add(event.address, event.bytes);
        break;
      case RecordedKind::kFree:
        static_cast<void>(live.remove(event.address));
        break;
      case RecordedKind::kDuration:
        found.nanoseconds[event.token] = event.nanoseconds;
        break;
      case RecordedKind::kStep:
        marks.push_back(operators);
        break;
      case RecordedKind::kOperate: {
        ++operators;
        const Recogniser::Event step =
            recogniser.add(event.token * 0x9E3779B97F4A7C15u + event.name, live.live_bytes());
        const std::uint64_t period = recogniser.period();
        if (step == Recogniser::Event::kFound) {
          for (const std::uint64_t at : {operators - 2 * period, operators - period, operators}) end_step(at);
        } else if (step == Recogniser::Event::kMatch && recogniser.position() + 1 == period) {
          end_step(operators);
        }
        break;
      }
      case RecordedKind::kName:
        break;
    }
  }
  found.cut = reader.is_cut();
  found.step_ends = marks.empty() ? std::move(periods) : std::move(marks);
  return found;
}

class GzipFile {
 public:
  explicit GzipFile(const std::string& path) : file_(gzopen(path.c_str(), "wb6")) {}
  ~GzipFile() {
    if (file_ != nullptr) gzclose(file_);
  }
  GzipFile(const GzipFile&) = delete;
  GzipFile& operator=(const GzipFile&) = delete;
  bool is_open() const { return file_ != nullptr; }
  void line(const std::string& text) { good_ = good_ && gzputs(file_, text.c_str()) >= 0 && gzputc(file_, '\n') >= 0; }
  // False: not all of it has been written.
  bool finish() {
    const bool closed = gzclose(file_) == Z_OK;
    file_ = nullptr;
    return good_ && closed;
  }

 private:
  gzFile file_;
  bool good_ = true;
};

class Converter {
 public:
  Converter(const Survey& survey, GzipFile* out, RecordingSummary* summary)
      : survey_(survey), out_(out), summary_(summary) {}

  void run(std::string_view events) {
    RecordingReader reader(events);
    end_steps();
    for (RecordedEvent event; !done() && reader.next(&event);) convert(event);
    summary_->buffers = live_.added();
    summary_->peak_live_bytes = live_.peak_bytes();
  }

 private:
  // Steps are found, and all of them have been written.
  bool done() const { return !survey_.step_ends.empty() && summary_->steps == survey_.step_ends.size(); }

  void end_steps() {
    while (!done() && summary_->steps < survey_.step_ends.size() &&
           survey_.step_ends[summary_->steps] == summary_->operators) {
      ++summary_->steps;
      out_->line(R"({"e":"step"})");
    }
  }

  std::string stream_field(std::uint64_t handle) {
    const std::uint64_t index = handle == 0 ? 0 : streams_.try_emplace(handle, streams_.size() + 1).first->second;
    return index == 0 ? "" : ",\"s\":" + std::to_string(index);
  }

  void convert(const RecordedEvent& event) {
    switch (event.kind) {
      case RecordedKind::kName:
        names_[event.name] = nlohmann::json(event.text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
        classes_[event.name] = classify_operator(event.text, {});
        break;
      case RecordedKind::kAllocate:
        // Its free is missing where the recording was not switched on yet, or a free failed.
        release(event.address, event.stream);
        out_->line(R"({"e":"alloc","b":)" + std::to_string(live_.added()) + R"(,"n":)" + std::to_string(event.bytes) +
                   stream_field(event.stream) + "}");
        live_.add(event.address, event.bytes);
        break;
      case RecordedKind::kFree:
        release(event.address, event.stream);
        break;
      case RecordedKind::kOperate:
        operate(event);
        ++summary_->operators;
        end_steps();
        break;
      case RecordedKind::kDuration:
      case RecordedKind::kStep:
        break;
    }
  }

  void release(std::uint64_t address, std::uint64_t stream) {
    if (const std::optional<LiveBuffers::Buffer> gone = live_.remove(address)) {
      out_->line(R"({"e":"free","b":)" + std::to_string(gone->id) + stream_field(stream) + "}");
    }
  }

  void operate(const RecordedEvent& event) {
    std::vector<std::uint64_t> reads, writes;
    Bytes bytes = 0;
    const auto add = [](std::vector<std::uint64_t>& list, std::uint64_t id) {
      if (std::find(list.begin(), list.end(), id) == list.end()) list.push_back(id);
    };
    for (const Touch& touch : event.touches) {
      live_.touched_by(touch, [&](const LiveBuffers::Buffer& buffer) {
        bytes += touch.bytes != 0 ? std::min(touch.bytes, buffer.bytes) : buffer.bytes;
        if (touch.access != Access::kWrite) add(reads, buffer.id);
        if (touch.access != Access::kRead) add(writes, buffer.id);
      });
    }
    const auto known = survey_.nanoseconds.find(event.token);
    if (known == survey_.nanoseconds.end()) ++summary_->guessed;
    const std::uint64_t nanoseconds =
        known != survey_.nanoseconds.end() ? known->second : guessed_nanoseconds(bytes, classes_[event.name]);
    std::string line = R"({"e":"op","k":)" + names_[event.name];
    for (const auto& [key, ids] : {std::pair{",\"r\":[", &reads}, {",\"w\":[", &writes}}) {
      line += key;
      for (const std::uint64_t id : *ids) line += (line.back() == '[' ? "" : ",") + std::to_string(id);
      line += ']';
    }
    char duration[32];
    std::snprintf(duration, sizeof duration, ",\"us\":%.3f", static_cast<double>(nanoseconds) / 1e3);
    out_->line(line + duration + stream_field(event.stream) + "}");
  }

  const Survey& survey_;
  GzipFile* out_;
  RecordingSummary* summary_;
  LiveBuffers live_;
  std::unordered_map<std::uint64_t, std::string> names_;  // as JSON
  std::unordered_map<std::uint64_t, OperatorClass> classes_;
  std::unordered_map<std::uint64_t, std::uint64_t> streams_;
};

}  // namespace

bool convert_recording(const std::string& from, const std::string& to, const std::string& program,
                       RecordingSummary* summary, std::string* reason) {
  *summary = {};
  const std::unique_ptr<MappedFile> file = MappedFile::open(from);
  if (file == nullptr) {
    *reason = from + ": can not be opened: " + std::strerror(errno);
    return false;
  }
  if (!file->bytes().starts_with(kRecordingHeader)) {
    *reason = from + ": not a recording of this version: its first line is not '" +
              std::string(kRecordingHeader.substr(0, kRecordingHeader.size() - 1)) + "'";
    return false;
  }
  const std::string_view events = file->bytes().substr(kRecordingHeader.size());
  const Survey found = survey(events);
  summary->cut = found.cut;
  // A pipe or a device has no place to take.
  struct stat there {};
  const bool takes_its_place = stat(to.c_str(), &there) != 0 || S_ISREG(there.st_mode);
  const std::string partial = takes_its_place ? to + ".partial" : to;
  GzipFile out(partial);
  if (!out.is_open()) {
    *reason = to + ": can not be written: " + std::strerror(errno);
    return false;
  }
  out.line(nlohmann::json{{"schema", "thermocline-trace/1"},
                          {"source", "thermocline record"},
                          {"program", program},
                          {"steps", std::max<std::size_t>(found.step_ends.size(), 1)}}
               .dump());
  Converter(found, &out, summary).run(events);
  if (!out.finish() || (takes_its_place && std::rename(partial.c_str(), to.c_str()) != 0)) {
    *reason = to + ": can not be written: " + std::strerror(errno);
    if (takes_its_place) std::remove(partial.c_str());
    return false;
  }
  return true;
}

}  // namespace thermocline
