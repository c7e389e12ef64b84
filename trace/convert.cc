// SPDX-License-Identifier: Apache-2.0
#include "trace/convert.h"

#include "trace/read.h"

namespace thermocline {
namespace {

// Writes only events that the trace reader accepts.
class Checked : public EventSink {
 public:
  Checked(EventSink* check, EventSink* file, const SliceRules* rules) : check_(check), file_(file), rules_(rules) {}

  std::string header(std::string_view json) override {
    ++events_;
    std::string reason = check_->header(json);
    return reason.empty() ? file_->header(json) : reason;
  }
  std::string event(const EventFields& fields, std::size_t line) override {
    ++events_;
    if (rules_ != nullptr && fields.kind == "op") {
      EventFields marked = fields;
      if (rules_->mark(&marked)) ++marked_;
      return pass_on(marked, line);
    }
    return pass_on(fields, line);
  }
  Converted counts() const { return {events_, marked_}; }

 private:
  std::string pass_on(const EventFields& fields, std::size_t line) {
    std::string reason = check_->event(fields, line);
    return reason.empty() ? file_->event(fields, line) : reason;
  }

  EventSink* check_;
  EventSink* file_;
  const SliceRules* rules_;
  std::size_t events_ = 0, marked_ = 0;
};

}  // namespace

bool convert_trace(const std::string& from, const std::string& to, const SliceRules* rules, Converted* out,
                   TraceError* error, std::vector<std::string>* warnings) {
  *error = {to, 0, ""};
  std::string reason;
  const std::unique_ptr<EventFile> file = EventFile::open(to, &reason);
  if (file == nullptr) {
    error->reason = reason;
    return false;
  }
  Trace trace;
  const std::unique_ptr<EventSink> builder = trace_builder(&trace);
  Checked checked(builder.get(), file.get(), rules);
  if (!read_events(from, &checked, error, warnings)) {
    if (file->failed()) *error = {to, 0, error->reason};
    return false;
  }
  *out = checked.counts();
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
