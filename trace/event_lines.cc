// SPDX-License-Identifier: Apache-2.0
#include "trace/event_lines.h"

#include <nlohmann/json.hpp>

#include <charconv>

#include "trace/json_cursor.h"

namespace thermocline {
namespace {

bool parse_field(std::string_view key, JsonCursor* cursor, EventFields* out) {
  std::string_view text;
  if (key == "e" || key == "k" || key == "tag" || key == "a") {
    if (!cursor->read_string(&text)) return false;
    (key == "e" ? out->kind : key == "k" ? out->name : key == "a" ? out->alternative : out->tag) = text;
    return true;
  }
  if (key == "of") return cursor->read_strings(&out->alternatives);
  if (key == "r") return cursor->read_integers(&out->reads);
  if (key == "w") return cursor->read_integers(&out->writes);
  if (key == "b") return cursor->read_integer(&out->buffer.emplace());
  if (key == "n") return cursor->read_integer(&out->bytes.emplace());
  if (key == "s") return cursor->read_integer(&out->stream.emplace());
  if (key == "d") return cursor->read_integer(&out->device.emplace());
  if (key == "i") return cursor->read_integer(&out->index.emplace());
  if (key == "slices") return cursor->read_integer(&out->slices.emplace());
  if (key == "split") return cursor->read_integers(&out->split);
  if (key == "c") return cursor->read_integer(&out->choice.emplace());
  if (key == "thread") return cursor->read_integer(&out->thread.emplace());
  if (key == "flops") return cursor->read_number(&out->flops.emplace());
  if (key == "bytes") return cursor->read_number(&out->traffic.emplace());
  if (key == "us") return cursor->read_number(&out->microseconds.emplace());
  return cursor->skip_value();
}

std::string quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

template <class Number>
void append_figure(const char* key, Number value, std::string* out) {
  char digits[32];
  const auto end = std::to_chars(digits, digits + sizeof digits, value).ptr;
  out->append(key).append(digits, end);
}

void append_ids(const char* key, const std::vector<std::int64_t>& ids, std::string* out) {
  out->append(key);
  const char* before = "[";
  for (const std::int64_t id : ids) {
    append_figure(before, id, out);
    before = ",";
  }
  out->append(ids.empty() ? "[]" : "]");
}

void append_texts(const char* key, const std::vector<std::string>& texts, std::string* out) {
  out->append(key);
  const char* before = "[";
  for (const std::string& text : texts) {
    out->append(before).append(quoted(text));
    before = ",";
  }
  out->push_back(']');
}

}  // namespace

std::string parse_event_line(std::string_view line, EventFields* out) {
  out->clear();
  JsonCursor cursor(line);
  std::string key;
  if (cursor.enter_object()) {
    for (std::string_view next; cursor.next_key(&next);) {
      key = next;
      if (!parse_field(next, &cursor, out)) break;
      key.clear();
    }
  }
  if (!cursor.failed() && cursor.at_end()) return "";
  const std::string where = " at column " + std::to_string(cursor.column());
  return "not a valid event" + where + (key.empty() ? "" : ", field \"" + key + "\"") + ": " + cursor.error();
}

void append_event_line(const EventFields& fields, std::string* out) {
  out->append("{\"e\":").append(quoted(fields.kind));
  if (!fields.name.empty()) out->append(",\"k\":").append(quoted(fields.name));
  if (fields.buffer) append_figure(",\"b\":", *fields.buffer, out);
  if (fields.bytes) append_figure(",\"n\":", *fields.bytes, out);
  if (fields.kind == "op" || !fields.reads.empty()) append_ids(",\"r\":", fields.reads, out);
  if (fields.kind == "op" || !fields.writes.empty()) append_ids(",\"w\":", fields.writes, out);
  if (fields.flops) append_figure(",\"flops\":", *fields.flops, out);
  if (fields.traffic) append_figure(",\"bytes\":", *fields.traffic, out);
  if (fields.microseconds) append_figure(",\"us\":", *fields.microseconds, out);
  if (fields.stream) append_figure(",\"s\":", *fields.stream, out);
  if (fields.device) append_figure(",\"d\":", *fields.device, out);
  if (fields.thread) append_figure(",\"thread\":", *fields.thread, out);
  if (!fields.tag.empty()) out->append(",\"tag\":").append(quoted(fields.tag));
  if (fields.index) append_figure(",\"i\":", *fields.index, out);
  if (fields.choice) append_figure(",\"c\":", *fields.choice, out);
  if (!fields.alternative.empty()) out->append(",\"a\":").append(quoted(fields.alternative));
  if (!fields.alternatives.empty()) append_texts(",\"of\":", fields.alternatives, out);
  if (fields.slices) append_figure(",\"slices\":", *fields.slices, out);
  if (!fields.split.empty()) append_ids(",\"split\":", fields.split, out);
  out->push_back('}');
}

}  // namespace thermocline
