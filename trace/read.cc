// SPDX-License-Identifier: Apache-2.0
#include "trace/read.h"

#include <nlohmann/json.hpp>

#include <cmath>
#include <functional>
#include <limits>
#include <optional>
#include <string_view>
#include <unordered_map>

#include "driver/quantity.h"
#include "trace/event_blocks.h"
#include "trace/event_fields.h"

namespace thermocline {
namespace {

constexpr std::string_view kSchema = "thermocline-trace/1";
constexpr std::string_view kSchemaFamily = "thermocline-trace/";
// The limit for one buffer, and for all live buffers together: the largest memory of a simulated device.
constexpr std::int64_t kMostBytes = std::int64_t{1} << 42;

// Limit for the total time of all operators, on a device of 10^12 operations a second: above it, times would not fit
// into 64 bits of nanoseconds.
constexpr double kMostSeconds = 1e8;

struct TextHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
};

using Indices = std::unordered_map<std::string, std::uint32_t, TextHash, std::equal_to<>>;

std::uint32_t index_of(std::string_view text, Indices* indices, std::vector<std::string>* texts) {
  if (const auto it = indices->find(text); it != indices->end()) return it->second;
  const auto index = static_cast<std::uint32_t>(texts->size());
  texts->emplace_back(text);
  indices->emplace(text, index);
  return index;
}

// Builds the trace line by line; each function returns "" or the reason why the line is rejected.
class Builder : public EventSink {
 public:
  // `selection`: by choice; empty: what was recorded.
  explicit Builder(Trace* trace, ChoiceSelection selection = {}) : trace_(trace), selection_(std::move(selection)) {
    trace_->streams.push_back(0);
  }

  std::string header(std::string_view line) override;
  std::string event(const EventFields& fields, std::size_t line_number) override;
  // False: `error` has the line and the reason.
  bool finish(TraceError* error, std::vector<std::string>* warnings);

 private:
  void remark(std::vector<std::string>* warnings) const;
  struct Life {
    std::uint32_t index;
    std::size_t freed_on = 0;  // line; 0: alive
  };

  std::string declare(const EventFields& fields, std::size_t line_number);
  std::string check_choices(const EventFields& fields, std::size_t line_number, bool* happens);
  std::string check_fields(const EventFields& fields);
  static std::string check_allocation(const EventFields& fields);
  std::string check_operator(const EventFields& fields);
  std::string allocate(const EventFields& fields);
  std::string free(const EventFields& fields, std::size_t line_number);
  std::string operate(const EventFields& fields);
  std::string mark_slices(const EventFields& fields, TraceOperator* op);
  std::string check_figures(const EventFields& fields);
  std::string append_operands(const std::vector<std::int64_t>& ids);
  std::string find_live(std::int64_t id, Life** out);
  void end_step();
  std::uint32_t stream_index(std::uint64_t stream);
  std::uint32_t name_index(std::string_view name) { return index_of(name, &names_, &trace_->names); }
  std::uint32_t tag_index(std::string_view tag) { return tag.empty() ? 0 : index_of(tag, &tags_, &trace_->tags); }
  void push(EventKind kind, std::size_t index);

