// SPDX-License-Identifier: Apache-2.0
#include "hooks/relaunch/kernel_verdicts.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "driver/quantity.h"
#include "hooks/relaunch/known_launch.h"
#include "offload/engine/operation_name.h"
#include "offload/statistics.h"

namespace thermocline {
namespace {

// "(512, 1, 1)".
std::string text_of(const std::uint64_t (&size)[3]) {
  return "(" + std::to_string(size[0]) + ", " + std::to_string(size[1]) + ", " + std::to_string(size[2]) + ")";
}

std::string text_of(const std::optional<OtherShape>& other) {
  std::string text = "launched with a shape or sizes that the proof is not of";
  if (!other) return text;
  text += ", as grid " + text_of(other->shape.blocks) + " of blocks " + text_of(other->shape.threads);
  if (other->parameter > 0) {
    text += ", for what it stores through parameter " + std::to_string(other->parameter) + " of " +
            std::to_string(other->parameters);
  }
  return text;
}

std::string text_of(LaunchVerdict verdict, const RerunRefusal& refused, const std::optional<OtherShape>& other) {
  switch (verdict) {
    case LaunchVerdict::kMayRunAgain:
      return "";
    case LaunchVerdict::kOtherCode:
    case LaunchVerdict::kNotProven:
      return refused.text();
    case LaunchVerdict::kOtherLayout:
      return "launched with its parameters in one block, or with others than its PTX has";
    case LaunchVerdict::kSpecial:
      return "launched with attributes, cooperatively or in clusters";
    case LaunchVerdict::kOtherShape:
      return text_of(other);
    case LaunchVerdict::kExchange:
      return "its threads exchange values, in an order that is not proven for this shape and these sizes";
    case LaunchVerdict::kOtherMemory:
      return "it accesses memory that is not the library's, or that holds pointers";
    case LaunchVerdict::kAliased:
      return "what it writes is given to it twice, or it may read there by a pointer to the buffer behind";
    case LaunchVerdict::kByAddress:
      return "it may compute with addresses";
    case LaunchVerdict::kOutside:
      return "it writes past its buffer or from the middle of one, or reads before the begin of one";
    case LaunchVerdict::kMayWait:
      return "it may wait in a loop for others to write";
  }
  return "";
}

void sort(std::vector<KernelVerdict>* verdicts) {
  std::ranges::stable_sort(*verdicts, std::ranges::greater(), &KernelVerdict::all_launches);
}

const char* name_of(KernelTrial::State state) {
  switch (state) {
    case KernelTrial::State::kOnTrial:
      return "on trial";
    case KernelTrial::State::kPromoted:
      return "promoted";
    case KernelTrial::State::kGivenUp:
      return "given up";
    case KernelTrial::State::kDemoted:
      return "demoted";
  }
  return "";
}

// The text for a kernel whose launches may run again according to its code.
std::string trial_text(const KernelVerdict& one) {
  std::string text = std::string(name_of(one.state)) + ", rehearsed " + quantity(one.rehearsed, "time") +
                     ", verified " + quantity(one.verified, "time") + " in use";
  if (one.mismatched > 0) text += ", different " + quantity(one.mismatched, "time");
  return text;
}

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += static_cast<unsigned char>(c) < 0x20 ? '?' : c;
  }
  return out + '"';
}

}  // namespace

void KernelVerdict::add(const KernelVerdict& other) {
  std::ranges::transform(launches, other.launches, launches.begin(), std::plus());
  reruns += other.reruns;
  rehearsed += other.rehearsed;
  verified += other.verified;
  mismatched += other.mismatched;
  state = std::max(state, other.state);
  if (!other_shape) other_shape = other.other_shape;
}

std::uint64_t KernelVerdict::all_launches() const {
  return std::accumulate(launches.begin(), launches.end(), std::uint64_t{0});
}

std::string KernelVerdict::why_not() const {
  const auto most = std::max_element(launches.begin() + 1, launches.end());
  if (*most == 0) return "";
  return text_of(static_cast<LaunchVerdict>(most - launches.begin()), refused, other_shape);
}

std::string kernel_verdicts_text(std::vector<KernelVerdict> verdicts, std::size_t most) {
  if (verdicts.empty()) return "";
  sort(&verdicts);
  const auto may = std::ranges::count_if(verdicts, [](const KernelVerdict& one) { return one.reruns_allowed() > 0; });
  std::string text = "thermocline: to recompute what they made, " + std::to_string(may) + " of " +
                     quantity(verdicts.size(), "kernel") + " may run again\n";
  for (std::size_t i = 0; i < std::min(most, verdicts.size()); ++i) {
    const KernelVerdict& one = verdicts[i];
    const std::string why = one.why_not();
    text += "  " + readable_kernel_name(one.name, 48) + ": " + std::to_string(one.reruns_allowed()) + " of " +
            quantity(one.all_launches(), "launch", "launches") + ", ran again " + quantity(one.reruns, "time") +
            (one.reruns_allowed() == 0 ? "" : ", " + trial_text(one)) +
            (why.empty() ? "" : (one.reruns_allowed() == 0 ? ": " : "; the others: ") + why) + "\n";
  }
  if (verdicts.size() > most) text += "  and " + std::to_string(verdicts.size() - most) + " more (--stats=json)\n";
  return text;
}

std::string kernel_verdicts_json(std::vector<KernelVerdict> verdicts) {
  sort(&verdicts);
  std::string text = "\"kernels\": [";
  for (const KernelVerdict& one : verdicts) {
    if (text.back() != '[') text += ", ";
    const std::string why = one.why_not();
    text += "{\"name\": " + quoted(readable_kernel_name(one.name)) + ", \"symbol\": " + quoted(one.name) + ", " +
            arguments_json(one.arguments) + ", \"evidence\": " + (one.unknown ? "null" : "\"code\"") +
            ", \"proven\": " + (one.refused ? "false" : "true") +
            ", \"launches\": " + std::to_string(one.all_launches()) +
            ", \"may_run_again\": " + std::to_string(one.reruns_allowed()) +
            ", \"reruns\": " + std::to_string(one.reruns) + ", \"rehearsed\": " + std::to_string(one.rehearsed) +
            ", \"verified\": " + std::to_string(one.verified) + ", \"mismatched\": " + std::to_string(one.mismatched) +
            ", \"trial\": " + (one.reruns_allowed() == 0 ? "null" : quoted(name_of(one.state))) +
            ", \"why_not\": " + (why.empty() ? "null" : quoted(why)) + "}";
  }
  return text + "]";
}

void add_rerun_counts(EngineStatistics* statistics) {
  statistics->rerunnable_launches = launches_with(LaunchVerdict::kMayRunAgain);
  for (int verdict = 1; verdict < kLaunchVerdicts; ++verdict)
    statistics->refused_reruns += launches_with(static_cast<LaunchVerdict>(verdict));
}

}  // namespace thermocline
