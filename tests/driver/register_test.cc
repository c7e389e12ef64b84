// SPDX-License-Identifier: Apache-2.0
// The register of assumptions has no empty cell, and the rules, mechanisms and switches that it names exist.
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "driver/assumptions.h"
#include "driver/library.h"
#include "driver/probes.h"
#include "simulator/control.h"
#include "tests/conformance/rule.h"

namespace thermocline {
namespace {

std::vector<Assumption> all() {
  std::vector<Assumption> rows;
  for (const auto table : {assumptions_of_mapping(), assumptions_of_work(), assumptions_of_surroundings()}) {
    rows.insert(rows.end(), table.begin(), table.end());
  }
  return rows;
}

std::vector<std::string> words(const char* text) {
  std::istringstream stream(text);
  return {std::istream_iterator<std::string>(stream), {}};
}

TEST(Register, HasNoEmptyCell) {
  std::set<std::string> ids;
  for (const Assumption& a : all()) {
    EXPECT_TRUE(ids.insert(a.id).second) << a.id << " is listed twice";
    for (const char* cell : {a.id, a.relies, a.source, a.simulator, a.breaks, a.fallback})
      EXPECT_STRNE(cell, "") << a.id;
    const bool is_asked = *a.rules != '\0' || *a.at_start != '\0';
    EXPECT_NE(is_asked, *a.no_probe != '\0') << a.id << " is checked, or says why not";
  }
}

TEST(Register, NamesExistingRules) {
  std::set<std::string> rules;
  for (const conformance::Rule& rule : conformance::all_rules()) rules.insert(rule.name);
  for (const Assumption& a : all()) {
    for (const std::string& rule : words(a.rules)) EXPECT_TRUE(rules.contains(rule)) << a.id << ": " << rule;
  }
}

TEST(Register, NamesEachProbedMechanism) {
  std::set<std::string> named;
  std::set<std::string> tried;
  for (const MechanismText& text : mechanism_texts()) tried.insert(text.name);
  for (const Assumption& a : all()) {
    if (*a.at_start == '\0') continue;
    named.insert(a.at_start);
    EXPECT_TRUE(tried.contains(a.at_start)) << a.id;
  }
  EXPECT_EQ(named, tried);
}

TEST(Register, NamesEachSwitchOfTheSimulatedDriver) {
  std::string why;
  const auto library = DriverLibrary::open(SIMULATED_CUDA, &why);
  ASSERT_NE(library, nullptr) << why;
  const auto* const control =
      reinterpret_cast<const SimulatedDeviceControl* (*)()>(library->symbol("simulated_device_control"))();
  std::string named = ",";
  for (const Assumption& a : all()) {
    for (const std::string& statement : words(a.switches)) {
      EXPECT_EQ(control->configure("driver", statement.c_str()), nullptr) << a.id << ": " << statement;
      named += statement.substr(0, statement.find('=')) + ",";
    }
  }
  // The error message lists all switches.
  const std::string complaint = control->configure("driver", "none");
  std::string known = complaint.substr(complaint.find("known are ") + 10);
  std::replace(known.begin(), known.end(), ',', ' ');
  EXPECT_GE(words(known.c_str()).size(), 20u);
  for (const std::string& one : words(known.c_str())) {
    EXPECT_NE(named.find("," + one + ","), std::string::npos) << one << " belongs to no assumption";
  }
}

}  // namespace
}  // namespace thermocline
