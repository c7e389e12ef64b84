// SPDX-License-Identifier: Apache-2.0
#include "tool/stats_text.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cinttypes>
#include <cstdarg>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "driver/printable.h"
#include "telemetry/statistic_names.h"

namespace thermocline {
namespace {

using nlohmann::ordered_json;

[[gnu::format(printf, 2, 3)]] void append(std::string* text, const char* format, ...) {
  std::array<char, 256> line;
  va_list arguments;
  va_start(arguments, format);
  const int length = std::vsnprintf(line.data(), line.size(), format, arguments);
  va_end(arguments);
  if (length > 0) text->append(line.data(), std::min(static_cast<std::size_t>(length), line.size() - 1));
}

// A row that an older process does not have is 0.
std::uint64_t value(const LiveStatistics& of, const char* name) {
  const Statistic* const row = find_statistic(name);
  const auto index = static_cast<std::size_t>(row - statistics_table().data());
  return index < of.values.size() ? of.values[index] : 0;
}

// "1.23 GiB", "45.6 MiB", "789 KiB": at most eight characters.
std::string short_bytes(Bytes bytes) {
  constexpr std::array kUnits = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  auto number = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; number >= 1023.5 && unit + 1 < kUnits.size(); ++unit) number /= 1024;
  const int decimals = unit == 0 || number >= 99.95 ? 0 : number >= 9.995 ? 1 : 2;
  std::array<char, 32> text;
  std::snprintf(text.data(), text.size(), "%.*f %s", decimals, number, kUnits[unit]);
  return text.data();
}

// "1,234,567"
std::string grouped(std::uint64_t number) {
  const std::string digits = std::to_string(number);
  std::string text;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text;
}

std::string part_of(std::uint64_t part, std::uint64_t whole) {
  if (whole == 0) return "-";
  return std::to_string(part * 100 / whole) + "%";
}

// 40 characters.
std::string bar(std::uint64_t part, std::uint64_t whole) {
  constexpr std::size_t kWidth = 40;
  const std::size_t filled = whole == 0 ? 0 : std::min<std::size_t>(kWidth, part * kWidth / whole);
  std::string text(kWidth + 2, '.');
  text.front() = '[';
  text.back() = ']';
  std::fill_n(text.begin() + 1, filled, '#');
  return text;
}

// In bytes per second; "-" if there is no earlier copy.
std::string rate(const ProcessView& process, const char* name) {
  if (process.before == nullptr || process.now.written <= process.before->written) return "-";
  const std::uint64_t now = value(process.now, name), before = value(*process.before, name);
  const double seconds = std::chrono::duration<double>(process.now.written - process.before->written).count();
  // A page may contain any value, which does not always fit.
  constexpr double kMost = 0x1p63;
  return short_bytes(static_cast<Bytes>(std::min(kMost, static_cast<double>(now - std::min(now, before)) / seconds)));
}

std::uint64_t sum(const std::vector<ProcessView>& processes, const char* name) {
  std::uint64_t all = 0;
  for (const ProcessView& process : processes) all += value(process.now, name);
  return all;
}

struct ClassRow {
  const char* title;
  const char* bytes;
  const char* buffers;
};
constexpr ClassRow kClasses[] = {
    {"to 4 KiB", "live_bytes_to_4KiB", "live_buffers_to_4KiB"},
    {"to 64 KiB", "live_bytes_to_64KiB", "live_buffers_to_64KiB"},
    {"to 1 MiB", "live_bytes_to_1MiB", "live_buffers_to_1MiB"},
    {"to 16 MiB", "live_bytes_to_16MiB", "live_buffers_to_16MiB"},
    {"to 256 MiB", "live_bytes_to_256MiB", "live_buffers_to_256MiB"},
    {"above", "live_bytes_above_256MiB", "live_buffers_above_256MiB"},
};

std::string bytes_of(const ProcessView& process, const char* name) { return short_bytes(value(process.now, name)); }

// With the user's name if it is another user's process; only root sees those.
std::string title(const ProcessView& process, std::size_t most_bytes) {
  const std::string user = process.now.owner == geteuid() ? "" : std::to_string(process.now.owner) + ":";
  return printable(user + process.now.program, most_bytes);
}

void append_head(std::string* text, const ProcessView& process) {
  const LiveRank& rank = process.now.rank;
  const std::string of = rank.size < 0 ? "" : " of " + std::to_string(rank.size);
  append(text, "%d  %s\n", process.now.pid, title(process, rank.rank < 0 ? 60 : 42).c_str());
  if (rank.rank >= 0) append(text, "  rank %d%s\n", rank.rank, of.c_str());
  if (process.answered) return;
  if (process.now.values.empty()) {
    append(text, "  does not answer\n");
  } else {
    append(text, "  does not answer; as of %.1f s ago\n", std::chrono::duration<double>(process.age).count());
  }
}

void append_memory(std::string* text, const ProcessView& process) {
  const std::uint64_t budget = value(process.now, "budget_bytes"), device = value(process.now, "device_bytes");
  append(text, "  on the device %12s  of %s, peak %s\n", short_bytes(device).c_str(), short_bytes(budget).c_str(),
         bytes_of(process, "peak_device_bytes").c_str());
  append(text, "  %s %s\n", bar(device, budget).c_str(), part_of(device, budget).c_str());
  append(text, "  live          %12s  peak %s\n", bytes_of(process, "live_bytes").c_str(),
         bytes_of(process, "peak_live_bytes").c_str());
  append(text, "  not there     %12s  evicted, or not accessed yet\n", bytes_of(process, "nonresident_bytes").c_str());
  append(text, "  available     %12s  before anything has to leave\n", bytes_of(process, "available_bytes").c_str());
  append(text, "  must stay     %12s  in %s buffers\n", bytes_of(process, "pinned_bytes").c_str(),
         grouped(value(process.now, "pinned_buffers")).c_str());
  append(text, "  mapped by it  %12s\n", bytes_of(process, "external_bytes").c_str());
  const std::uint64_t limit = value(process.now, "host_limit_bytes");
  append(text, "  on the host   %12s  of %s, peak %s\n", bytes_of(process, "host_bytes").c_str(),
         limit == 0 ? "any" : short_bytes(limit).c_str(), bytes_of(process, "peak_host_bytes").c_str());
  if (const std::uint64_t file = value(process.now, "spill_limit_bytes"); file != 0) {
    append(text, "  in the file   %12s  of %s; written %s, read %s\n", bytes_of(process, "spilled_bytes").c_str(),
           short_bytes(file).c_str(), bytes_of(process, "spill_written_bytes").c_str(),
           bytes_of(process, "spill_read_bytes").c_str());
  }
  if (const std::uint64_t shared = value(process.now, "host_shared_limit_bytes"); shared != 0) {
    append(text, "  with others   %12s  of %s; claimed by this one %s\n",
           bytes_of(process, "host_shared_bytes").c_str(), short_bytes(shared).c_str(),
           bytes_of(process, "host_claimed_bytes").c_str());
  }
}

void append_traffic(std::string* text, const ProcessView& process) {
  append(text, "  copied out    %12s  %s a second\n", bytes_of(process, "evicted_bytes").c_str(),
         rate(process, "evicted_bytes").c_str());
  append(text, "  copied in     %12s  %s a second\n", bytes_of(process, "restored_bytes").c_str(),
         rate(process, "restored_bytes").c_str());
  if (value(process.now, "dropped_buffers") > 0) {
    append(text, "  dropped       %12s  of whole pages, not copied; recomputed %s\n",
           bytes_of(process, "dropped_bytes").c_str(), bytes_of(process, "recomputed_bytes").c_str());
  }
  struct Count {
    const char* title;
    const char* name;
  };
  constexpr Count kCounts[] = {{"allocations", "allocations"},
                               {"frees", "frees"},
                               {"operations", "operations"},
                               {"host waits", "host_waits"},
                               {"plans", "plans"},
                               {"divergences", "divergences"},
                               {"prefetches", "prefetches"},
                               {"out of memory", "out_of_memory"}};
  bool left = true;
  for (const Count& count : kCounts) {
    append(text, "  %-13s %19s%s", count.title, grouped(value(process.now, count.name)).c_str(), left ? "   " : "\n");
    left = !left;
  }
}

std::string metric_name(const Statistic& statistic) {
  return std::string("thermocline_") + statistic.name + (statistic.kind == StatisticKind::kTotal ? "_total" : "");
}

std::string label_value(const std::string& text) {
  std::string quoted;
  for (const char c : text) {
    if (c == '\\' || c == '"' || c == '\n') quoted += '\\';
    quoted += c == '\n' ? 'n' : c;
  }
  return quoted;
}

// Invalid UTF-8 would make the output invalid JSON.
std::string dump(const ordered_json& json) { return json.dump(-1, ' ', false, ordered_json::error_handler_t::replace); }

ordered_json or_null(int number) { return number < 0 ? ordered_json(nullptr) : ordered_json(number); }

// Peaks of several processes are not of one moment, so they are not added; and a shared limit, and what all processes
// use of it, is a single number.
ordered_json totals(const std::vector<ProcessView>& processes) {
  ordered_json sums = ordered_json::object(), largest = ordered_json::object();
  for (std::size_t i = 0; i < statistics_table().size(); ++i) {
    const Statistic& row = statistics_table()[i];
    const bool adds = row.kind != StatisticKind::kPeak && !std::string_view(row.name).starts_with("host_shared_");
    std::uint64_t most = 0;
    for (const ProcessView& process : processes) most = std::max(most, value(process.now, row.name));
    (adds ? sums : largest)[row.name] = adds ? sum(processes, row.name) : most;
  }
  return {{"processes", processes.size()}, {"sum", std::move(sums)}, {"largest", std::move(largest)}};
}

std::string rank_label(const LiveRank& rank) {
  return rank.rank < 0 ? "" : ",rank=\"" + std::to_string(rank.rank) + "\"";
}

}  // namespace

