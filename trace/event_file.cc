// SPDX-License-Identifier: Apache-2.0
#include "trace/event_file.h"

#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "driver/quantity.h"
#include "trace/event_lines.h"
#include "trace/gzip_lines.h"
#include "trace/mapped_file.h"
#include "trace/recording.h"

namespace thermocline {
namespace {

constexpr std::size_t kChunk = std::size_t{1} << 16;
constexpr const char* kLevel = "wb6";

// "" if the beginning can not be read without consuming it, as for a pipe.
std::string beginning_of(const std::string& path) {
  struct stat facts {};
  if (stat(path.c_str(), &facts) != 0 || !S_ISREG(facts.st_mode)) return "";
  std::array<char, 64> bytes{};
  std::FILE* const file = std::fopen(path.c_str(), "rbe");
  if (file == nullptr) return "";
  const std::size_t count = std::fread(bytes.data(), 1, bytes.size(), file);
  std::fclose(file);
  return {bytes.data(), count};
}

bool fail(std::size_t line, std::string reason, TraceError* error) {
  error->line = line;
  error->reason = std::move(reason);
  return false;
}

bool read_lines(const std::string& path, EventSink* sink, TraceError* error) {
  GzipLines lines(path);
  EventFields fields;
  for (std::string_view line; lines.next(&line);) {
    const std::size_t number = lines.line_number();
    std::string reason = number == 1 ? sink->header(line) : parse_event_line(line, &fields);
    if (reason.empty() && number > 1) reason = sink->event(fields, number);
    if (!reason.empty()) return fail(number, reason, error);
  }
  // The line that could not be read; 0 if the file could not be opened.
  if (!lines.error().empty()) return fail(lines.line_number() > 0 ? lines.line_number() + 1 : 0, lines.error(), error);
  return lines.line_number() > 0 || fail(0, "not a trace: the file is empty", error);
}

bool read_blocks(const std::string& path, EventSink* sink, TraceError* error, std::vector<std::string>* warnings) {
  const std::unique_ptr<MappedFile> file = MappedFile::open(path);
  if (file == nullptr) return fail(0, std::string("can not be opened: ") + std::strerror(errno), error);
  if (!file->bytes().starts_with(kEventBlocksHeader)) {
    return fail(0,
                "a packed trace of another version: its first line is not '" +
                    std::string(kEventBlocksHeader.substr(0, kEventBlocksHeader.size() - 1)) + "'",
                error);
  }
  EventBlockReader reader(file->bytes());
  std::string header;
  if (!reader.header(&header)) return fail(0, "the file is truncated or damaged within its first block", error);
  std::size_t line = 1;
  if (std::string reason = sink->header(header); !reason.empty()) return fail(line, reason, error);
  for (EventFields fields; reader.next(&fields);) {
    if (std::string reason = sink->event(fields, ++line); !reason.empty()) return fail(line, reason, error);
  }
  if (!reader.is_whole() && warnings != nullptr) {
    warnings->push_back("the file is truncated or damaged; the " +
                        quantity(line - 1, "event before that is read", "events before that are read"));
  }
  return true;
}

bool read_recorded(const std::string& path, EventSink* sink, TraceError* error, std::vector<std::string>* warnings) {
  RecordingSummary summary;
  if (std::string reason = read_recording(path, "", sink, &summary); !reason.empty()) return fail(0, reason, error);
  if (summary.cut && warnings != nullptr) warnings->push_back("the recording ends early; what is before that is read");
  if (summary.peak_with_rest_bytes > summary.peak_live_bytes && warnings != nullptr) {
    warnings->push_back("behind the last whole step, which is the end of what is read, the program held " +
                        std::to_string(summary.peak_with_rest_bytes) + " bytes, more than before");
  }
  return true;
}

std::string unwritable() { return std::string("can not be written: ") + std::strerror(errno); }

bool takes_its_place(const std::string& path) {
  struct stat found {};
  return path != "-" && (stat(path.c_str(), &found) != 0 || S_ISREG(found.st_mode));
}

}  // namespace

std::string TraceError::text() const {
  std::string text = path + (line > 0 ? ":" + std::to_string(line) : "") + ": " + reason;
  // Keeps the message on one line, whatever characters are in file names.
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < ' ' || c == '\x7f') c = '?';
  }
  return text;
}