  Trace* trace_;
  const ChoiceSelection selection_;
  ChoiceChecker choices_;
  std::unordered_map<std::int64_t, Life> lives_;
  Indices names_, tags_;
  std::uint32_t stream_ = 0;
  std::size_t step_begin_ = 0;
  std::size_t operators_since_mark_ = 0;
  std::size_t marks_ = 0;
  std::size_t empty_steps_ = 0;
  Bytes live_bytes_ = 0;
  double seconds_ = 0;
  std::optional<std::uint64_t> announced_steps_;
};

std::string Builder::header(std::string_view line) {
  const nlohmann::json header = nlohmann::json::parse(line, nullptr, false);
  if (!header.is_object() || !header.contains("schema") || !header["schema"].is_string()) {
    return "not a trace: the first line has to be a JSON object with a \"schema\"";
  }
  const std::string schema = header["schema"];
  if (schema != kSchema) {
    const std::string reads = "; this version reads \"" + std::string(kSchema) + "\"";
    return (schema.starts_with(kSchemaFamily) ? "unsupported schema \"" : "not a trace: its schema is \"") + schema +
           "\"" + reads;
  }
  if (header.contains("steps") && header["steps"].is_number_unsigned())
    announced_steps_ = header["steps"].get<std::uint64_t>();
  trace_->header = line;
  return "";
}

std::string Builder::event(const EventFields& fields, std::size_t line_number) {
  if (fields.kind.empty()) return "the event has no \"e\"";
  if (fields.kind == "choice") return declare(fields, line_number);
  if (fields.kind == "step") {
    std::optional<ChoicePlace> nowhere;
    std::string reason = choices_.place(fields, &nowhere);
    if (reason.empty()) end_step();
    return reason;
  }
  if (fields.stream.value_or(0) < 0) return "negative stream " + std::to_string(*fields.stream);
  if (fields.device.value_or(0) < 0) return "negative device " + std::to_string(*fields.device);
  if (fields.device.value_or(0) > 0) trace_->is_single_device = false;
  stream_ = stream_index(static_cast<std::uint64_t>(fields.stream.value_or(0)));
  bool happens = true;
  if (std::string reason = check_fields(fields); !reason.empty()) return reason;
  if (std::string reason = check_choices(fields, line_number, &happens); !reason.empty() || !happens) return reason;
  if (fields.kind == "op") return operate(fields);
  if (fields.kind == "alloc") return allocate(fields);
  return free(fields, line_number);
}

std::string Builder::declare(const EventFields& fields, std::size_t line_number) {
  if (choices_.choices().empty()) {
    for (const auto& [id, life] : lives_) {
      choices_.add_from_before(id, static_cast<std::int64_t>(trace_->buffers[life.index].bytes), life.freed_on);
    }
  }
  if (std::string reason = choices_.declare(fields, line_number); !reason.empty()) return reason;
  TraceChoice& choice = trace_->choices.emplace_back(choices_.choices().back());
  const std::size_t index = trace_->choices.size() - 1;
  if (index < selection_.size()) choice.chosen = selection_[index];
  return "";
}

// `happens`: by what is chosen.
std::string Builder::check_choices(const EventFields& fields, std::size_t line_number, bool* happens) {
  std::optional<ChoicePlace> place;
  if (std::string reason = choices_.place(fields, &place); !reason.empty() || trace_->choices.empty()) return reason;
  if (place) *happens = trace_->choices[place->choice].chosen == place->alternative;
  // A second allocation is rejected when it is made, where more can be said about it.
  if (!place && fields.kind == "alloc" && lives_.contains(*fields.buffer)) return "";
  return choices_.event(fields, line_number, place);
}

std::string Builder::check_fields(const EventFields& fields) {
  if (fields.kind == "op") return check_operator(fields);
  if (fields.kind == "alloc") return check_allocation(fields);
  if (fields.kind == "free") return fields.buffer ? "" : "the free has no \"b\"";
  return "unknown event \"" + fields.kind + "\"";
}

std::string Builder::check_allocation(const EventFields& fields) {
  if (!fields.buffer) return "the allocation has no \"b\"";
  if (!fields.bytes) return "the allocation has no \"n\"";
  const std::int64_t id = *fields.buffer;
  const std::int64_t bytes = *fields.bytes;
  if (id < 0) return "negative buffer id " + std::to_string(id);
  if (bytes < 0) return "negative size " + std::to_string(bytes) + " of buffer " + std::to_string(id);
  if (bytes > kMostBytes)
    return "size " + std::to_string(bytes) + " of buffer " + std::to_string(id) + " is more than any device has";
  return "";
}

std::string Builder::allocate(const EventFields& fields) {
  const std::int64_t id = *fields.buffer;
  const std::int64_t bytes = *fields.bytes;
  if (trace_->buffers.size() == std::numeric_limits<std::uint32_t>::max()) return "too many buffers";
  const auto [it, is_new] = lives_.try_emplace(id, Life{static_cast<std::uint32_t>(trace_->buffers.size())});
  if (!is_new) {
    const std::string state =
        it->second.freed_on == 0 ? " is alive already" : " was used before; ids are unique in a file";
    return "buffer " + std::to_string(id) + state;
  }
  push(EventKind::kAllocate, trace_->buffers.size());
  trace_->buffers.push_back({static_cast<std::uint64_t>(id), static_cast<Bytes>(bytes), tag_index(fields.tag)});
  live_bytes_ += static_cast<Bytes>(bytes);
  if (live_bytes_ > static_cast<Bytes>(kMostBytes)) {
    return "with buffer " + std::to_string(id) + " more is alive than any device has: " + std::to_string(live_bytes_) +
           " bytes";
  }
  trace_->peak_live_bytes = std::max(trace_->peak_live_bytes, live_bytes_);
  return "";
}

std::string Builder::find_live(std::int64_t id, Life** out) {
  const auto it = lives_.find(id);
  if (it == lives_.end()) return "buffer " + std::to_string(id) + " is not alive: it was never allocated";
  if (it->second.freed_on != 0) {
    return "buffer " + std::to_string(id) + " is not alive: it was freed on line " +
           std::to_string(it->second.freed_on);
  }
  *out = &it->second;
  return "";
}

std::string Builder::free(const EventFields& fields, std::size_t line_number) {
  Life* life = nullptr;
  if (std::string reason = find_live(*fields.buffer, &life); !reason.empty()) return reason;
  life->freed_on = line_number;
  live_bytes_ -= trace_->buffers[life->index].bytes;
  push(EventKind::kFree, life->index);
  return "";
}

std::string Builder::append_operands(const std::vector<std::int64_t>& ids) {
  for (const std::int64_t id : ids) {
    Life* life = nullptr;
    if (std::string reason = find_live(id, &life); !reason.empty()) return reason;
    trace_->operands.push_back(life->index);
  }
  return "";
}

std::string Builder::check_figures(const EventFields& fields) {
  for (const auto& [figure, what] :
       {std::pair{fields.flops, "flops"}, {fields.traffic, "bytes"}, {fields.microseconds, "us"}}) {
    const std::string which = std::string("\"") + what + "\" of operator \"" + fields.name + "\"";
    if (figure.value_or(0) < 0) return "negative " + which;
    if (!std::isfinite(figure.value_or(0))) return which + " is no number";
  }
  seconds_ += fields.microseconds ? *fields.microseconds * 1e-6 : *fields.flops * 1e-12 + *fields.traffic * 1e-10;
  return seconds_ > kMostSeconds ? "up to operator \"" + fields.name + "\" the program takes years" : "";
}

std::string Builder::check_operator(const EventFields& fields) {
  if (fields.name.empty()) return "the operator has no name (\"k\")";
  if (!fields.microseconds && !(fields.flops && fields.traffic)) {
    return "the operator has neither a duration (\"us\") nor both \"flops\" and \"bytes\"";
  }
  return check_figures(fields);
}

std::string Builder::operate(const EventFields& fields) {
  if (trace_->operands.size() + fields.reads.size() + fields.writes.size() >
      std::numeric_limits<std::uint32_t>::max()) {
    return "too many operands";
  }
  TraceOperator op{.name = name_index(fields.name),
                   .first_operand = static_cast<std::uint32_t>(trace_->operands.size()),
                   .reads = static_cast<std::uint32_t>(fields.reads.size()),
                   .writes = static_cast<std::uint32_t>(fields.writes.size()),
                   .flops = fields.flops.value_or(0),
                   .bytes = fields.traffic.value_or(0)};
  if (fields.microseconds) op.microseconds = *fields.microseconds;
  for (const auto* ids : {&fields.reads, &fields.writes}) {
    if (std::string reason = append_operands(*ids); !reason.empty()) return reason;
  }
  if (fields.slices || !fields.split.empty()) {
    if (std::string reason = mark_slices(fields, &op); !reason.empty()) return reason;
  }
  push(EventKind::kOperator, trace_->operators.size());
  trace_->operators.push_back(op);
  ++operators_since_mark_;
  return "";
}

std::string Builder::mark_slices(const EventFields& fields, TraceOperator* op) {
  std::string reason = check_slices(fields, [this](std::int64_t id) {
    const auto life = lives_.find(id);
    if (life == lives_.end()) return std::optional<std::int64_t>();
    return std::optional(static_cast<std::int64_t>(trace_->buffers[life->second.index].bytes));
  });
  if (!reason.empty()) return reason;
  op->mark = static_cast<std::uint32_t>(trace_->marks.size());
  trace_->marks.push_back(slice_mark(fields));
  return "";
}

void Builder::push(EventKind kind, std::size_t index) {
  trace_->events.push_back({kind, stream_, static_cast<std::uint32_t>(index)});
}

// A step without operators takes no time, so its duration with less memory would mean nothing. Its other events belong
// to the next step.
void Builder::end_step() {
  ++marks_;
  if (operators_since_mark_ == 0) {
    ++empty_steps_;
    return;
  }
  trace_->steps.push_back({step_begin_, trace_->events.size()});
  step_begin_ = trace_->events.size();
  operators_since_mark_ = 0;
  trace_->has_marks = true;
}

std::uint32_t Builder::stream_index(std::uint64_t stream) {
  std::vector<std::uint64_t>& streams = trace_->streams;
  for (std::size_t i = 0; i < streams.size(); ++i) {
    if (streams[i] == stream) return static_cast<std::uint32_t>(i);
  }
  streams.push_back(stream);
  return static_cast<std::uint32_t>(streams.size() - 1);
}

bool Builder::finish(TraceError* error, std::vector<std::string>* warnings) {
  if (error->reason = choices_.finish(&error->line); !error->reason.empty()) return false;
  *error = {trace_->path, 0, ""};
  if (trace_->operators.empty()) {
    error->reason = "the trace has no operators";
    return false;
  }
  if (!trace_->has_marks) trace_->steps.push_back({0, trace_->events.size()});
  if (warnings != nullptr) remark(warnings);
  return true;
}

void Builder::remark(std::vector<std::string>* warnings) const {
  if (announced_steps_ && *announced_steps_ != marks_) {
    warnings->push_back("the header announces " + quantity(*announced_steps_, "step") + ", the file has " +
                        std::to_string(marks_));
  }
  if (empty_steps_ > 0) {
    warnings->push_back(std::to_string(empty_steps_) + " of " + quantity(marks_, "step") +
                        (empty_steps_ == 1 ? " has no operators; it is not counted as a step"
                                           : " have no operators; they are not counted as steps"));
  }
  if (trace_->has_marks && operators_since_mark_ > 0) {
    warnings->push_back(quantity(operators_since_mark_, "operator behind the last step mark is",
                                 "operators behind the last step mark are") +
                        " ignored");
  }
}

// Packs the events that the next sink accepts.
class Packing : public EventSink {
 public:
  Packing(EventSink* next, std::string* out) : next_(next), writer_(out) {}