std::string detailed(const ProcessView& process) {
  std::string text;
  append_head(&text, process);
  if (process.now.values.empty()) return text;
  append_memory(&text, process);
  append_traffic(&text, process);
  append(&text, "  %-12s %12s %12s\n", "size", "buffers", "live");
  for (const ClassRow& row : kClasses) {
    append(&text, "  %-12s %12s %12s\n", row.title, grouped(value(process.now, row.buffers)).c_str(),
           bytes_of(process, row.bytes).c_str());
  }
  return text;
}

std::string overview(const std::vector<ProcessView>& processes) {
  std::string text;
  const bool ranked = std::ranges::any_of(processes, [](const ProcessView& p) { return p.now.rank.rank >= 0; });
  // The program's name is shortened to make room for the rank.
  const int width = ranked ? 11 : 16;
  const auto most = static_cast<std::size_t>(width);
  const auto rank_column = [ranked](const std::string& rank) {
    std::string column = ranked ? rank + " " : "";
    return ranked ? std::string(5 - std::min<std::size_t>(5, column.size()), ' ') + column : column;
  };
  append(&text, "%s%7s %-*s %9s %9s %5s %9s %9s %8s\n", rank_column("RANK").c_str(), "PID", width, "PROGRAM", "LIVE",
         "DEVICE", "FULL", "HOST", "OUT/s", "IN/s");
  for (const ProcessView& process : processes) {
    const int rank = process.now.rank.rank;
    text += rank_column(rank < 0 ? "-" : std::to_string(rank));
    if (process.now.values.empty()) {
      append(&text, "%7d %-*s does not answer\n", process.now.pid, width, title(process, most).c_str());
      continue;
    }
    const std::string full = part_of(value(process.now, "device_bytes"), value(process.now, "budget_bytes"));
    append(&text, "%7d%c%-*s %9s %9s %5s %9s %9s %8s\n", process.now.pid, process.answered ? ' ' : '?', width,
           title(process, most).c_str(), bytes_of(process, "live_bytes").c_str(),
           bytes_of(process, "device_bytes").c_str(), full.c_str(), bytes_of(process, "host_bytes").c_str(),
           rate(process, "evicted_bytes").c_str(), rate(process, "restored_bytes").c_str());
  }
  const std::uint64_t device = sum(processes, "device_bytes");
  append(&text, "%s%7s %-*s %9s %9s %5s %9s\n", rank_column("").c_str(), "", width, "all",
         short_bytes(sum(processes, "live_bytes")).c_str(), short_bytes(device).c_str(),
         part_of(device, sum(processes, "budget_bytes")).c_str(), short_bytes(sum(processes, "host_bytes")).c_str());
  return text;
}

