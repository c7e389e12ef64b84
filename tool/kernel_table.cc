// SPDX-License-Identifier: Apache-2.0
#include "tool/kernel_table.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "driver/quantity.h"
#include "hooks/relaunch/analysed_code.h"
#include "hooks/relaunch/kernel_arguments.h"
#include "offload/engine/operation_name.h"
#include "tool/elf_needs.h"
#include "trace/recording.h"

namespace thermocline {
namespace {

using nlohmann::ordered_json;

ordered_json row_of(const DeviceCode& code, const std::string& symbol) {
  const AnalysedCode known = analyse_code(&code, symbol);
  ordered_json row = ordered_json::parse("{" + arguments_json(arguments_of(known, symbol)) + "}");
  ordered_json all = {{"name", readable_kernel_name(symbol)}, {"symbol", symbol}};
  all.update(row);
  all["evidence"] = known.unknown ? ordered_json(nullptr) : ordered_json("code");
  all["proven"] = !known.refused;
  all["why_not"] = known.refused ? ordered_json(known.refused.text()) : ordered_json(nullptr);
  return all;
}

// The rows of all code in the file; if several parts contain the same kernel, it has one row.
ordered_json rows_of(const std::vector<DeviceCode>& codes) {
  ordered_json rows = ordered_json::array();
  std::unordered_set<std::string> known;
  for (const DeviceCode& code : codes) {
    std::unordered_set<std::string_view> of_code;
    for (const DeviceCode::Text& text : code.texts) {
      for (const std::string& name : text.index.kernels()) {
        if (!of_code.insert(name).second) continue;
        ordered_json row = row_of(code, name);
        if (known.insert(row.dump()).second) rows.push_back(std::move(row));
      }
    }
  }
  return rows;
}

// The last line of the text that contains such an object: other output of the program may surround it.
std::optional<ordered_json> rows_of_run(const std::string& text) {
  std::optional<ordered_json> rows;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::size_t begin = text.find("{\"schema\"", at);
    if (begin < end) {
      const ordered_json object = ordered_json::parse(text.substr(begin, end - begin), nullptr, false);
      if (object.is_object() && object.contains("kernels") && object["kernels"].is_array()) rows = object["kernels"];
    }
    at = end + 1;
  }
  return rows;
}

std::string text_of(const ordered_json& row, const char* field) {
  const auto found = row.find(field);
  return found != row.end() && found->is_string() ? found->get<std::string>() : "";
}
std::optional<double> number_of(const ordered_json& row, const char* field) {
  const auto found = row.find(field);
  return found != row.end() && found->is_number() ? std::optional(found->get<double>()) : std::nullopt;
}

// Formats the arguments that arguments_json() has written.
std::string arguments_of_row(const ordered_json& row) {
  std::vector<KernelArgument> arguments;
  const auto found = row.find("arguments");
  if (found == row.end() || !found->is_array()) return "?";
  std::string text;
  for (const ordered_json& one : *found) {
    if (!one.is_object()) continue;
    if (!text.empty()) text += ", ";
    text += std::to_string(static_cast<int>(number_of(one, "parameter").value_or(0)));
    const auto offset = static_cast<int>(number_of(one, "offset").value_or(0));
    if (offset > 0) text += "+" + std::to_string(offset);
    const std::string access = text_of(one, "access");
    text += " " + access;
    if (access == "unknown" && text_of(one, "prototype") == "const") text += " (const)";
  }
  return text.empty() ? "none" : text;
}

std::string may_run_again(const ordered_json& row) {
  const std::optional<double> launches = number_of(row, "launches"), may = number_of(row, "may_run_again");
  const std::string why = text_of(row, "why_not");
  const auto proven = row.find("proven");
  // Only a run shows whether its launches are proven, too.
  std::string text = proven != row.end() && *proven == true ? "yes, by its code" : "no";
  if (launches && may) {
    text = *may == 0 ? "no"
                     : std::to_string(static_cast<long long>(*may)) + " of " +
                           std::to_string(static_cast<long long>(*launches));
  }
  if (const std::string trial = text_of(row, "trial"); !trial.empty() && trial != "on trial") text += ", " + trial;
  return why.empty() ? text : text + (text == "no" ? ": " : "; else: ") + why;
}

std::string with_digits(std::optional<double> number, const char* form) {
  if (!number) return "-";
  char text[32];
  std::snprintf(text, sizeof text, form, *number);
  return text;
}

class Launches : public EventSink {
 public:
  explicit Launches(std::map<std::string, KernelCost>* costs) : costs_(*costs) {}
  std::string header(std::string_view) override { return ""; }
  std::string event(const EventFields& fields, std::size_t) override {
    if (fields.kind == "alloc") bytes_[*fields.buffer] = static_cast<double>(*fields.bytes);
    if (fields.kind != "op") return "";
    KernelCost& cost = costs_[fields.name];
    ++cost.launches;
    cost.microseconds += fields.microseconds.value_or(0);
    std::vector<std::int64_t> buffers = fields.reads;
    buffers.insert(buffers.end(), fields.writes.begin(), fields.writes.end());
    std::ranges::sort(buffers);
    const auto repeated = std::ranges::unique(buffers);
    buffers.erase(repeated.begin(), repeated.end());
    for (const std::int64_t buffer : buffers) cost.bytes += bytes_[buffer];
    return "";
  }