  std::string header(std::string_view json) override {
    writer_.header(json);
    return next_->header(json);
  }
  std::string event(const EventFields& fields, std::size_t line) override {
    std::string reason = next_->event(fields, line);
    if (reason.empty()) writer_.event(fields);
    return reason;
  }
  void finish() { writer_.finish(); }

 private:
  EventSink* next_;
  EventBlockWriter writer_;
};

}  // namespace

std::unique_ptr<EventSink> trace_builder(Trace* out) { return std::make_unique<Builder>(out); }

bool read_trace(const std::string& path, Trace* out, TraceError* error, std::vector<std::string>* warnings) {
  *out = Trace();
  out->path = path;
  Builder builder(out);
  return read_events(path, &builder, error, warnings) && builder.finish(error, warnings);
}

bool TraceFamily::read(const std::string& path, TraceError* error, std::vector<std::string>* warnings) {
  recorded_ = Trace();
  recorded_.path = path;
  packed_.clear();
  Builder builder(&recorded_);
  Packing packing(&builder, &packed_);
  if (!read_events(path, &packing, error, warnings) || !builder.finish(error, warnings)) return false;
  packing.finish();
  if (!has_choices()) packed_ = std::string();
  return true;
}

bool TraceFamily::pass_on(EventSink* sink, TraceError* error) const {
  EventBlockReader reader(packed_);
  std::string header;
  *error = {recorded_.path, 1, ""};
  reader.header(&header);
  error->reason = sink->header(header);
  for (EventFields fields; error->reason.empty() && reader.next(&fields);) {
    error->reason = sink->event(fields, ++error->line);
  }
  return error->reason.empty();
}

bool TraceFamily::take(const ChoiceSelection& selection, Trace* out, TraceError* error) const {
  *out = Trace();
  if (!has_choices()) {
    *out = recorded_;
    return true;
  }
  out->path = recorded_.path;
  Builder builder(out, selection);
  return pass_on(&builder, error) && builder.finish(error, nullptr);
}

}  // namespace thermocline