bool read_events(const std::string& path, EventSink* sink, TraceError* error, std::vector<std::string>* warnings) {
  *error = {path, 0, ""};
  const std::string begin = beginning_of(path);
  if (begin.starts_with("thermocline-trace-blocks/")) return read_blocks(path, sink, error, warnings);
  if (is_recording(begin)) return read_recorded(path, sink, error, warnings);
  return read_lines(path, sink, error);
}

TraceForm form_of(const std::string& path) {
  if (path == "-" || path.ends_with(".jsonl") || path.ends_with(".json")) return TraceForm::kLines;
  return path.ends_with(".gz") ? TraceForm::kGzipLines : TraceForm::kBlocks;
}

std::string EventFile::partial_path(const std::string& path) {
  return takes_its_place(path) ? path + "." + std::to_string(getpid()) + ".partial" : "";
}

EventFile::EventFile(std::string path, std::string beside, std::FILE* file)
    : path_(std::move(path)), beside_(std::move(beside)), file_(file) {
  switch (form_of(path_)) {
    case TraceForm::kLines:
      break;
    case TraceForm::kGzipLines:
      gzip_ = gzdopen(dup(fileno(file_)), kLevel);
      break;
    case TraceForm::kBlocks:
      blocks_ = std::make_unique<EventBlockWriter>(&pending_);
      break;
  }
}

std::unique_ptr<EventFile> EventFile::open(const std::string& path, std::string* reason) {
  const std::string beside = partial_path(path);
  std::FILE* const file = path == "-" ? stdout : std::fopen(beside.empty() ? path.c_str() : beside.c_str(), "wbe");
  if (file != nullptr) return std::unique_ptr<EventFile>(new EventFile(path, beside, file));
  *reason = unwritable();
  return nullptr;
}

EventFile::~EventFile() {
  if (gzip_ != nullptr) gzclose(gzip_);
  if (file_ != nullptr && file_ != stdout) std::fclose(file_);
  if (!beside_.empty()) unlink(beside_.c_str());
}

std::string EventFile::pass_on(std::size_t at_least) {
  if (pending_.size() < at_least) return "";
  const std::size_t bytes = pending_.size();
  const bool written = gzip_ != nullptr
                           ? gzwrite(gzip_, pending_.data(), static_cast<unsigned>(bytes)) > 0 || bytes == 0
                           : std::fwrite(pending_.data(), 1, bytes, file_) == bytes;
  pending_.clear();
  failed_ = !written;
  return written ? "" : unwritable();
}

std::string EventFile::header(std::string_view json) {
  if (blocks_ != nullptr) {
    blocks_->header(json);
  } else {
    pending_.append(json).push_back('\n');
  }
  return pass_on(kChunk);
}

std::string EventFile::event(const EventFields& fields, std::size_t /*line*/) {
  if (blocks_ == nullptr) {
    append_event_line(fields, &pending_);
    pending_.push_back('\n');
  } else if (!blocks_->event(fields)) {
    return "unknown event \"" + fields.kind + "\"";
  }
  return pass_on(kChunk);
}

std::string EventFile::finish() {
  if (blocks_ != nullptr) blocks_->finish();
  if (std::string reason = pass_on(0); !reason.empty()) return reason;
  bool written = gzip_ == nullptr || gzclose(std::exchange(gzip_, nullptr)) == Z_OK;
  written = written && std::fflush(file_) == 0;
  if (file_ != stdout) written = std::fclose(std::exchange(file_, nullptr)) == 0 && written;
  written = written && (beside_.empty() || std::rename(beside_.c_str(), path_.c_str()) == 0);
  failed_ = !written;
  return written ? "" : unwritable();
}

}  // namespace thermocline
