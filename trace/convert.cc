// SPDX-License-Identifier: Apache-2.0
#include "trace/convert.h"

#include "trace/read.h"

namespace thermocline {
namespace {

// Writes only events that the trace reader accepts.
class Checked : public EventSink {
 public:
  Checked(EventSink* check, EventSink* file) : check_(check), file_(file) {}

  std::string header(std::string_view json) override {
    ++events_;
    std::string reason = check_->header(json);
    return reason.empty() ? file_->header(json) : reason;
  }
  std::string event(const EventFields& fields, std::size_t line) override {
    ++events_;
    std::string reason = check_->event(fields, line);
    return reason.empty() ? file_->event(fields, line) : reason;
  }
  std::size_t events() const { return events_; }

 private:
  EventSink* check_;
  EventSink* file_;
  std::size_t events_ = 0;
};

}  // namespace

bool convert_trace(const std::string& from, const std::string& to, std::size_t* events, TraceError* error,
                   std::vector<std::string>* warnings) {
  *error = {to, 0, ""};
  std::string reason;
  const std::unique_ptr<EventFile> file = EventFile::open(to, &reason);
  if (file == nullptr) {
    error->reason = reason;
    return false;
  }
  Trace trace;
  const std::unique_ptr<EventSink> builder = trace_builder(&trace);
  Checked checked(builder.get(), file.get());
  if (!read_events(from, &checked, error, warnings)) {
    if (file->failed()) *error = {to, 0, error->reason};
    return false;
  }
  *events = checked.events();
  *error = {to, 0, file->finish()};
  return error->reason.empty();
}

bool convert_recording(const std::string& from, const std::string& to, const std::string& program,
                       RecordingSummary* summary, std::string* reason) {
  const auto fail = [reason](const std::string& path) {
    *reason = path + ": " + *reason;
    return false;
  };
  const std::unique_ptr<EventFile> file = EventFile::open(to, reason);
  if (file == nullptr) return fail(to);
  if (*reason = read_recording(from, program, file.get(), summary); !reason->empty()) {
    return fail(file->failed() ? to : from);
  }
  *reason = file->finish();
  return reason->empty() || fail(to);
}

}  // namespace thermocline
