// SPDX-License-Identifier: Apache-2.0
#include "simulator/faults/plan.h"

#include <array>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include "simulator/core/hash.h"
#include "simulator/faults/catalogue.h"

namespace simulator {
namespace {

using Words = std::vector<std::string>;
using Problem = std::string;  // empty: none

template <typename Number>
bool number(std::string_view text, Number least, Number most, Number* out) {
  const auto result = std::from_chars(text.data(), text.data() + text.size(), *out);
  return result.ec == std::errc() && result.ptr == text.data() + text.size() && *out >= least && *out <= most;
}

bool percentage(std::string_view text, double* share) {
  if (!text.ends_with('%') || !number(text.substr(0, text.size() - 1), 0.0, 100.0, share)) return false;
  *share /= 100;
  return true;
}

bool size(std::string_view text, Bytes* out) {
  unsigned shift = 0;
  for (const auto& [unit, bits] : {std::pair{"KiB", 10U}, {"MiB", 20U}, {"GiB", 30U}}) {
    if (!text.ends_with(unit)) continue;
    text.remove_suffix(3);
    shift = bits;
  }
  if (!number(text, Bytes{1}, (Bytes{1} << 44) >> shift, out)) return false;
  *out <<= shift;
  return true;
}

std::string with_spaces(std::string_view errors) {
  std::string result(errors);
  for (std::size_t at = 0; (at = result.find(' ', at)) != std::string::npos; at += 2) result.replace(at, 1, ", ");
  return result;
}

Problem set_when(const std::string& word, const std::string& value, FaultRule* rule) {
  using When = FaultRule::When;
  rule->when = word == "call"    ? When::kCall
               : word == "from"  ? When::kFrom
               : word == "every" ? When::kEvery
                                 : When::kChance;
  if (word == "chance") {
    double share = 0;
    if (!percentage(value, &share)) return "'" + value + "' is no percentage, such as 2%";
    rule->number = static_cast<std::uint64_t>(share * 1e6);
    return {};
  }
  if (word != "call" && word != "from" && word != "every")
    return "expected call, from, every or chance, not '" + word + "'";
  return number(value, std::uint64_t{1}, ~std::uint64_t{0}, &rule->number) ? ""
                                                                           : "'" + value + "' is no number of calls";
}

Problem add_failure(const Words& words, FaultPlan* plan) {
  FaultRule rule;
  rule.function = plain_name(words[1]);
  const MayFail* const known = find_may_fail(rule.function);
  if (known == nullptr) return "the simulated driver has no function " + words[1] + " that may fail";
  if (Problem problem = set_when(words[2], words[3], &rule); !problem.empty()) return problem;
  const auto error = error_named(words[4]);
  if (!error || !may_answer(*known, words[4]))
    return rule.function + " never answers " + words[4] + "; it may answer " + with_spaces(known->errors);
  rule.error = *error;
  plan->rules.push_back(rule);
  return {};
}

Problem add_out_of_memory(const Words& words, FaultPlan* plan) {
  FaultRule rule;
  rule.error = CUDA_ERROR_OUT_OF_MEMORY;
  if (Problem problem = set_when(words[1], words[2], &rule); !problem.empty()) return problem;
  plan->rules.push_back(rule);
  return {};
}

// Adds the requested number of failures, early in the run; their functions, and these functions' errors, are random.
Problem add_random(const Words& words, FaultPlan* plan) {
  std::uint64_t count = 0, seed = 0;
  if (!number(words[1], std::uint64_t{1}, std::uint64_t{1000}, &count) ||
      !number(words[2], std::uint64_t{0}, ~std::uint64_t{0}, &seed)) {
    return "expected a number of failures up to 1000 and a seed";
  }
  plan->seed = seed;
  const auto catalogue = fault_catalogue();
  for (std::uint64_t i = 0; i < count; ++i) {
    std::uint64_t draw = combine(seed, i);
    const auto next = [&draw](std::uint64_t below) { return (draw = mix(draw + kGolden)) % below; };
    const MayFail& chosen = catalogue[next(catalogue.size())];
    const std::vector<std::string_view> errors = errors_of(chosen);
    if (errors.empty()) continue;
    FaultRule rule;
    rule.function = chosen.function;
    rule.number = 1 + next(32);
    rule.error = *error_named(errors[next(errors.size())]);
    plan->rules.push_back(rule);
  }
  return {};
}

Problem set_without(const Words& words, FaultPlan* plan) {
  if (words[1] == "virtual-memory") {
    plan->no_virtual_memory = true;
  } else if (words[1] == "host-mappings") {
    plan->no_host_mappings = true;
  } else if (words[1] == "memory-pools") {
    plan->no_memory_pools = true;
  } else if (find_may_fail(plain_name(words[1])) != nullptr) {
    plan->without.emplace(plain_name(words[1]));
  } else {
    return "expected virtual-memory, host-mappings, memory-pools or a function of the driver, not '" + words[1] + "'";
  }
  return {};
}

Problem add_elsewhere(const Words& words, FaultPlan* plan) {
  plan->elsewhere.emplace(plain_name(words[1]));
  return {};
}

Problem add_newer(const Words& words, FaultPlan* plan) {
  plan->newer.emplace(plain_name(words[1]));
  plan->driver_version = kNewerDriverVersion;
  return {};
}

Problem set_version(const Words& words, FaultPlan* plan) {
  const std::size_t point = words[1].find('.');
  int major = 0, minor = 0;
  const std::string_view text = words[1];
  if (point == std::string::npos || !number(text.substr(0, point), 11, 13, &major) ||
      !number(text.substr(point + 1), 0, 9, &minor) || major * 1000 + minor * 10 > kDriverVersion) {
    return "'" + words[1] + "' is no driver version from 11.0 to 13.0";
  }
  plan->driver_version = major * 1000 + minor * 10;
  return {};
}

Problem set_granularity(const Words& words, FaultPlan* plan) {
  Bytes bytes = 0;
  if (!size(words[1], &bytes) || bytes < kPageBytes || (bytes & (bytes - 1)) != 0)
    return "'" + words[1] + "' is no power of two of at least 2MiB";
  plan->granularity = bytes;
  return {};
}

Problem set_address_bits(const Words& words, FaultPlan* plan) {
  unsigned bits = 0;
  if (!number(words[1], 30U, 47U, &bits)) return "'" + words[1] + "' is no number of bits from 30 to 47";
  plan->address_bits = bits;
  return {};
}

Problem set_link(const Words& words, FaultPlan* plan) {
  return number(words[1], 1e-6, 1e6, &plan->link) ? "" : "'" + words[1] + "' is no factor above 0";
}

Problem set_mapping(const Words& words, FaultPlan* plan) {
  return number(words[1], 0.0, 1e6, &plan->mapping) ? "" : "'" + words[1] + "' is no factor, 0 or above";
}

Problem set_jitter(const Words& words, FaultPlan* plan) {
  return percentage(words[1], &plan->jitter) ? "" : "'" + words[1] + "' is no percentage, such as 20%";
}

Problem set_seed(const Words& words, FaultPlan* plan) {
  return number(words[1], std::uint64_t{0}, ~std::uint64_t{0}, &plan->seed) ? "" : "'" + words[1] + "' is no number";
}

struct Statement {
  std::string_view word;
  std::size_t words;
  const char* form;
  Problem (*apply)(const Words& words, FaultPlan* plan);
};

Problem set_accepted(const Words& words, FaultPlan* plan) {
  if (words[1] != "device-launches") return "expected device-launches, not '" + words[1] + "'";
  plan->device_launches = true;
  return {};
}

constexpr Statement kStatements[] = {
    {"fail", 5, "fail FUNCTION call|from|every N ERROR, or fail FUNCTION chance P% ERROR", add_failure},
    {"out-of-memory", 3, "out-of-memory call|from|every N, or out-of-memory chance P%", add_out_of_memory},
    {"random", 3, "random COUNT SEED", add_random},
    {"without", 2, "without virtual-memory|host-mappings|memory-pools|FUNCTION", set_without},
    {"accept", 2, "accept device-launches", set_accepted},
    {"elsewhere", 2, "elsewhere FUNCTION", add_elsewhere},
    {"newer", 2, "newer FUNCTION", add_newer},
    {"driver-version", 2, "driver-version 12.4", set_version},
    {"granularity", 2, "granularity 32MiB", set_granularity},
    {"address-bits", 2, "address-bits 40", set_address_bits},
    {"link", 2, "link FACTOR", set_link},
    {"mapping", 2, "mapping FACTOR", set_mapping},
    {"jitter", 2, "jitter P%", set_jitter},
    {"seed", 2, "seed N", set_seed},
};

Problem apply(const Words& words, FaultPlan* plan) {
  std::string known;
  for (const Statement& statement : kStatements) {
    if (words[0] == statement.word) {
      return words.size() == statement.words ? statement.apply(words, plan) : "expected " + std::string(statement.form);
    }
    known += (known.empty() ? "" : ", ") + std::string(statement.word);
  }
  return "unknown statement '" + words[0] + "'; known are " + known;
}

Problem parse(const std::string& text, FaultPlan* plan) {
  std::istringstream lines(text);
  std::string line;
  for (unsigned count = 1; std::getline(lines, line); ++count) {
    std::istringstream statements(line.substr(0, line.find('#')));
    std::string statement;
    while (std::getline(statements, statement, ';')) {
      std::istringstream stream(statement);
      const Words words{std::istream_iterator<std::string>(stream), {}};
      if (words.empty()) continue;
      if (const Problem problem = apply(words, plan); !problem.empty()) return std::to_string(count) + ": " + problem;
    }
  }
  return {};
}

}  // namespace

std::string read_fault_plan(std::string_view text_or_path, FaultPlan* out) {
  FaultPlan plan;
  const std::string text(text_or_path);
  // Every statement has a space, and a file that is there may have one in its name.
  std::error_code error;
  const bool is_path = text.find_first_of(" \n;") == std::string::npos || std::filesystem::is_regular_file(text, error);
  std::string problem;
  if (is_path) {
    std::ifstream file(text);
    if (!file) return "the plan of faults " + text + " can not be read";
    problem = parse(std::string(std::istreambuf_iterator<char>(file), {}), &plan);
    if (!problem.empty()) return text + ":" + problem;
  } else {
    problem = parse(text, &plan);
    if (!problem.empty()) return "plan of faults, line " + problem;
  }
  *out = std::move(plan);
  return {};
}

}  // namespace simulator
