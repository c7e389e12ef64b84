// SPDX-License-Identifier: Apache-2.0
#include "tool/report_data.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tool/report_classes.h"
#include "tool/splits.h"

namespace thermocline {
namespace {

using nlohmann::ordered_json;

class RunWriter {
 public:
  explicit RunWriter(const ReportedRun& run)
      : run_(run), timeline_(run.replayed.timeline), window_(last_steps(run.replayed.timeline, run.shown_steps)) {
    for (const std::string& name : run.replayed.trace.names) {
      classes_.push_back(report_class(name));
    }
  }

  std::string text() {
    ordered_json out = {{"title", std::filesystem::path(run_.replayed.trace.path).filename().string()},
                        {"device", run_.replayed.profile->title},
                        {"policy", run_.replayed.policy},
                        {"recompute", run_.replayed.recomputes ? "auto" : "off"},
                        {"budget", run_.replayed.budget},
                        {"length", tenths(window_.end_us)},
                        {"stepEnds", step_ends()},
                        {"firstOperator", window_.begin},
                        {"names", run_.replayed.trace.names},
                        {"tags", run_.replayed.trace.tags},
                        {"opClass", classes_},
                        {"classes", report_class_names()},
                        {"summary", summary()},
                        {"learned", timeline_.result.statistics.plans > 0},
                        {"steps", steps()}};
    const EngineStatistics& end = timeline_.result.statistics;
    out["pinned"] = {{"buffers", end.pinned_buffers}, {"bytes", end.pinned_bytes}};
    out["fragmentation"] = {{"blocks", end.block_bytes}, {"live", end.live_bytes}, {"free", end.free_mapped_bytes}};
    out["reasons"] = {{"out", kEvictReasonNames}, {"in", kFetchReasonNames}};
    out["minOffload"] = run_.replayed.min_offload_bytes;
    out["ops"] = operators();
    out["buffers"] = buffers();
    write_copies(&out);
    if (run_.replayed.recomputes) write_recomputing(&out);
    return out.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
  }

 private:
  std::int64_t tenths(double us) const { return std::llround((us - window_.begin_us) * 10); }
  std::int64_t clamped(double us) const { return tenths(std::clamp(us, window_.begin_us, window_.end_us)); }

  ordered_json step_ends() const {
    ordered_json ends = ordered_json::array();
    for (std::size_t i = window_.first_step; i < timeline_.step_end_us.size(); ++i) {
      ends.push_back(tenths(timeline_.step_end_us[i]));
    }
    return ends;
  }

  ordered_json summary() const {
    const ReplayStep& last = timeline_.result.steps.back();
    return {{"step_ms", run_.step_ms},
            {"compute_ms", run_.compute_ms},
            {"slowdown", run_.step_ms / run_.compute_ms},
            {"bound_ms", run_.bound_ms ? ordered_json(*run_.bound_ms) : ordered_json(nullptr)},
            {"peak_live", run_.replayed.unsplit().peak_live_bytes},
            {"split", split_text(run_.replayed.unsplit(), run_.replayed.too_large)},
            {"evicted", last.evicted_bytes},
            {"restored", last.restored_bytes},
            {"peak_host", timeline_.result.statistics.peak_host_bytes}};
  }

  ordered_json steps() const {
    ordered_json out = ordered_json::array();
    for (std::size_t i = 0; i < timeline_.result.steps.size(); ++i) {
      const ReplayStep& step = timeline_.result.steps[i];
      out.push_back({{"index", i},
                     {"ms", step.ms},
                     {"out", step.evicted_bytes},
                     {"in", step.restored_bytes},
                     {"maps", step.maps},
                     {"again_ms", static_cast<double>(step.recomputed_ns) * 1e-6},
                     {"shown", i >= window_.first_step}});
    }
    return out;
  }

