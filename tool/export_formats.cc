// SPDX-License-Identifier: Apache-2.0
#include "tool/export_formats.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

namespace thermocline {
namespace {

using nlohmann::json;

constexpr int kStepLane = 1, kToDeviceLane = 2, kToHostLane = 3, kFirstStreamLane = 10;

class PerfettoWriter {
 public:
  explicit PerfettoWriter(OutputFile& out) : out_(out) {
    out_.write("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n");
  }

  void event(json event) {
    event["pid"] = 1;
    out_.write((is_first_ ? "" : ",\n") + event.dump(-1, ' ', false, json::error_handler_t::replace));
    is_first_ = false;
  }
  void lane(int lane, const std::string& name) {
    event({{"ph", "M"}, {"tid", lane}, {"name", "thread_name"}, {"args", {{"name", name}}}});
    event({{"ph", "M"}, {"tid", lane}, {"name", "thread_sort_index"}, {"args", {{"sort_index", lane}}}});
  }
  void slice(int lane, const std::string& name, double begin_us, double end_us, json arguments) {
    event({{"ph", "X"},
           {"tid", lane},
           {"name", name},
           {"ts", begin_us},
           {"dur", end_us - begin_us},
           {"args", std::move(arguments)}});
  }
  void counter(const char* name, double at_us, Bytes bytes) {
    event({{"ph", "C"}, {"name", name}, {"ts", at_us}, {"args", {{"bytes", bytes}}}});
  }
  void finish() { out_.write("\n]}\n"); }

