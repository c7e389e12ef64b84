// SPDX-License-Identifier: Apache-2.0
#include "tests/conformance/rule.h"

#include <algorithm>
#include <cstring>
#include <iterator>

namespace conformance {
namespace {

std::vector<Rule>& registered() {
  static std::vector<Rule> rules;
  return rules;
}

auto place_of(const Rule& rule) {
  return std::ranges::find_if(kSubjects, [&](const char* subject) { return std::strcmp(subject, rule.subject) == 0; });
}

}  // namespace

Registration::Registration(const Rule& rule) { registered().push_back(rule); }

std::vector<Rule> all_rules() {
  std::vector<Rule> rules = registered();
  std::ranges::stable_sort(rules, [](const Rule& a, const Rule& b) { return place_of(a) < place_of(b); });
  return rules;
}

}  // namespace conformance
