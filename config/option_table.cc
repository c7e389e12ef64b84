// SPDX-License-Identifier: Apache-2.0
#include "config/option_table.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <filesystem>
#include <system_error>
#include <type_traits>
#include <vector>

#include "config/suggest.h"
#include "offload/options.h"
#include "offload/sharing/slice_watch.h"

namespace thermocline {
namespace {

constexpr std::uint64_t kNanosecondsASecond = 1'000'000'000;
constexpr auto kShortestSlice = std::chrono::duration_cast<Duration>(std::chrono::nanoseconds(SliceWatch::kShortestNs));

template <auto member>
void store(Settings& settings, const Value& value) {
  auto& field = settings.*member;
  using Field = std::remove_reference_t<decltype(field)>;
  if constexpr (std::is_same_v<Field, SizeSetting>) {
    field = value.size;
  } else if constexpr (std::is_same_v<Field, bool>) {
    field = value.flag;
  } else if constexpr (std::is_same_v<Field, unsigned>) {
    field = value.number;
  } else if constexpr (std::is_same_v<Field, std::vector<OperatorRule>>) {
    field = value.operators;
  } else if constexpr (std::is_same_v<Field, std::string>) {
    field = value.folder;
  } else if constexpr (std::is_same_v<Field, Duration>) {
    field = value.duration;
  } else if constexpr (std::is_same_v<Field, const PolicyEntry*>) {
    field = &kPolicies.at(static_cast<std::size_t>(value.choice));
  } else {
    field = static_cast<Field>(value.choice);
  }
}

template <auto member>
Value load(const Settings& settings) {
  const auto& field = settings.*member;
  using Field = std::remove_cvref_t<decltype(field)>;
  if constexpr (std::is_same_v<Field, SizeSetting>) {
    return {.size = field};
  } else if constexpr (std::is_same_v<Field, bool>) {
    return {.flag = field};
  } else if constexpr (std::is_same_v<Field, unsigned>) {
    return {.number = field};
  } else if constexpr (std::is_same_v<Field, std::vector<OperatorRule>>) {
    return {.operators = field};
  } else if constexpr (std::is_same_v<Field, std::string>) {
    return {.folder = field};
  } else if constexpr (std::is_same_v<Field, Duration>) {
    return {.duration = field};
  } else if constexpr (std::is_same_v<Field, const PolicyEntry*>) {
    return {.choice = static_cast<int>(field - kPolicies.data())};
  } else {
    return {.choice = static_cast<int>(field)};
  }
}

template <auto member>
constexpr Option option(const char* key, const char* variable, OptionType type, const char* default_text,
                        const char* doc, std::span<const Choice> choices = {}) {
  return {key, variable, type, default_text, doc, choices, &store<member>, &load<member>};
}

template <typename Enum>
constexpr Choice choice(const char* name, Enum value) {
  return {name, static_cast<int>(value)};
}

constexpr bool is_setting(const PolicyEntry& policy) { return !policy.for_comparison; }
constexpr auto kPolicyChoices = [] {
  std::array<Choice, std::ranges::count_if(kPolicies, is_setting)> choices{};
  std::size_t next = 0;
  for (std::size_t row = 0; row < kPolicies.size(); ++row) {
    if (is_setting(kPolicies[row])) choices[next++] = {kPolicies[row].name, static_cast<int>(row)};
  }
  return choices;
}();
// "What leaves the device and when: none (nothing), ..." of all rows of the table.
constexpr auto kPolicyDoc = [] {
  std::array<char, 512> text{};
  auto* end = text.data();
  const auto append = [&end](std::string_view more) { end = std::ranges::copy(more, end).out; };
  append("What leaves the device and when: ");
  for (const PolicyEntry& policy : kPolicies) {
    if (!is_setting(policy)) continue;
    if (&policy != kPolicies.data()) append(", ");
    append(policy.name);
    append(" (");
    append(policy.description);
    append(")");
  }
  append(".");
  return text;
}();
constexpr std::array kSafeties = {
    choice("strict", Safety::kStrict),
    choice("trusting", Safety::kTrusting),
};
constexpr std::array kHostFallbacks = {
    choice("off", HostFallback::kOff),
    choice("auto", HostFallback::kAuto),
    choice("full", HostFallback::kFull),
};
// If a choice has several names, the first one of a value is printed. A choice may also accept true or false.
constexpr std::array kStatsForms = {
    choice("off", StatsForm::kOff),   choice("table", StatsForm::kTable), choice("line", StatsForm::kLine),
    choice("json", StatsForm::kJson), choice("true", StatsForm::kTable),  choice("false", StatsForm::kOff),
};
constexpr std::array kAdvertised = {
    choice("budget", Advertise::kBudget),
    choice("device", Advertise::kDevice),
    choice("budget+host", Advertise::kBudgetAndHost),
};
constexpr std::array kDebugModes = {
    choice("off", DebugMode::kOff),
    choice("track", DebugMode::kTrack),
    choice("guard", DebugMode::kGuard),
};
constexpr std::array kRecomputes = {
    choice("off", Recompute::kOff),
    choice("auto", Recompute::kAuto),
};
constexpr std::array kDigestUses = {
    choice("off", DigestUse::kOff),
    choice("auto", DigestUse::kAuto),
};
constexpr std::array kUploadCopies = {
    choice("off", UploadCopies::kOff),
    choice("auto", UploadCopies::kAuto),
    choice("all", UploadCopies::kAll),
};
constexpr std::array kLogLevels = {
    choice("quiet", LogLevel::kQuiet), choice("error", LogLevel::kError), choice("warning", LogLevel::kWarning),
    choice("info", LogLevel::kInfo),   choice("debug", LogLevel::kDebug),
};

// The engine's default applies to every setting whose row has no other one.
constexpr EngineOptions kEngine;

template <std::size_t count, typename Enum>
constexpr const char* name_in(const std::array<Choice, count>& choices, Enum value) {
  for (const Choice& one : choices) {
    if (one.value == static_cast<int>(value)) return one.name;
  }
  return nullptr;
}

// A number of up to two digits and its unit.
struct ShortText {
  char text[8] = {};
};
constexpr ShortText short_text(std::uint64_t number, const char* unit) {
  ShortText made;
  char* at = made.text;
  if (number >= 10) *at++ = static_cast<char>('0' + number / 10);
  *at++ = static_cast<char>('0' + number % 10);
  while (*unit != '\0') *at++ = *unit++;
  return made;
}
static_assert(kEngine.low_water_percent < 100 && kEngine.clean_reserve_percent < 100);
static_assert(kEngine.min_offload_bytes % kMiB == 0 && kEngine.min_offload_bytes < 100 * kMiB);
static_assert(kEngine.idle_reserve_bytes % kMiB == 0 && kEngine.idle_reserve_bytes < 100 * kMiB);
static_assert(kEngine.idle_after_ns % kNanosecondsASecond == 0 && kEngine.idle_after_ns < 100 * kNanosecondsASecond);
constexpr ShortText kMinOffload = short_text(kEngine.min_offload_bytes / kMiB, "MiB");
constexpr ShortText kLowWater = short_text(kEngine.low_water_percent, "%");
constexpr ShortText kCleanReserve = short_text(kEngine.clean_reserve_percent, "%");
constexpr ShortText kIdleAfter = short_text(kEngine.idle_after_ns / kNanosecondsASecond, "s");
constexpr ShortText kIdleReserve = short_text(kEngine.idle_reserve_bytes / kMiB, "MiB");

constexpr std::array kOptions = {
    option<&Settings::budget>(
        "budget", "THERMOCLINE_BUDGET", OptionType::kBudget, "",
        "Most memory to hold on the device; a percentage is of the device's memory; shared: divided among this user's "
        "processes that say so (docs/processes.md). Unset: what is "
        "free when the program begins, but for a 64th (512 MiB at most) that the driver may need itself."),
    option<&Settings::share_minimum>(
        "share_minimum", "THERMOCLINE_SHARE_MINIMUM", OptionType::kSizeOrPercent, "10%",
        "With budget = \"shared\": what this process has at any time, whatever the others do; a percentage is of the "
        "device's memory."),
    option<&Settings::share_weight>("share_weight", "THERMOCLINE_SHARE_WEIGHT", OptionType::kNumber, "100",
                                    "With budget = \"shared\": by these, 1 to 10000, the processes that are active "
                                    "divide what the minimums leave."),
    option<&Settings::share_slice>(
        "share_slice", "THERMOCLINE_SHARE_SLICE", OptionType::kSlice, "off",
        "With budget = \"shared\": programs that are found to thrash together take turns on the device; this is the "
        "longest turn (200ms or more; 10s is a good choice); off: no turns (docs/processes.md)."),
    option<&Settings::policy>("policy", "THERMOCLINE_POLICY", OptionType::kChoice, kEngine.policy->name,
                              kPolicyDoc.data(), kPolicyChoices),
    option<&Settings::safety>("safety", "THERMOCLINE_SAFETY", OptionType::kChoice, name_in(kSafeties, kEngine.safety),
                              "When a live buffer's pages change hands: strict (when all submitted work has passed), "
                              "trusting (behind its copy "
                              "out; only for programs all of whose accesses are known).",
                              kSafeties),
    option<&Settings::host_fallback>(
        "host_fallback", "THERMOCLINE_HOST_FALLBACK", OptionType::kChoice, "auto",
        "What an evicted buffer's addresses lead to, for accesses that nobody sees: off (nowhere), auto (its copy on "
        "the host, where the device can map that), full (the same, and nothing moves while anything runs; slow). "
        "docs/host_fallback.md.",
        kHostFallbacks),
    option<&Settings::recompute>(
        "recompute", "THERMOCLINE_RECOMPUTE", OptionType::kChoice, name_in(kRecomputes, kEngine.recompute),
        "Whether a plan may drop contents and recompute them where that is cheaper than a copy: off, auto (in replays, "
        "and in programs whose kernels have PTX that shows that they may run again; no GPU has run this yet). "
        "docs/recompute.md.",
        kRecomputes),
    option<&Settings::digests>(
        "digests", "THERMOCLINE_DIGESTS", OptionType::kChoice, name_in(kDigestUses, kEngine.digests),
        "Whether a buffer that kernels may have written to is compared with its copy on the host before it is copied "
        "out again, by digests that the device computes: off, auto (where that pays). docs/directions.md.",
        kDigestUses),
    option<&Settings::upload_copies>("upload_copies", "THERMOCLINE_UPLOAD_COPIES", OptionType::kChoice,
                                     name_in(kUploadCopies, kEngine.upload_copies),
                                     "With digests: whether an upload leaves its contents in pinned memory, too, so "
                                     "that a buffer that is only read is "
                                     "never copied out: off, auto (uploads of pageable memory, once more is live than "
                                     "the budget), all (from the first "
                                     "one on, and uploads of pinned memory). docs/directions.md.",
                                     kUploadCopies),
    option<&Settings::host_limit>("host_limit", "THERMOCLINE_HOST_LIMIT", OptionType::kSizeOrPercent, "50%",
                                  "Most pinned host memory to take, for all devices of the process together; a "
                                  "percentage is of the machine's memory (docs/processes.md)."),
    option<&Settings::host_limit_shared>(
        "host_limit_shared", "THERMOCLINE_HOST_LIMIT_SHARED", OptionType::kSizeOrPercent, "",
        "Most pinned host memory that this user's processes on the machine take together; a percentage is of the "
        "machine's memory. Unset: each for itself (docs/processes.md)."),
    option<&Settings::host_spill>(
        "host_spill", "THERMOCLINE_HOST_SPILL", OptionType::kFolder, "",
        "A folder of a fast local disk: copies of evicted buffers that exceed host_limit go to a file there, which is "
        "gone when the program ends. Without host_fallback. Unset: off (docs/host_spill.md)."),
    option<&Settings::host_spill_limit>(
        "host_spill_limit", "THERMOCLINE_HOST_SPILL_LIMIT", OptionType::kSize, "",
        "Most of the disk that host_spill uses. Unset: what is free there when the program begins, but for a tenth."),
    option<&Settings::page_bytes>(
        "page_bytes", "THERMOCLINE_PAGE_BYTES", OptionType::kSize, "",
        "Of what size physical memory is taken from the driver and mapped: rounded down to a power of two, from what "
        "the device allows (2 MiB) to 32 MiB and an eighth of the budget. Unset: a 256th of the budget, 16 MiB at "
        "most (docs/offload.md)."),
    option<&Settings::min_offload_bytes>(
        "min_offload_bytes", "THERMOCLINE_MIN_OFFLOAD_BYTES", OptionType::kSize, kMinOffload.text,
        "Smaller buffers stay on the device unless all that share their pages are idle."),
    option<&Settings::low_water>("low_water", "THERMOCLINE_LOW_WATER", OptionType::kPercent, kLowWater.text,
                                 "Copying idle buffers out early begins when this part of the budget is taken."),
    option<&Settings::clean_reserve>("clean_reserve", "THERMOCLINE_CLEAN_RESERVE", OptionType::kPercent,
                                     kCleanReserve.text,
                                     "Early copies keep up to this part of the budget ready to be evicted at once."),
    option<&Settings::idle_after>(
        "idle_after", "THERMOCLINE_IDLE_AFTER", OptionType::kDuration, kIdleAfter.text,
        "A program that has not allocated, freed or moved anything for so long gives back to the driver what it does "
        "not use; off: never."),
    option<&Settings::idle_reserve>(
        "idle_reserve", "THERMOCLINE_IDLE_RESERVE", OptionType::kSize, kIdleReserve.text,
        "So much of what an idle program does not use stays with it, of device memory and of pinned memory each."),
    option<&Settings::operators>("operators", "THERMOCLINE_OPERATORS", OptionType::kOperators, "",
                                 "What operators are, by name, before the built-in rules: PATTERN=CLASS, ... "
                                 "(docs/offload.md; tables: docs/hidden_pointers.md)."),
    option<&Settings::strict>("strict", "THERMOCLINE_STRICT", OptionType::kBool, "false",
                              "Turn a bad setting, an unknown driver function or a missing capability into an error: "
                              "allocations fail."),
    option<&Settings::stats>("stats", "THERMOCLINE_STATS", OptionType::kChoice, "off",
                             "Statistics when the program ends, on stderr: off, table (for people; also: true), line "
                             "(KEY=VALUE ...), json (one object).",
                             kStatsForms),
    option<&Settings::advertise>(
        "advertise", "THERMOCLINE_ADVERTISE", OptionType::kChoice, "budget",
        "How much memory a program is told that there is (cuMemGetInfo): budget, device (what the device has), "
        "budget+host (what can be held in all). Programs that size themselves by it use no more than that "
        "(docs/advertise.md).",
        kAdvertised),
    option<&Settings::soft_limit>(
        "soft_limit", "THERMOCLINE_SOFT_LIMIT", OptionType::kBool, "false",
        "A kernel or a graph whose own memory exceeds the budget runs while the device has room, instead of being "
        "refused; counted (over_budget_operations)."),
    option<&Settings::debug>("debug", "THERMOCLINE_DEBUG", OptionType::kChoice, "off",
                             "Find misuse of buffers: off, track (double frees, uses after a free, copies past the "
                             "end), guard (also what kernels write past the end or after a free; slow).",
                             kDebugModes),
    option<&Settings::audit>("audit", "THERMOCLINE_AUDIT", OptionType::kBool, "false",
                             "Evict nothing, and say whether kernels access memory that they are not seen to access "
                             "(docs/hidden_pointers.md; slow)."),
    option<&Settings::shareable>(
        "shareable", "THERMOCLINE_SHAREABLE", OptionType::kBool, "false",
        "Leave to the driver what cuMemAlloc gives, so that other processes can open it (CUDA IPC): it counts against "
        "the budget and stays on the device (docs/processes.md)."),
    option<&Settings::children>(
        "children", "THERMOCLINE_CHILDREN", OptionType::kBool, "true",
        "Programs that the program starts get the library, too (a file is heeded by 'thermocline "
        "run')."),
    option<&Settings::frameworks>(
        "frameworks", "THERMOCLINE_FRAMEWORKS", OptionType::kBool, "true",
        "'thermocline run' sets for PyTorch, TensorFlow and JAX what makes each tensor an allocation that is seen "
        "(docs/frameworks.md)."),
    option<&Settings::publish>("publish", "THERMOCLINE_PUBLISH", OptionType::kBool, "true",
                               "Answer 'thermocline stats': a page in /dev/shm and a thread that sleeps."),
    option<&Settings::nvtx>("nvtx", "THERMOCLINE_NVTX", OptionType::kBool, "false",
                            "Tell tools about every buffer through NVTX's memory extension."),
    option<&Settings::log_level>("log_level", "THERMOCLINE_LOG_LEVEL", OptionType::kChoice, "info",
                                 "How much to write to stderr: quiet (nothing), error (what fails), warning (also what "
                                 "is done less well), info (also what was chosen), debug (also a line for each "
                                 "eviction and each fetch, with its reason).",
                                 kLogLevels),
};

constexpr std::string_view kTrue[] = {"true", "1", "on", "yes"};
constexpr std::string_view kFalse[] = {"false", "0", "off", "no"};

bool parse_bool(std::string_view text, Value* out, ParseError* error) {
  out->flag = std::ranges::find(kTrue, text) != std::end(kTrue);
  if (out->flag || std::ranges::find(kFalse, text) != std::end(kFalse)) return true;
  *error = {"'" + std::string(text) + "' is neither true nor false", ""};
  return false;
}

std::string choice_names(const Option& option) {
  std::string names;
  for (const Choice& c : option.choices) {
    if (!names.empty()) names += ", ";
    names += c.name;
  }
  return names;
}

bool parse_choice(const Option& option, std::string_view text, Value* out, ParseError* error) {
  std::vector<std::string_view> known;
  // A choice that accepts "true" also accepts every other spelling of true and false.
  if (std::ranges::any_of(option.choices, [](const Choice& c) { return c.name == std::string_view("true"); })) {
    if (std::ranges::find(kTrue, text) != std::end(kTrue)) text = "true";
    if (std::ranges::find(kFalse, text) != std::end(kFalse)) text = "false";
  }
  for (const Choice& c : option.choices) {
    if (text == c.name) {
      out->choice = c.value;
      return true;
    }
    known.emplace_back(c.name);
  }
  *error = {"'" + std::string(text) + "' is no " + option.key + "; known are " + choice_names(option),
            nearest_name(text, known)};
  return false;
}

bool parse_operators(std::string_view text, Value* out, ParseError* error) {
  std::string wrong;
  if (parse_operator_rules(text, &out->operators, &wrong)) return true;
  std::string classes;
  for (int i = 0; i < kOperatorClasses; ++i) {
    classes += (i == 0 ? "" : ", ") + std::string(name_of(static_cast<OperatorClass>(i)));
  }
  *error = {"'" + wrong + "' is not PATTERN=CLASS with a class of " + classes, ""};
  return false;
}

// A program may change its folder before it uses the device.
bool parse_folder(std::string_view text, Value* out, ParseError* error) {
  if (!text.empty() && text.front() != '/') {
    std::error_code failed;
    const std::filesystem::path here = std::filesystem::current_path(failed);
    *error = {"'" + std::string(text) + "' is no absolute path", failed ? "" : (here / text).string()};
    return false;
  }
  out->folder = text;
  return true;
}

constexpr unsigned kMostNumber = 10000;

bool parse_number(std::string_view text, Value* out, ParseError* error) {
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), out->number);
  if (failed == std::errc() && end == text.data() + text.size() && out->number >= 1 && out->number <= kMostNumber)
    return true;
  *error = {"'" + std::string(text) + "' is no whole number from 1 to " + std::to_string(kMostNumber), ""};
  return false;
}