 private:
  OutputFile& out_;
  bool is_first_ = true;
};

void write_copies(const TimelineReplay& replayed, PerfettoWriter& writer) {
  const ReplayTimeline& timeline = replayed.timeline;
  // Only copies out whose bytes are fetched again begin a flow.
  std::vector<bool> returns(timeline.copies.size(), false);
  for (const TimelineCopy& copy : timeline.copies) {
    if (copy.restores != kNoIndex) returns[copy.restores] = true;
  }
  for (std::size_t i = 0; i < timeline.copies.size(); ++i) {
    const TimelineCopy& copy = timeline.copies[i];
    const int lane = copy.to_host ? kToHostLane : kToDeviceLane;
    json arguments = {{"bytes", copy.bytes}};
    std::string name = copy.to_host ? "evict" : "restore";
    arguments["reason"] = copy.reason;
    if (copy.buffer != kNoIndex) {
      const TimelineBuffer& buffer = timeline.buffers[copy.buffer];
      name += " buffer " + std::to_string(buffer.id);
      arguments["buffer"] = buffer.id;
      arguments["buffer_bytes"] = buffer.bytes;
      arguments["producer"] = producer_of(replayed, buffer);
    }
    writer.slice(lane, name, copy.begin_us, copy.end_us, std::move(arguments));
    const auto flow = [&](const char* phase, std::size_t id) {
      json event = {{"ph", phase},      {"tid", lane}, {"name", "evicted"},
                    {"cat", "offload"}, {"id", id},    {"ts", copy.begin_us}};
      if (*phase == 'f') event["bp"] = "e";
      writer.event(std::move(event));
    };
    if (copy.to_host && returns[i]) flow("s", i);
    if (copy.restores != kNoIndex) flow("f", copy.restores);
  }
}

int rerun_lane(const TimelineReplay& replayed, std::uint32_t stream) {
  return kFirstStreamLane + static_cast<int>(replayed.trace.streams.size() + stream);
}

json contents_json(const TimelineReplay& replayed, const TimelineRecomputation& made) {
  json contents = json::array();
  for (const std::uint32_t d : made.drops) {
    const TimelineDrop& drop = replayed.timeline.drops[d];
    json content = {{"bytes", drop.bytes}, {"dropped_us", drop.begin_us}};
    if (drop.buffer != kNoIndex) {
      content["buffer"] = replayed.timeline.buffers[drop.buffer].id;
      content["producer"] = producer_of(replayed, replayed.timeline.buffers[drop.buffer]);
    }
    contents.push_back(std::move(content));
  }
  return contents;
}

// Each operator that runs again, by stream, since slices of one lane must not overlap.
void write_reruns(const TimelineReplay& replayed, PerfettoWriter& writer) {
  const ReplayTimeline& timeline = replayed.timeline;
  for (const TimelineRerun& rerun : timeline.reruns) {
    const TimelineRecomputation& made = timeline.recomputations[rerun.recomputation];
    writer.slice(
        rerun_lane(replayed, rerun.stream), replayed.trace.title_of(replayed.trace.operators[rerun.op]), rerun.begin_us,
        rerun.end_us,
        {{"reason", made.reason}, {"before_operator", made.before}, {"contents", contents_json(replayed, made)}});
  }
}

void write_lanes(const TimelineReplay& replayed, PerfettoWriter& writer) {
  writer.event({{"ph", "M"}, {"name", "process_name"}, {"args", {{"name", std::string(replayed.profile->name)}}}});
  writer.lane(kStepLane, "steps");
  writer.lane(kToDeviceLane, "link to device");
  writer.lane(kToHostLane, "link to host");
  for (std::size_t s = 0; s < replayed.trace.streams.size(); ++s) {
    writer.lane(kFirstStreamLane + static_cast<int>(s), "stream " + std::to_string(replayed.trace.streams[s]));
  }
  for (std::uint32_t s = 0; replayed.recomputes && s < replayed.trace.streams.size(); ++s) {
    writer.lane(rerun_lane(replayed, s), "recomputed in stream " + std::to_string(replayed.trace.streams[s]));
  }
}

// The reason why the contents of a drop were recomputed.
std::string fate_of(const ReplayTimeline& timeline, const TimelineDrop& drop) {
  return drop.returned == kNoIndex ? "not_needed" : timeline.recomputations[drop.returned].reason;
}

std::string in_quotes(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + '"';
}

}  // namespace

std::string producer_of(const TimelineReplay& replayed, const TimelineBuffer& buffer) {
  const std::string tag = buffer.tag == 0 ? "" : " (" + replayed.trace.tags[buffer.tag] + ")";
  if (buffer.producer == kNoIndex) return "from before" + tag;
  return title_of(replayed, replayed.timeline.operators[buffer.producer]) + " at operator " +
         std::to_string(buffer.producer) + tag;
}

std::string title_of(const TimelineReplay& replayed, const TimelineOperator& op) {
  return replayed.trace.title_of(replayed.trace.operators[op.op]);
}

void export_perfetto(const TimelineReplay& replayed, OutputFile& out) {
  const ReplayTimeline& timeline = replayed.timeline;
  PerfettoWriter writer(out);
  write_lanes(replayed, writer);
  double began = 0;
  for (std::size_t i = 0; i < timeline.step_end_us.size(); ++i) {
    writer.slice(kStepLane, "step " + std::to_string(i), began, timeline.step_end_us[i],
                 {{"evicted_bytes", timeline.result.steps[i].evicted_bytes},
                  {"restored_bytes", timeline.result.steps[i].restored_bytes},
                  {"recomputed_operations", timeline.result.steps[i].recomputed_operations}});
    began = timeline.step_end_us[i];
  }
  for (std::size_t i = 0; i < timeline.operators.size(); ++i) {
    const TimelineOperator& op = timeline.operators[i];
    writer.slice(kFirstStreamLane + static_cast<int>(op.stream), title_of(replayed, op), op.begin_us, op.end_us,
                 {{"operator", i}});
    writer.counter("on the device", op.begin_us, op.device_bytes);
    writer.counter("evicted", op.begin_us, op.nonresident_bytes - op.dropped_bytes);
    if (replayed.recomputes) writer.counter("dropped", op.begin_us, op.dropped_bytes);
    writer.counter("budget", op.begin_us, replayed.budget);
  }
  Bytes live = 0;
  for (const TimelineChange& change : timeline.changes) {
    const Bytes bytes = timeline.buffers[change.buffer].bytes;
    live = change.begins ? live + bytes : live - bytes;
    writer.counter("live", change.at_us, live);
  }
  write_copies(replayed, writer);
  write_reruns(replayed, writer);
  writer.finish();
}

void export_csv(const TimelineReplay& replayed, OutputFile& out) {
  const ReplayTimeline& timeline = replayed.timeline;
  std::vector<std::pair<double, std::string>> rows;
  const auto add = [&](double at_us, const std::string& rest) { rows.emplace_back(at_us, rest); };
  char times[64];
  const auto duration = [&](double us) {
    std::snprintf(times, sizeof times, "%.3f", us);
    return std::string(times);
  };
  for (const TimelineChange& change : timeline.changes) {
    const TimelineBuffer& buffer = timeline.buffers[change.buffer];
    add(change.at_us, std::string(change.begins ? "alloc" : "free") + ",," + in_quotes(producer_of(replayed, buffer)) +
                          ",," + std::to_string(buffer.id) + "," + std::to_string(buffer.bytes) + ",,");
  }
  for (const TimelineOperator& op : timeline.operators) {
    add(op.begin_us, "operator," + duration(op.end_us - op.begin_us) + "," + in_quotes(title_of(replayed, op)) + "," +
                         std::to_string(replayed.trace.streams[op.stream]) + ",,," + std::to_string(op.device_bytes) +
                         "," + std::to_string(op.nonresident_bytes));
  }
  for (const TimelineCopy& copy : timeline.copies) {
    const std::string id = copy.buffer == kNoIndex ? "" : std::to_string(timeline.buffers[copy.buffer].id);
    add(copy.begin_us, std::string(copy.to_host ? "evict" : "restore") + "," + duration(copy.end_us - copy.begin_us) +
                           "," + in_quotes(copy.reason) + ",," + id + "," + std::to_string(copy.bytes) + ",,");
  }
  for (const TimelineDrop& drop : timeline.drops) {
    const std::string id = drop.buffer == kNoIndex ? "" : std::to_string(timeline.buffers[drop.buffer].id);
    add(drop.begin_us,
        "drop,," + in_quotes(fate_of(timeline, drop)) + ",," + id + "," + std::to_string(drop.bytes) + ",,");
  }
  for (const TimelineRerun& rerun : timeline.reruns) {
    add(rerun.begin_us, "rerun," + duration(rerun.end_us - rerun.begin_us) + "," +
                            in_quotes(replayed.trace.title_of(replayed.trace.operators[rerun.op])) + "," +
                            std::to_string(replayed.trace.streams[rerun.stream]) + ",,,,");
  }
  for (std::size_t i = 0; i < timeline.step_end_us.size(); ++i) {
    add(timeline.step_end_us[i], "step,," + in_quotes("step " + std::to_string(i)) + ",,,,,");
  }
  std::ranges::stable_sort(rows, {}, &std::pair<double, std::string>::first);
  out.write("time_us,event,duration_us,name,stream,buffer,bytes,device_bytes,nonresident_bytes\n");
  for (const auto& [at_us, rest] : rows) out.write(duration(at_us) + "," + rest + "\n");
}

}  // namespace thermocline
