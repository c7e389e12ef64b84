// SPDX-License-Identifier: Apache-2.0
#include "tool/report_data.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tool/report_classes.h"

namespace thermocline {
namespace {

using nlohmann::ordered_json;

class RunWriter {
 public:
  explicit RunWriter(const ReportedRun& run)
      : run_(run), story_(run.told.story), window_(last_steps(run.told.story, run.shown_steps)) {
    for (const std::string& name : run.told.trace.names) {
      classes_.push_back(report_class(name));
    }
  }

  std::string text() {
    ordered_json out = {{"title", std::filesystem::path(run_.told.trace.path).filename().string()},
                        {"device", run_.told.profile->title},
                        {"policy", run_.told.policy},
                        {"budget", run_.told.budget},
                        {"length", tenths(window_.end_us)},
                        {"stepEnds", step_ends()},
                        {"firstOperator", window_.begin},
                        {"names", run_.told.trace.names},
                        {"tags", run_.told.trace.tags},
                        {"opClass", classes_},
                        {"classes", report_class_names()},
                        {"summary", summary()},
                        {"learned", story_.result.statistics.plans > 0},
                        {"steps", steps()}};
    const EngineStatistics& end = story_.result.statistics;
    out["pinned"] = {{"buffers", end.pinned_buffers}, {"bytes", end.pinned_bytes}};
    out["fragmentation"] = {{"blocks", end.block_bytes}, {"live", end.live_bytes}, {"free", end.free_mapped_bytes}};
    out["reasons"] = {{"out", kEvictReasonNames}, {"in", kFetchReasonNames}};
    out["minOffload"] = run_.told.min_offload_bytes;
    out["ops"] = operators();
    out["buffers"] = buffers();
    write_copies(&out);
    return out.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
  }

 private:
  std::int64_t tenths(double us) const { return std::llround((us - window_.begin_us) * 10); }
  std::int64_t clamped(double us) const { return tenths(std::clamp(us, window_.begin_us, window_.end_us)); }

  ordered_json step_ends() const {
    ordered_json ends = ordered_json::array();
    for (std::size_t i = window_.first_step; i < story_.step_end_us.size(); ++i) {
      ends.push_back(tenths(story_.step_end_us[i]));
    }
    return ends;
  }

  ordered_json summary() const {
    const ReplayStep& last = story_.result.steps.back();
    return {{"step_ms", run_.step_ms},
            {"compute_ms", run_.compute_ms},
            {"slowdown", run_.step_ms / run_.compute_ms},
            {"bound_ms", run_.bound_ms ? ordered_json(*run_.bound_ms) : ordered_json(nullptr)},
            {"peak_live", run_.told.trace.peak_live_bytes},
            {"evicted", last.evicted_bytes},
            {"restored", last.restored_bytes},
            {"peak_host", story_.result.statistics.peak_host_bytes}};
  }

  ordered_json steps() const {
    ordered_json out = ordered_json::array();
    for (std::size_t i = 0; i < story_.result.steps.size(); ++i) {
      const ReplayStep& step = story_.result.steps[i];
      out.push_back({{"index", i},
                     {"ms", step.ms},
                     {"out", step.evicted_bytes},
                     {"in", step.restored_bytes},
                     {"maps", step.maps},
                     {"shown", i >= window_.first_step}});
    }
    return out;
  }

  ordered_json operators() const {
    std::vector<std::int64_t> times, durations, names, held, evicted;
    // Streams overlap, but a lane is drawn from left to right.
    std::vector<std::uint32_t> order(window_.end - window_.begin);
    for (std::uint32_t i = 0; i < order.size(); ++i) order[i] = window_.begin + i;
    std::ranges::stable_sort(order, {}, [this](std::uint32_t i) { return story_.operators[i].begin_us; });
    std::int64_t before = 0;
    for (const std::uint32_t i : order) {
      const StoryOperator& op = story_.operators[i];
      const std::int64_t begin = tenths(op.begin_us);
      times.push_back(begin - before);
      before = begin;
      durations.push_back(tenths(op.end_us) - begin);
      names.push_back(op.name);
      held.push_back(static_cast<std::int64_t>(op.device_bytes / kMiB));
      evicted.push_back(static_cast<std::int64_t>(op.nonresident_bytes / kMiB));
    }
    return {{"t", times}, {"d", durations}, {"n", names}, {"held", held}, {"evicted", evicted}};
  }

  ordered_json buffers() {
    std::vector<std::uint64_t> ids, bytes, uses;
    std::vector<std::int64_t> times, lives, classes, producers;
    std::vector<std::uint32_t> tags;
    for (std::uint32_t i = 0; i < story_.buffers.size(); ++i) {
      const StoryBuffer& b = story_.buffers[i];
      if (b.end_us < window_.begin_us || b.begin_us > window_.end_us) continue;
      shown_[i] = static_cast<std::int64_t>(ids.size());
      ids.push_back(b.id);
      bytes.push_back(b.bytes);
      uses.push_back(b.uses.size());
      tags.push_back(b.tag);
      times.push_back(clamped(b.begin_us));
      lives.push_back(clamped(b.end_us) - times.back());
      const bool has_producer = b.producer != kNobody;
      const std::uint32_t name = has_producer ? story_.operators[b.producer].name : 0;
      classes.push_back(has_producer ? classes_[name] : 0);
      producers.push_back(has_producer ? static_cast<std::int64_t>(name) : -1);
    }
    return {{"id", ids},    {"n", bytes},     {"t", times}, {"d", lives},
            {"c", classes}, {"p", producers}, {"u", uses},  {"g", tags}};
  }

  // Index in the page's list of names; -1: unknown.
  static std::int64_t reason_of(const StoryCopy& copy) {
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
    for (std::uint32_t i = 0; i < story_.copies.size(); ++i) {
      const StoryCopy& copy = story_.copies[i];
      if (copy.end_us < window_.begin_us || copy.begin_us > window_.end_us) continue;
      Lane& lane = lanes[copy.to_host ? 0 : 1];
      const std::int64_t begin = clamped(copy.begin_us);
      if (copy.to_host) places[i] = static_cast<std::int64_t>(lane.times.size());
      lane.times.push_back(begin - lane.before);
      lane.before = begin;
      lane.durations.push_back(clamped(copy.end_us) - begin);
      lane.bytes.push_back(copy.bytes);
      const auto shown = shown_.find(copy.buffer);
      lane.buffers.push_back(shown == shown_.end() ? -1 : shown->second);
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

  const ReportedRun& run_;
  const Story& story_;
  const StoryWindow window_;
  std::vector<int> classes_;                               // by name
  std::unordered_map<std::uint32_t, std::int64_t> shown_;  // by buffer of the story: row in the page's table
};

}  // namespace

std::string report_json(const ReportedRun& run) { return RunWriter(run).text(); }

}  // namespace thermocline
