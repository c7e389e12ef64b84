// SPDX-License-Identifier: Apache-2.0
// conformance: checks the rules against a given libcuda. It is not linked with any library of this project.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <exception>
#include <fstream>
#include <iostream>
#include <iterator>

#include "tests/conformance/kernels.h"
#include "tests/conformance/report.h"

namespace {

constexpr const char* kUsage = R"(usage: conformance [--library FILE] [--json FILE] [--rule NAME]...
       conformance --list
       conformance --markdown [RESULT_FILE]...
       conformance --kernels

Runs every rule (or those that are named) against the CUDA driver FILE (else libcuda.so.1), one line each, and keeps the results.
--markdown prints docs/conformance.md, with the results of runs on GPUs; --kernels the text of the kernels.
Status: 0 nothing disagrees, 1 something does, 2 wrong usage, 4 no usable device.
)";

using namespace conformance;

struct Options {
  std::string library = "libcuda.so.1";
  std::string json_file;
  std::vector<std::string> rules;
  bool lists = false, prints_page = false, prints_kernels = false;
  std::vector<std::string> result_files;
};

bool parse(const std::vector<std::string>& words, Options* out) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    const bool has_value = i + 1 < words.size();
    if (words[i] == "--library" && has_value) {
      out->library = words[++i];
    } else if (words[i] == "--json" && has_value) {
      out->json_file = words[++i];
    } else if (words[i] == "--rule" && has_value) {
      out->rules.push_back(words[++i]);
    } else if (words[i] == "--list") {
      out->lists = true;
    } else if (words[i] == "--kernels") {
      out->prints_kernels = true;
    } else if (words[i] == "--markdown") {
      out->prints_page = true;
    } else if (out->prints_page && words[i][0] != '-') {
      out->result_files.push_back(words[i]);
    } else {
      return false;
    }
  }
  return true;
}

int print_page(const Options& options) {
  std::vector<std::string> texts;
  for (const std::string& name : options.result_files) {
    std::ifstream file(name);
    if (!file) {
      std::cerr << "conformance: " << name << " can not be read\n";
      return 2;
    }
    texts.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  std::cout << to_markdown(all_rules(), texts);
  return 0;
}

std::vector<Rule> chosen_rules(const Options& options) {
  std::vector<Rule> rules = all_rules();
  if (options.rules.empty()) return rules;
  std::erase_if(rules,
                [&](const Rule& rule) { return std::ranges::find(options.rules, rule.name) == options.rules.end(); });
  return rules;
}

int run_rules(const Options& options) {
  const std::vector<Rule> rules = chosen_rules(options);
  if (rules.empty()) {
    std::cerr << "conformance: no rule has that name; --list names them\n";
    return 2;
  }
  const DeviceFacts device = describe_device(options.library);
  if (!device.why.empty()) {
    std::cerr << "conformance: " << device.why << "\n";
    return 4;
  }
  std::printf("%s, driver for CUDA %d.%d\n", device.name.c_str(), device.driver_version / 1000,
              device.driver_version % 1000 / 10);
  std::vector<RuleResult> results;
  int counts[3] = {};
  for (const Rule& rule : rules) {
    const Result result = run(rule, options.library);
    ++counts[static_cast<int>(result.outcome)];
    std::printf("  %-13s %s%s%s\n", name_of(result.outcome), rule.name, result.detail.empty() ? "" : ": ",
                result.detail.c_str());
    results.push_back({rule, result});
  }
  std::printf("%zu rules: %d agree, %d disagree, %d not supported\n", rules.size(), counts[0], counts[1], counts[2]);
  if (!options.json_file.empty()) {
    std::ofstream file(options.json_file);
    file << to_json(device, results);
    if (!file.flush()) {
      std::cerr << "conformance: " << options.json_file << " can not be written\n";
      return 2;
    }
  }
  return counts[1] == 0 ? 0 : 1;
}

}  // namespace

int main(int count, char** words) try {
  Options options;
  if (!parse({words + 1, words + count}, &options)) {
    std::cerr << kUsage;
    return 2;
  }
  if (options.prints_page) return print_page(options);
  if (options.prints_kernels) {
    std::cout << kKernels;
    return 0;
  }
  if (!options.lists) return run_rules(options);
  for (const Rule& rule : all_rules()) std::printf("%-44s %s\n", rule.name, rule.says);
  return 0;
} catch (const std::exception& error) {
  std::cerr << "conformance: " << error.what() << "\n";
  return 2;
}