namespace {

struct Turn {
  bool is_sliced = false, has_slice = false;
};

const char* what_it_does(const LeaseRecord& record, const Turn& turn, std::uint64_t now_ns) {
  if (turn.is_sliced) return turn.has_slice ? "slice" : "waits";
  return record.active_until_ns >= now_ns ? "active" : "idle";
}

std::vector<Turn> turns_on(const SharedDevice& device, std::uint64_t now_ns) {
  std::vector<SliceSharer> all;
  all.reserve(device.processes.size());
  for (const LeaseRecord& one : device.processes)
    all.push_back({.is_active = one.active_until_ns >= now_ns, .weight = one.weight, .record = one.slice});
  const bool any = any_slices(all, now_ns);
  const std::optional<std::size_t> holder = slice_holder(all, now_ns);
  std::vector<Turn> turns;
  turns.reserve(all.size());
  for (std::size_t i = 0; i < all.size(); ++i)
    turns.push_back({.is_sliced = any && takes_part(all[i], now_ns), .has_slice = holder == i});
  return turns;
}

}  // namespace

std::string shares(const std::vector<SharedDevice>& devices, std::uint64_t now_ns) {
  std::string text;
  for (const SharedDevice& device : devices) {
    append(&text, "\ndevice %s, %s, shared by %zu\n", printable(device.device).c_str(),
           short_bytes(device.processes.front().device_bytes).c_str(), device.processes.size());
    append(&text, "%7s %-16s %9s %9s %9s %9s %6s\n", "PID", "COMMAND", "MINIMUM", "LEASE", "IN USE", "WANTS", "WEIGHT");
    const std::vector<Turn> turns = turns_on(device, now_ns);
    for (std::size_t i = 0; i < device.processes.size(); ++i) {
      const LeaseRecord& one = device.processes[i];
      append(&text, "%7d %-16.16s %9s %9s %9s %9s %6u %s\n", one.pid, printable(one.command).c_str(),
             short_bytes(one.minimum).c_str(), short_bytes(one.lease).c_str(), short_bytes(one.in_use).c_str(),
             short_bytes(one.demand).c_str(), one.weight, what_it_does(one, turns[i], now_ns));
    }
  }
  return text;
}