  ordered_json operators() const {
    std::vector<std::int64_t> times, durations, names, held, evicted, dropped, part, parts;
    // Streams overlap, but a lane is drawn from left to right.
    std::vector<std::uint32_t> order(window_.end - window_.begin);
    for (std::uint32_t i = 0; i < order.size(); ++i) order[i] = window_.begin + i;
    std::ranges::stable_sort(order, {}, [this](std::uint32_t i) { return timeline_.operators[i].begin_us; });
    std::int64_t before = 0;
    for (const std::uint32_t i : order) {
      const TimelineOperator& op = timeline_.operators[i];
      const std::int64_t begin = tenths(op.begin_us);
      times.push_back(begin - before);
      before = begin;
      durations.push_back(tenths(op.end_us) - begin);
      const TraceOperator& shown = run_.replayed.trace.operators[op.op];
      names.push_back(shown.name);
      part.push_back(shown.part);
      parts.push_back(shown.parts);
      held.push_back(static_cast<std::int64_t>(op.device_bytes / kMiB));
      evicted.push_back(static_cast<std::int64_t>((op.nonresident_bytes - op.dropped_bytes) / kMiB));
      dropped.push_back(static_cast<std::int64_t>(op.dropped_bytes / kMiB));
    }
    ordered_json out = {{"t", times}, {"d", durations}, {"n", names}, {"held", held}, {"evicted", evicted}};
    if (run_.replayed.whole) out.update({{"part", part}, {"parts", parts}});
    if (run_.replayed.recomputes) out["dropped"] = dropped;
    return out;
  }

  std::uint32_t name_of(const TimelineOperator& op) const { return run_.replayed.trace.operators[op.op].name; }

  ordered_json buffers() {
    std::vector<std::uint64_t> ids, bytes, uses;
    std::vector<std::int64_t> times, lives, classes, producers;
    std::vector<std::uint32_t> tags;
    for (std::uint32_t i = 0; i < timeline_.buffers.size(); ++i) {
      const TimelineBuffer& b = timeline_.buffers[i];
      if (b.end_us < window_.begin_us || b.begin_us > window_.end_us) continue;
      shown_[i] = static_cast<std::int64_t>(ids.size());
      ids.push_back(b.id);
      bytes.push_back(b.bytes);
      uses.push_back(b.uses.size());
      tags.push_back(b.tag);
      times.push_back(clamped(b.begin_us));
      lives.push_back(clamped(b.end_us) - times.back());
      const bool has_producer = b.producer != kNoIndex;
      const std::uint32_t name = has_producer ? name_of(timeline_.operators[b.producer]) : 0;
      classes.push_back(has_producer ? classes_[name] : 0);
      producers.push_back(has_producer ? static_cast<std::int64_t>(name) : -1);
    }
    return {{"id", ids},    {"n", bytes},     {"t", times}, {"d", lives},
            {"c", classes}, {"p", producers}, {"u", uses},  {"g", tags}};
  }

  // Index in the page's list of names; -1: unknown.
  static std::int64_t reason_of(const TimelineCopy& copy) {
    const std::span<const char* const> names =
        copy.to_host ? std::span<const char* const>(kEvictReasonNames) : kFetchReasonNames;
    const auto found = std::ranges::find(names, std::string_view(copy.reason));
    return found == names.end() ? -1 : found - names.begin();
  }

  void write_copies(ordered_json* out) const {
    struct Lane {
      std::vector<std::int64_t> times, durations, buffers, restores, reasons;
      std::vector<std::uint64_t> bytes;
      std::int64_t before = 0;
    };
    Lane lanes[2];
    std::unordered_map<std::uint32_t, std::int64_t> places;  // of copies out: index in their lane
    for (std::uint32_t i = 0; i < timeline_.copies.size(); ++i) {
      const TimelineCopy& copy = timeline_.copies[i];
      if (copy.end_us < window_.begin_us || copy.begin_us > window_.end_us) continue;
      Lane& lane = lanes[copy.to_host ? 0 : 1];
      const std::int64_t begin = clamped(copy.begin_us);
      if (copy.to_host) places[i] = static_cast<std::int64_t>(lane.times.size());
      lane.times.push_back(begin - lane.before);
      lane.before = begin;
      lane.durations.push_back(clamped(copy.end_us) - begin);
      lane.bytes.push_back(copy.bytes);
      lane.buffers.push_back(row_of(copy.buffer));
      lane.reasons.push_back(reason_of(copy));
      const auto place = places.find(copy.restores);
      lane.restores.push_back(place == places.end() ? -1 : place->second);
    }
    for (const bool to_host : {true, false}) {
      const Lane& lane = lanes[to_host ? 0 : 1];
      (*out)[to_host ? "out" : "in"] = {{"t", lane.times},   {"d", lane.durations}, {"n", lane.bytes},
                                        {"b", lane.buffers}, {"r", lane.restores},  {"w", lane.reasons}};
    }
  }

