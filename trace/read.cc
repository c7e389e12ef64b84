// SPDX-License-Identifier: Apache-2.0
#include "trace/read.h"

#include <nlohmann/json.hpp>

#include <functional>
#include <limits>
#include <optional>
#include <string_view>
#include <unordered_map>

#include "trace/gzip_lines.h"
#include "trace/json_cursor.h"

namespace thermocline {
namespace {

constexpr std::string_view kSchema = "thermocline-trace/1";
constexpr std::string_view kSchemaFamily = "thermocline-trace/";
constexpr std::int64_t kMostBytes = std::int64_t{1} << 50;

// One line's fields, as they stand.
struct Fields {
  std::string kind;
  std::string name;
  std::optional<std::int64_t> buffer, bytes, stream, device;
  std::optional<double> flops, traffic, microseconds;
  std::vector<std::int64_t> reads, writes;

  void clear() {
    kind.clear();
    name.clear();
    buffer = bytes = stream = device = std::nullopt;
    flops = traffic = microseconds = std::nullopt;
    reads.clear();
    writes.clear();
  }
};

struct TextHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
};

// Builds the trace line by line; each function answers "" or the reason why the line is rejected.
class Builder {
 public:
  explicit Builder(Trace* trace) : trace_(trace) { trace_->streams.push_back(0); }

  std::string header(std::string_view line);
  std::string event(std::string_view line, std::size_t line_number);
  void finish(std::vector<std::string>* warnings);

 private:
  struct Life {
    std::uint32_t index;
    std::size_t freed_on = 0;  // line; 0: alive
  };

  std::string parse(std::string_view line);
  bool parse_field(std::string_view key, JsonCursor* cursor);
  std::string allocate();
  std::string free(std::size_t line_number);
  std::string operate();
  std::string append_operands(const std::vector<std::int64_t>& ids);
  std::string find_live(std::int64_t id, Life** out);
  void end_step();
  std::uint32_t stream_index(std::uint64_t stream);
  std::uint32_t name_index(std::string_view name);
  void push(EventKind kind, std::size_t index);