std::string as_json(const std::vector<ProcessView>& processes, const std::vector<SharedDevice>& devices,
                    std::uint64_t now_ns) {
  ordered_json out = {{"schema", "thermocline-stats/1"}, {"processes", ordered_json::array()}};
  for (const ProcessView& process : processes) {
    ordered_json entry = {{"pid", process.now.pid},
                          {"uid", process.now.owner},
                          {"program", process.now.program},
                          {"version", process.now.version},
                          {"rank", or_null(process.now.rank.rank)},
                          {"local_rank", or_null(process.now.rank.local)},
                          {"world_size", or_null(process.now.rank.size)},
                          {"answered", process.answered},
                          {"age_ms", std::chrono::duration<double, std::milli>(process.age).count()}};
    ordered_json own = ordered_json::object();
    ordered_json pytorch = ordered_json::object();
    ordered_json tensorflow = ordered_json::object();
    for (std::size_t i = 0; i < process.now.values.size(); ++i) {
      own[statistics_table()[i].name] = process.now.values[i];
    }
    if (!process.now.values.empty()) {
      for (const StatisticAlias& alias : pytorch_names()) pytorch[alias.name] = value(process.now, alias.ours);
      for (const StatisticAlias& alias : tensorflow_names()) tensorflow[alias.name] = value(process.now, alias.ours);
    }
    entry["statistics"] = own;
    entry["pytorch"] = std::move(pytorch);
    entry["tensorflow"] = std::move(tensorflow);
    out["processes"].push_back(std::move(entry));
  }
  out["all"] = totals(processes);
  out["shared_devices"] = ordered_json::array();
  for (const SharedDevice& device : devices) {
    ordered_json entry = {{"uuid", device.device}, {"processes", ordered_json::array()}};
    const std::vector<Turn> turns = turns_on(device, now_ns);
    for (std::size_t i = 0; i < device.processes.size(); ++i) {
      const LeaseRecord& one = device.processes[i];
      entry["processes"].push_back({{"pid", one.pid},
                                    {"command", one.command},
                                    {"device_bytes", one.device_bytes},
                                    {"reserved_bytes", one.reserve},
                                    {"minimum_bytes", one.minimum},
                                    {"lease_bytes", one.lease},
                                    {"in_use_bytes", one.in_use},
                                    {"wanted_bytes", one.demand},
                                    {"weight", one.weight},
                                    {"active", one.active_until_ns >= now_ns},
                                    {"takes_turns", turns[i].is_sliced},
                                    {"has_slice", turns[i].has_slice}});
    }
    out["shared_devices"].push_back(std::move(entry));
  }
  return dump(out) + "\n";
}

std::string as_prometheus(const std::vector<ProcessView>& processes) {
  std::string text;
  const std::span<const Statistic> table = statistics_table();
  for (std::size_t i = 0; i < table.size(); ++i) {
    const std::string name = metric_name(table[i]);
    text += "# HELP " + name + " " + table[i].help + "\n";
    text += "# TYPE " + name + (table[i].kind == StatisticKind::kTotal ? " counter\n" : " gauge\n");
    for (const ProcessView& process : processes) {
      if (i >= process.now.values.size()) continue;
      text += name + "{pid=\"" + std::to_string(process.now.pid) + "\",uid=\"" + std::to_string(process.now.owner) +
              "\",program=\"" + label_value(process.now.program) + "\"" + rank_label(process.now.rank) + "} " +
              std::to_string(process.now.values[i]) + "\n";
    }
  }
  return text;
}

}  // namespace thermocline
