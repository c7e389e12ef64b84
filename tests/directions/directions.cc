// SPDX-License-Identifier: Apache-2.0
// directions [--seeds N] [--first N] [--show]: random kernels, what the library says of their accesses, and
// what the executor does. Status 1: the library was wrong; each such kernel is printed.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "tests/directions/oracle.h"

namespace {

using directions::Counts;

void print_map(const char* name, const std::map<std::string, std::uint64_t>& map) {
  std::printf(",\n \"%s\": {", name);
  const char* between = "";
  for (const auto& [what, count] : map) {
    std::string escaped;
    for (const char c : what) escaped += c == '"' || c == '\\' ? std::string("\\") + c : std::string(1, c);
    std::printf("%s\n  \"%s\": %llu", between, escaped.c_str(), static_cast<unsigned long long>(count));
    between = ",";
  }
  std::printf("}");
}

void print(const Counts& all) {
  const std::pair<const char*, std::uint64_t> numbers[] = {{"kernels", all.kernels},
                                                           {"not_run", all.not_run},
                                                           {"known", all.known},
                                                           {"false_claims", all.false_claims},
                                                           {"said_read", all.said_read},
                                                           {"said_written", all.said_written},
                                                           {"said_both", all.said_both},
                                                           {"said_not_accessed", all.said_not_accessed},
                                                           {"proven_launches", all.proven},
                                                           {"exact_ranges", all.exact_ranges},
                                                           {"proven_begins", all.begins},
                                                           {"only_read", all.only_read},
                                                           {"found_only_read", all.found_only_read}};
  std::printf("{\"schema\": \"thermocline-bench-false-directions/1\"");
  for (const auto& [name, number] : numbers)
    std::printf(",\n \"%s\": %llu", name, static_cast<unsigned long long>(number));
  print_map("why_not_run", all.why_not_run);
  print_map("not_found", all.not_found);
  print_map("steps_in_known", all.steps);
  std::printf("}\n");
}

}  // namespace

int main(int argc, char** argv) {
  std::uint64_t first = 1, seeds = 1000;
  bool shows = false;
  for (int i = 1; i < argc; ++i) {
    const bool has_value = i + 1 < argc;
    if (std::strcmp(argv[i], "--show") == 0) {
      shows = true;
    } else if (has_value && std::strcmp(argv[i], "--seeds") == 0) {
      seeds = std::strtoull(argv[++i], nullptr, 10);
    } else if (has_value && std::strcmp(argv[i], "--first") == 0) {
      first = std::strtoull(argv[++i], nullptr, 10);
    } else {
      std::fprintf(stderr, "directions: '%s' is none of --seeds N, --first N, --show\n", argv[i]);
      return 2;
    }
  }
  directions::Oracle oracle;
  Counts counts;
  for (std::uint64_t seed = first; seed < first + seeds; ++seed) {
    const directions::RandomKernel kernel = directions::random_kernel(seed, oracle.memory());
    const std::string wrong = oracle.judge(kernel, &counts);
    if (!wrong.empty())
      std::fprintf(stderr, "directions: seed %llu: %s\n", static_cast<unsigned long long>(seed), wrong.c_str());
    if (!wrong.empty() || shows) std::fprintf(stderr, "%s", kernel.text.c_str());
  }
  print(counts);
  return counts.false_claims > 0 ? 1 : 0;
}