  Trace* trace_;
  Fields fields_;
  std::unordered_map<std::int64_t, Life> lives_;
  std::unordered_map<std::string, std::uint32_t, TextHash, std::equal_to<>> names_;
  std::uint32_t stream_ = 0;
  std::size_t step_begin_ = 0;
  std::size_t operators_since_mark_ = 0;
  Bytes live_bytes_ = 0;
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

bool Builder::parse_field(std::string_view key, JsonCursor* cursor) {
  std::string_view text;
  if (key == "e" || key == "k") {
    if (!cursor->read_string(&text)) return false;
    (key == "e" ? fields_.kind : fields_.name) = text;
    return true;
  }
  if (key == "r") return cursor->read_integers(&fields_.reads);
  if (key == "w") return cursor->read_integers(&fields_.writes);
  if (key == "b") return cursor->read_integer(&fields_.buffer.emplace());
  if (key == "n") return cursor->read_integer(&fields_.bytes.emplace());
  if (key == "s") return cursor->read_integer(&fields_.stream.emplace());
  if (key == "d") return cursor->read_integer(&fields_.device.emplace());
  if (key == "flops") return cursor->read_number(&fields_.flops.emplace());
  if (key == "bytes") return cursor->read_number(&fields_.traffic.emplace());
  if (key == "us") return cursor->read_number(&fields_.microseconds.emplace());
  return cursor->skip_value();
}

std::string Builder::parse(std::string_view line) {
  fields_.clear();
  JsonCursor cursor(line);
  std::string key;
  if (cursor.enter_object()) {
    for (std::string_view next; cursor.next_key(&next);) {
      key = next;
      if (!parse_field(next, &cursor)) break;
      key.clear();
    }
  }
  if (!cursor.failed() && cursor.at_end()) return "";
  const std::string where = " at column " + std::to_string(cursor.column());
  return "not a valid event" + where + (key.empty() ? "" : ", field \"" + key + "\"") + ": " + cursor.error();
}

std::string Builder::event(std::string_view line, std::size_t line_number) {
  if (std::string reason = parse(line); !reason.empty()) return reason;
  if (fields_.kind.empty()) return "the event has no \"e\"";
  if (fields_.kind == "step") {
    end_step();
    return "";
  }
  if (fields_.stream.value_or(0) < 0) return "negative stream " + std::to_string(*fields_.stream);
  if (fields_.device.value_or(0) < 0) return "negative device " + std::to_string(*fields_.device);
  if (fields_.device.value_or(0) > 0) trace_->is_single_device = false;
  stream_ = stream_index(static_cast<std::uint64_t>(fields_.stream.value_or(0)));
  if (fields_.kind == "op") return operate();
  if (fields_.kind == "alloc") return allocate();
  if (fields_.kind == "free") return free(line_number);
  return "unknown event \"" + fields_.kind + "\"";
}

std::string Builder::allocate() {
  if (!fields_.buffer) return "the allocation has no \"b\"";
  if (!fields_.bytes) return "the allocation has no \"n\"";
  const std::int64_t id = *fields_.buffer;
  const std::int64_t bytes = *fields_.bytes;
  if (id < 0) return "negative buffer id " + std::to_string(id);
  if (bytes < 0) return "negative size " + std::to_string(bytes) + " of buffer " + std::to_string(id);
  if (bytes > kMostBytes)
    return "size " + std::to_string(bytes) + " of buffer " + std::to_string(id) + " is more than any device has";
  if (trace_->buffers.size() == std::numeric_limits<std::uint32_t>::max()) return "too many buffers";
  const auto [it, is_new] = lives_.try_emplace(id, Life{static_cast<std::uint32_t>(trace_->buffers.size())});
  if (!is_new) {
    const std::string state =
        it->second.freed_on == 0 ? " is alive already" : " was used before; ids are unique in a file";
    return "buffer " + std::to_string(id) + state;
  }
  push(EventKind::kAllocate, trace_->buffers.size());
  trace_->buffers.push_back({static_cast<std::uint64_t>(id), static_cast<Bytes>(bytes)});
  live_bytes_ += static_cast<Bytes>(bytes);
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

std::string Builder::free(std::size_t line_number) {
  if (!fields_.buffer) return "the free has no \"b\"";
  Life* life = nullptr;
  if (std::string reason = find_live(*fields_.buffer, &life); !reason.empty()) return reason;
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

std::string Builder::operate() {
  if (fields_.name.empty()) return "the operator has no name (\"k\")";
  if (!fields_.microseconds && !(fields_.flops && fields_.traffic)) {
    return "the operator has neither a duration (\"us\") nor both \"flops\" and \"bytes\"";
  }
  for (const auto& [figure, what] :
       {std::pair{fields_.flops, "flops"}, {fields_.traffic, "bytes"}, {fields_.microseconds, "us"}}) {
    if (figure.value_or(0) < 0) return std::string("negative \"") + what + "\" of operator \"" + fields_.name + "\"";
  }
  if (trace_->operands.size() + fields_.reads.size() + fields_.writes.size() >
      std::numeric_limits<std::uint32_t>::max()) {
    return "too many operands";
  }
  TraceOperator op{.name = name_index(fields_.name),
                   .first_operand = static_cast<std::uint32_t>(trace_->operands.size()),
                   .reads = static_cast<std::uint32_t>(fields_.reads.size()),
                   .writes = static_cast<std::uint32_t>(fields_.writes.size()),
                   .flops = fields_.flops.value_or(0),
                   .bytes = fields_.traffic.value_or(0)};
  if (fields_.microseconds) op.microseconds = *fields_.microseconds;
  for (const auto* ids : {&fields_.reads, &fields_.writes}) {
    if (std::string reason = append_operands(*ids); !reason.empty()) return reason;
  }
  push(EventKind::kOperator, trace_->operators.size());
  trace_->operators.push_back(op);
  ++operators_since_mark_;
  return "";
}

void Builder::push(EventKind kind, std::size_t index) {
  trace_->events.push_back({kind, stream_, static_cast<std::uint32_t>(index)});
}

void Builder::end_step() {
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

std::uint32_t Builder::name_index(std::string_view name) {
  if (const auto it = names_.find(name); it != names_.end()) return it->second;
  const auto index = static_cast<std::uint32_t>(trace_->names.size());
  trace_->names.emplace_back(name);
  names_.emplace(name, index);
  return index;
}

void Builder::finish(std::vector<std::string>* warnings) {
  const std::size_t marks = trace_->steps.size();
  if (!trace_->has_marks) trace_->steps.push_back({0, trace_->events.size()});
  if (warnings == nullptr) return;
  if (announced_steps_ && *announced_steps_ != marks) {
    warnings->push_back("the header announces " + std::to_string(*announced_steps_) + " steps, the file has " +
                        std::to_string(marks));
  }
  if (trace_->has_marks && operators_since_mark_ > 0) {
    warnings->push_back(std::to_string(operators_since_mark_) + " operators behind the last step mark are ignored");
  }
}

}  // namespace

std::string TraceError::text() const { return path + (line > 0 ? ":" + std::to_string(line) : "") + ": " + reason; }

bool read_trace(const std::string& path, Trace* out, TraceError* error, std::vector<std::string>* warnings) {
  *out = Trace();
  out->path = path;
  *error = {path, 0, ""};
  GzipLines lines(path);
  Builder builder(out);
  for (std::string_view line; lines.next(&line);) {
    error->line = lines.line_number();
    error->reason = error->line == 1 ? builder.header(line) : builder.event(line, error->line);
    if (!error->reason.empty()) return false;
  }
  if (!lines.error().empty()) {
    error->reason = lines.error();
    // The line that could not be finished, unless the file could not even be opened.
    if (lines.line_number() > 0) error->line = lines.line_number() + 1;
    return false;
  }
  error->line = 0;
  if (lines.line_number() == 0) {
    error->reason = "not a trace: the file is empty";
    return false;
  }
  if (out->operators.empty()) {
    error->reason = "the trace has no operators";
    return false;
  }
  builder.finish(warnings);
  return true;
}

}  // namespace thermocline
