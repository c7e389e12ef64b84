// SPDX-License-Identifier: Apache-2.0
#include "tool/refused_event.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "config/size.h"
#include "driver/printable.h"
#include "offload/engine/operation_name.h"
#include "tool/report_classes.h"

namespace thermocline {
namespace {

using nlohmann::ordered_json;

constexpr std::size_t kBuffersShown = 6;

struct NamedBuffer {
  std::uint32_t index;
  bool reads = false, writes = false;
};

// The buffers of the refused event, each once, the largest first.
std::vector<NamedBuffer> buffers_of(const Trace& trace, const RefusedEvent& event) {
  std::vector<NamedBuffer> all;
  if (event.kind == EventKind::kAllocate) return {{event.index}};
  if (event.kind != EventKind::kOperator) return all;
  const auto add = [&all](std::uint32_t buffer) -> NamedBuffer& {
    const auto found = std::ranges::find(all, buffer, &NamedBuffer::index);
    return found != all.end() ? *found : all.emplace_back(NamedBuffer{buffer});
  };
  const TraceOperator& op = trace.operators[event.index];
  for (const std::uint32_t buffer : trace.reads(op)) add(buffer).reads = true;
  for (const std::uint32_t buffer : trace.writes(op)) add(buffer).writes = true;
  std::ranges::stable_sort(all, std::greater<>(),
                           [&trace](const NamedBuffer& buffer) { return trace.buffers[buffer.index].bytes; });
  return all;
}

const char* direction_of(const NamedBuffer& buffer) {
  if (buffer.reads && buffer.writes) return " updated";
  return buffer.reads ? " read" : buffer.writes ? " written" : "";
}

// The number of the operator in its step, from 0, and the step's number of operators.
struct PlaceInStep {
  std::size_t place = 0, all = 0;
};
PlaceInStep place_of(const Trace& trace, std::uint32_t op) {
  PlaceInStep at;
  for (const StepSpan& step : trace.steps) {
    at = {};
    bool is_here = false;
    for (std::size_t e = step.begin; e < step.end; ++e) {
      if (trace.events[e].kind != EventKind::kOperator) continue;
      is_here |= trace.events[e].index == op;
      at.place += is_here ? 0 : 1;
      ++at.all;
    }
    if (is_here) break;
  }
  return at;
}

// The last operator before `op` that writes the buffer; no value: the file has none.
std::optional<std::uint32_t> producer_before(const Trace& trace, std::uint32_t buffer, std::uint32_t op) {
  for (std::uint32_t i = op; i-- > 0;) {
    const std::span<const std::uint32_t> written = trace.writes(trace.operators[i]);
    if (std::ranges::find(written, buffer) != written.end()) return i;
  }
  return std::nullopt;
}

std::string name_of_operator(const Trace& trace, std::uint32_t op) {
  return printable(readable_kernel_name(trace.names[trace.operators[op].name])) + trace.operators[op].part_text();
}

std::string describe(const Trace& trace, const RefusedEvent& event, const NamedBuffer& named) {
  const TraceBuffer& buffer = trace.buffers[named.index];
  std::string text = human_bytes(buffer.bytes) + direction_of(named) + ": buffer " + std::to_string(buffer.id);
  if (buffer.tag != 0) text += ", " + printable(trace.tags[buffer.tag]);
  if (!named.reads || event.kind != EventKind::kOperator) return text;
  if (const auto producer = producer_before(trace, named.index, event.index))
    text += ", from " + name_of_operator(trace, *producer) + " at operator " +
            std::to_string(place_of(trace, *producer).place);
  return text;
}

}  // namespace

std::string refused_place(const Trace& trace, const StepProgram& program, const ReplayResult& result) {
  if (!result.refused) return "";
  const RefusedEvent& event = *result.refused;
  const std::string step = "step " + std::to_string(event.step + 1) + " of " + std::to_string(program.steps);
  if (event.kind != EventKind::kOperator) return "an allocation in " + step;
  const PlaceInStep at = place_of(trace, event.index);
  const std::string name = name_of_operator(trace, event.index);
  const int what = report_class(trace.names[trace.operators[event.index].name]);
  return "operator " + std::to_string(at.place) + " of " + std::to_string(at.all) + " in " + step + ": " + name + " (" +
         report_class_names()[static_cast<std::size_t>(what)] + ")";
}

std::string refused_buffers(const Trace& trace, const ReplayResult& result, std::size_t indent) {
  if (!result.refused) return "";
  const std::vector<NamedBuffer> all = buffers_of(trace, *result.refused);
  std::string text;
  for (std::size_t i = 0; i < std::min(all.size(), kBuffersShown); ++i)
    text += std::string(indent, ' ') + describe(trace, *result.refused, all[i]) + "\n";
  if (all.size() > kBuffersShown)
    text += std::string(indent, ' ') + "and " + std::to_string(all.size() - kBuffersShown) + " smaller ones\n";
  return text;
}

std::string report_with_names(const Trace& trace, const StepProgram& program, const ReplayResult& result) {
  constexpr std::size_t kIndent = 9;  // as the report's lines
  const std::string place = refused_place(trace, program, result);
  if (place.empty()) return result.report;
  std::string report = result.report;
  const std::size_t advice = report.find("\n  do     ");
  return report.insert(advice == std::string::npos ? report.size() : advice + 1,
                       "  at     " + place + "\n" + refused_buffers(trace, result, kIndent));
}

ordered_json refused_json(const Trace& trace, const ReplayResult& result) {
  if (!result.refused) return nullptr;
  const RefusedEvent& event = *result.refused;
  ordered_json buffers = ordered_json::array();
  for (const NamedBuffer& named : buffers_of(trace, event)) {
    const TraceBuffer& buffer = trace.buffers[named.index];
    buffers.push_back({{"id", buffer.id},
                       {"bytes", buffer.bytes},
                       {"tag", trace.tags[buffer.tag]},
                       {"reads", named.reads},
                       {"writes", named.writes}});
  }
  ordered_json out = {{"step", event.step}};
  if (event.kind == EventKind::kOperator) {
    const TraceOperator& op = trace.operators[event.index];
    const std::string& name = trace.names[op.name];
    out["operator"] = {{"index", place_of(trace, event.index).place},
                       {"name", name},
                       {"class", report_class_names()[static_cast<std::size_t>(report_class(name))]}};
    if (op.parts > 0) out["operator"].update({{"part", op.part}, {"parts", op.parts}});
  } else {
    out["operator"] = nullptr;
  }
  out["buffers"] = std::move(buffers);
  return out;
}

}  // namespace thermocline