 private:
  std::map<std::string, KernelCost>& costs_;
  std::map<std::int64_t, double> bytes_;
};

}  // namespace

std::optional<ordered_json> read_kernels(const std::string& path, std::string* reason) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    *reason = std::strerror(EISDIR);
    return std::nullopt;
  }
  std::ifstream file(path, std::ios::binary);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  if (!file || file.bad()) {
    *reason = std::strerror(errno != 0 ? errno : EIO);
    return std::nullopt;
  }
  std::string code = text;
  if (text.starts_with("\x7f"
                       "ELF")) {
    const std::optional<std::string> section = read_device_code_section(path, reason);
    if (!section) return std::nullopt;
    code = *section;
  }
  const std::vector<DeviceCode> codes =
      read_device_codes(std::span(reinterpret_cast<const unsigned char*>(code.data()), code.size()));
  if (!codes.empty()) {
    ordered_json rows = rows_of(codes);
    if (!rows.empty()) return rows;
    *reason = "its device code has no PTX (nvcc -gencode arch=compute_90,code=compute_90 adds some)";
    return std::nullopt;
  }
  std::optional<ordered_json> rows = rows_of_run(text);
  if (!rows) {
    *reason =
        "expected a program or library with device code, a fat binary, PTX, or what 'thermocline run --stats=json' "
        "prints with recompute = \"auto\"";
  }
  return rows;
}

bool add_costs(const std::string& recording, std::map<std::string, KernelCost>* costs) {
  Launches sink(costs);
  RecordingSummary summary;
  return read_recording(recording, "", &sink, &summary).empty();
}

void put_costs(const std::map<std::string, KernelCost>& costs, ordered_json* rows) {
  for (ordered_json& row : *rows) {
    const auto cost = costs.find(text_of(row, "symbol"));
    const bool is_known = cost != costs.end() && cost->second.launches > 0;
    const auto launches = is_known ? static_cast<double>(cost->second.launches) : 1;
    row["us"] = is_known ? ordered_json(cost->second.microseconds / launches) : ordered_json(nullptr);
    row["bytes"] = is_known ? ordered_json(std::llround(cost->second.bytes / launches)) : ordered_json(nullptr);
  }
}

std::string kernel_table(const ordered_json& rows) {
  constexpr std::size_t kWidestName = 48;
  const bool has_launches = std::ranges::any_of(rows, [](const ordered_json& row) { return row.contains("launches"); });
  const bool has_costs = std::ranges::any_of(rows, [](const ordered_json& row) { return row.contains("us"); });
  std::vector<std::vector<std::string>> cells{{"kernel"}};
  if (has_launches) cells[0].push_back("launches");
  if (has_costs) cells[0].insert(cells[0].end(), {"us each", "MiB each"});
  cells[0].insert(cells[0].end(), {"arguments", "evidence", "may run again"});
  for (const ordered_json& row : rows) {
    std::vector<std::string>& line = cells.emplace_back();
    const std::string symbol = text_of(row, "symbol");
    line.push_back(readable_kernel_name(symbol.empty() ? text_of(row, "name") : symbol, kWidestName));
    if (has_launches) line.push_back(with_digits(number_of(row, "launches"), "%.0f"));
    if (has_costs) {
      std::optional<double> bytes = number_of(row, "bytes");
      if (bytes) *bytes /= static_cast<double>(kMiB);
      line.push_back(with_digits(number_of(row, "us"), "%.1f"));
      line.push_back(with_digits(bytes, "%.1f"));
    }
    const std::string evidence = text_of(row, "evidence");
    line.insert(line.end(), {arguments_of_row(row), evidence.empty() ? "none" : evidence, may_run_again(row)});
  }
  std::vector<std::size_t> widths(cells[0].size());
  for (const auto& line : cells) {
    for (std::size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], line[i].size());
  }
  std::string text;
  for (const auto& line : cells) {
    for (std::size_t i = 0; i < line.size(); ++i) {
      text += line[i];
      if (i + 1 < line.size()) text.append(widths[i] - line[i].size() + 2, ' ');
    }
    text += '\n';
  }
  return text;
}

}  // namespace thermocline