bool parse_any_duration(std::string_view text, Value* out, ParseError* error) {
  const std::optional<Duration> duration = parse_duration(text, error);
  if (duration) out->duration = *duration;
  return duration.has_value();
}

bool parse_slice(std::string_view text, Value* out, ParseError* error) {
  if (!parse_any_duration(text, out, error)) return false;
  if (out->duration == Duration(0) || out->duration >= kShortestSlice) return true;
  const std::string least = duration_text(kShortestSlice);
  *error = {"'" + std::string(text) + "' is shorter than any time slice: give " + least + " or more, or off", least};
  return false;
}

SizeRules size_rules(OptionType type) {
  return {.allow_bytes = type != OptionType::kPercent,
          .allow_percent = type != OptionType::kSize,
          .allow_zero = type == OptionType::kPercent,
          .allow_shared = type == OptionType::kBudget};
}

}  // namespace

std::span<const Option> option_table() { return kOptions; }

const Option* find_option(std::string_view key) {
  for (const Option& option : kOptions) {
    if (key == option.key) return &option;
  }
  return nullptr;
}

const Option* find_option_by_variable(std::string_view variable) {
  for (const Option& option : kOptions) {
    if (variable == option.variable) return &option;
  }
  return nullptr;
}

bool parse_value(const Option& option, std::string_view text, Value* out, ParseError* error) {
  if (option.type == OptionType::kBool) return parse_bool(text, out, error);
  if (option.type == OptionType::kChoice) return parse_choice(option, text, out, error);
  if (option.type == OptionType::kOperators) return parse_operators(text, out, error);
  if (option.type == OptionType::kFolder) return parse_folder(text, out, error);
  if (option.type == OptionType::kNumber) return parse_number(text, out, error);
  if (option.type == OptionType::kSlice) return parse_slice(text, out, error);
  if (option.type == OptionType::kDuration) return parse_any_duration(text, out, error);
  const std::optional<SizeSetting> size = parse_size(text, size_rules(option.type), error);
  if (size) out->size = *size;
  return size.has_value();
}