  std::int64_t row_of(std::uint32_t buffer) const {
    const auto shown = shown_.find(buffer);
    return shown == shown_.end() ? -1 : shown->second;
  }

  // A group is what runs again in a row, and the contents that it makes.
  void write_recomputing(ordered_json* out) const {
    std::vector<std::int64_t> times, durations, names, reasons, groups, before;
    std::int64_t last = 0;
    for (const TimelineRerun& rerun : timeline_.reruns) {
      if (rerun.end_us < window_.begin_us || rerun.begin_us >= window_.end_us) continue;
      const TimelineRecomputation& group = timeline_.recomputations[rerun.recomputation];
      const std::int64_t begin = clamped(rerun.begin_us);
      times.push_back(begin - std::exchange(last, begin));
      durations.push_back(clamped(rerun.end_us) - begin);
      names.push_back(run_.replayed.trace.operators[rerun.op].name);
      reasons.push_back(std::ranges::find(kRecomputeReasonNames, std::string_view(group.reason)) -
                        kRecomputeReasonNames.begin());
      groups.push_back(rerun.recomputation);
      before.push_back(group.before);
    }
    (*out)["again"] = {{"t", times}, {"d", durations}, {"n", names}, {"w", reasons}, {"k", groups}, {"before", before}};
    (*out)["reasons"]["again"] = kRecomputeReasonNames;
    write_drops(out);
  }

  void write_drops(ordered_json* out) const {
    const TimelineWindow last = last_steps(timeline_, 1);
    const simulator::Profile& device = *run_.replayed.profile;
    std::vector<std::int64_t> times, durations, buffers, groups, copies;
    std::vector<std::uint64_t> bytes;
    std::uint64_t unneeded = 0;
    for (const TimelineDrop& drop : timeline_.drops) {
      if (drop.after >= last.begin && drop.after < last.end && drop.returned == kNoIndex) ++unneeded;
      if (drop.end_us < window_.begin_us || drop.begin_us > window_.end_us) continue;
      times.push_back(clamped(drop.begin_us));
      durations.push_back(clamped(drop.end_us) - times.back());
      bytes.push_back(drop.bytes);
      buffers.push_back(row_of(drop.buffer));
      groups.push_back(drop.returned == kNoIndex ? -1 : static_cast<std::int64_t>(drop.returned));
      const double size = static_cast<double>(drop.bytes);
      copies.push_back(std::llround((size / device.link_to_host.value + size / device.link_to_device.value) * 1e7));
    }
    (*out)["drops"] = {{"t", times}, {"d", durations}, {"n", bytes}, {"b", buffers}, {"k", groups}, {"copies", copies}};
    const ReplayStep& step = timeline_.result.steps.back();
    (*out)["summary"]["dropped"] = {
        {"contents", step.dropped_buffers}, {"bytes", step.dropped_bytes}, {"unneeded", unneeded}};
    (*out)["summary"]["again"] = {{"operators", step.recomputed_operations},
                                  {"ms", static_cast<double>(step.recomputed_ns) * 1e-6}};
  }

  const ReportedRun& run_;
  const ReplayTimeline& timeline_;
  const TimelineWindow window_;
  std::vector<int> classes_;                               // by name
  std::unordered_map<std::uint32_t, std::int64_t> shown_;  // by buffer of the timeline: row in the page's table
};

}  // namespace

std::string report_json(const ReportedRun& run) { return RunWriter(run).text(); }

}  // namespace thermocline
