// SPDX-License-Identifier: Apache-2.0
#include "tests/conformance/report.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

namespace conformance {
namespace {

using nlohmann::json;

constexpr const char* kHead = R"(# Conformance

Each rule is a small program for the CUDA driver. The same executable runs the rules on the simulated device, in `ctest`, and on
a GPU, by `./dev gpu`. `conformance --markdown` writes this page from the rules in `tests/conformance/`: edit those, not this page.

The basis of a rule is a page of NVIDIA's documentation: a module of the *CUDA Driver API* reference, and the function or section in it;
*Programming Guide* means the *CUDA C++ Programming Guide*. The rules are in our words. If the documentation leaves an outcome open, the
rule accepts every allowed outcome and the table says which part is open; a device's result file has its answer.

Outcomes: *agrees*; *disagrees*; *not carried*: the simulated device refuses these calls, so the rule runs only on a GPU; *not
supported*: the GPU or its driver refuses them, too, or the rule needs two devices and there is one.
)";

std::string on_simulator(const Rule& rule) {
  switch (rule.simulator) {
    case OnSimulator::kAgrees:
      return "agrees";
    case OnSimulator::kNotCarried:
      return "not carried";
    case OnSimulator::kDisagrees:
      return "**disagrees**";
  }
  return "";
}

// One device's results, by rule.
struct Column {
  std::string title;
  std::map<std::string, std::string> outcomes;
};

Column read_column(const std::string& text) {
  const json file = json::parse(text);
  Column column;
  const int version = file.at("driver_version").get<int>();
  column.title = file.at("device").get<std::string>() + ", CUDA " + std::to_string(version / 1000) + "." +
                 std::to_string(version % 1000 / 10);
  for (const json& rule : file.at("rules"))
    column.outcomes[rule.at("name").get<std::string>()] = rule.at("outcome").get<std::string>();
  return column;
}

std::string on_device(const Column& column, const Rule& rule) {
  const auto found = column.outcomes.find(rule.name);
  if (found == column.outcomes.end()) return "not yet run";
  return found->second == "disagrees" ? "**disagrees**" : found->second;
}

std::string counts(const std::vector<Rule>& rules) {
  const auto count = [&](OnSimulator state) {
    return std::to_string(std::ranges::count(rules, state, &Rule::simulator));
  };
  return std::to_string(rules.size()) + " rules. On the simulated device " + count(OnSimulator::kAgrees) + " agree, " +
         count(OnSimulator::kNotCarried) + " are not carried, " + count(OnSimulator::kDisagrees) + " disagree.";
}

std::string row(const Rule& rule, const std::vector<Column>& columns) {
  std::string text = "| `" + std::string(rule.name) + "` | " + rule.says + ". | " + rule.basis;
  if (*rule.open != '\0') text += ". *Open:* " + std::string(rule.open);
  text += " | " + on_simulator(rule) + " |";
  for (const Column& column : columns) text += " " + on_device(column, rule) + " |";
  if (columns.empty()) text += " not yet run |";
  return text + "\n";
}

}  // namespace

std::string to_json(const DeviceFacts& device, const std::vector<RuleResult>& results) {
  json rules = json::array();
  std::map<std::string, int> summary = {{"agrees", 0}, {"disagrees", 0}, {"not supported", 0}};
  for (const auto& [rule, result] : results) {
    ++summary[name_of(result.outcome)];
    json entry = {{"name", rule.name}, {"subject", rule.subject}, {"outcome", name_of(result.outcome)}};
    if (!result.detail.empty()) entry["detail"] = result.detail;
    if (!result.answers.empty()) entry["answers"] = result.answers;
    rules.push_back(std::move(entry));
  }
  const json file = {{"device", device.name},
                     {"driver_version", device.driver_version},
                     {"compute_capability", device.compute_capability},
                     {"summary", summary},
                     {"rules", std::move(rules)}};
  return file.dump(2) + "\n";
}

std::string to_markdown(const std::vector<Rule>& rules, const std::vector<std::string>& result_files) {
  std::vector<Column> columns;
  for (const std::string& text : result_files) columns.push_back(read_column(text));
  std::string page = std::string(kHead) + "\n" + counts(rules) + "\n";
  std::string subject;
  for (const Rule& rule : rules) {
    if (subject != rule.subject) {
      subject = rule.subject;
      page += "\n## " + std::string(1, static_cast<char>(std::toupper(subject[0]))) + subject.substr(1) + "\n\n";
      page += "| rule | what must hold | basis | simulated |";
      for (const Column& column : columns) page += " " + column.title + " |";
      if (columns.empty()) page += " GPU |";
      page += "\n| --- | --- | --- | --- |";
      for (std::size_t i = 0; i < std::max<std::size_t>(columns.size(), 1); ++i) page += " --- |";
      page += "\n";
    }
    page += row(rule, columns);
  }
  return page;
}

}  // namespace conformance