std::string value_text(const Option& option, const Settings& settings) {
  const Value value = option.load(settings);
  if (option.type == OptionType::kBool) return value.flag ? "true" : "false";
  if (option.type == OptionType::kOperators) return text_of(value.operators);
  if (option.type == OptionType::kDuration || option.type == OptionType::kSlice) return duration_text(value.duration);
  if (option.type == OptionType::kFolder) return value.folder;
  if (option.type == OptionType::kNumber) return std::to_string(value.number);
  if (option.type != OptionType::kChoice) return value.size.text();
  for (const Choice& c : option.choices) {
    if (c.value == value.choice) return c.name;
  }
  return "";
}

std::string expected_text(const Option& option) {
  switch (option.type) {
    case OptionType::kSize:
      return "a size (12GiB, 512MiB, a number of bytes)";
    case OptionType::kSizeOrPercent:
      return "a size or a percentage (12GiB, 512MiB, 60%)";
    case OptionType::kBudget:
      return "a size, a percentage or shared (12GiB, 512MiB, 60%, shared)";
    case OptionType::kNumber:
      return "a whole number (100)";
    case OptionType::kPercent:
      return "a percentage (60%)";
    case OptionType::kBool:
      return "true or false";
    case OptionType::kOperators:
      return "a list of PATTERN=CLASS (my_gemm*=matrix_multiply, my_pack=copy)";
    case OptionType::kDuration:
      return "a duration (1s, 250ms, off)";
    case OptionType::kSlice:
      return "a duration of " + duration_text(kShortestSlice) + " or more (10s, off)";
    case OptionType::kFolder:
      return "the absolute path of a folder (/scratch)";
    case OptionType::kChoice:
      break;
  }
  return "one of " + choice_names(option);
}

}  // namespace thermocline
