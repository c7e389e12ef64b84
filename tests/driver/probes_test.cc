// SPDX-License-Identifier: Apache-2.0
// Probes on simulated drivers that satisfy the assumptions, and on drivers that violate them.
#include "driver/probes.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>

#include "driver/library.h"
#include "driver/mapping_waits.h"
#include "driver/table.h"
#include "simulator/control.h"

namespace thermocline {
namespace {

std::uint64_t calls = 0;

// An entry of the table that counts its calls.
template <auto member>
struct Counted;
template <class Result, class... Arguments, Result (*DriverTable::*member)(Arguments...)>
struct Counted<member> {
  static inline Result (*real)(Arguments...) = nullptr;
  static Result call(Arguments... arguments) {
    ++calls;
    return real(arguments...);
  }
  static void install(DriverTable* table) {
    real = table->*member;
    if (real != nullptr) table->*member = &call;
  }
};

class Probes : public ::testing::Test {
 protected:
  ~Probes() override {
    control_->reset();
    EXPECT_EQ(control_->configure("driver", ""), nullptr);
  }

  // `switches` empty: a driver that satisfies all assumptions.
  Findings probe(const std::string& switches) {
    control_->reset();
    EXPECT_EQ(control_->configure("driver", switches.c_str()), nullptr);
    EXPECT_TRUE(library_->initialise().ok() && library_->make_current(0).ok());
    EXPECT_TRUE(library_->driver().facts(&facts_).ok());
    table_ = library_->driver().table();
#define THERMOCLINE_COUNT(function, required) Counted<&DriverTable::function>::install(&table_);
    THERMOCLINE_DRIVER_FUNCTIONS(THERMOCLINE_COUNT)
#undef THERMOCLINE_COUNT
    calls = 0;
    const Findings findings = probe_mapping(Driver(table_), facts_);
    calls_ = calls;
    SimulatedStatistics statistics{};
    statistics.size = sizeof statistics;
    control_->statistics(&statistics);
    EXPECT_EQ(statistics.physical_bytes, 0u) << "probes free what they allocate";
    return findings;
  }

  std::string why_;
  std::unique_ptr<DriverLibrary> library_ = DriverLibrary::open(SIMULATED_CUDA, &why_);
  const SimulatedDeviceControl* control_ =
      reinterpret_cast<const SimulatedDeviceControl* (*)()>(library_->symbol("simulated_device_control"))();
  DeviceFacts facts_;
  DriverTable table_;
  std::uint64_t calls_ = 0;
};

void expect(const Findings& findings, std::initializer_list<Mechanism> failing) {
  for (const MechanismText& text : mechanism_texts()) {
    const bool fails = std::find(failing.begin(), failing.end(), text.mechanism) != failing.end();
    EXPECT_EQ(findings.fails(text.mechanism), fails) << text.name;
  }
}

TEST_F(Probes, FindNothingWrongWithADriverThatSatisfiesTheAssumptions) {
  const Findings findings = probe("");
  expect(findings, {});
  for (const MechanismText& text : mechanism_texts()) {
    const bool is_apart = text.mechanism == Mechanism::kHostMemory || text.mechanism == Mechanism::kMappingInFlight;
    const Finding expected = is_apart ? Finding::kNotTried : Finding::kWorks;
    EXPECT_EQ(findings.of(text.mechanism), expected) << text.name;
  }
}

// A limit on the cost of a program's first allocation.
TEST_F(Probes, MakeAFixedNumberOfDriverCalls) {
  static_cast<void>(probe(""));
  EXPECT_EQ(calls_, static_cast<std::uint64_t>(kCallsOfProbes));
}

TEST_F(Probes, FindEachMechanismThatFailsAndNoOther) {
  expect(probe("alias=off"), {Mechanism::kAlias});
  expect(probe("alias=apart"), {Mechanism::kAlias});
  expect(probe("access=one"), {Mechanism::kAccessRuns});
  expect(probe("unmap=one"), {Mechanism::kUnmapRuns});
  expect(probe("capture_mode=off"), {Mechanism::kCaptureMode});
  expect(probe("remap=forgets"), {Mechanism::kRemap});
  expect(probe("alias=off,access=one,unmap=one"), {Mechanism::kAlias, Mechanism::kAccessRuns, Mechanism::kUnmapRuns});
  expect(probe("unmap=waits,map=waits,host_free=returns,granularity=4MiB"), {});
}

TEST_F(Probes, AskNothingOfADeviceWithoutVirtualMemory) {
  expect(probe("virtual_memory=off"), {});
  EXPECT_EQ(calls_, 0u);
}

TEST_F(Probes, DoNotBlameAFullDevice) { expect(probe("handles=1,alias=off"), {Mechanism::kAlias}); }

TEST_F(Probes, CheckHostMemoryOnRequest) {
  Findings findings = probe("");
  probe_host_memory(Driver(table_), facts_, &findings);
  EXPECT_EQ(findings.of(Mechanism::kHostMemory), Finding::kWorks);
  findings = probe("host_mapping=off");
  probe_host_memory(Driver(table_), facts_, &findings);
  EXPECT_EQ(findings.of(Mechanism::kHostMemory), Finding::kNotTried);
}

TEST_F(Probes, FindWhetherMappingWaits) {
  const struct {
    const char* switches;
    Finding finding;
    WaitingCalls waiting;
    const char* call;
  } cases[] = {{"", Finding::kWorks, WaitingCalls::kNone, nullptr},
               {"map=waits", Finding::kFails, WaitingCalls::kAll, "cuMemMap"},
               {"unmap=waits", Finding::kFails, WaitingCalls::kUnmap, "cuMemUnmap"},
               {"map=waits,unmap=waits", Finding::kFails, WaitingCalls::kAll, "cuMemMap"},
               {"virtual_memory=off", Finding::kNotTried, WaitingCalls::kNone, nullptr}};
  for (const auto& [switches, finding, waiting, call] : cases) {
    static_cast<void>(probe(switches));
    const MappingInFlight found = probe_mapping_in_flight(Driver(table_), facts_);
    EXPECT_EQ(found.finding, finding) << switches;
    EXPECT_EQ(found.waiting, waiting) << switches;
    EXPECT_STREQ(found.call, call) << switches;
    SimulatedStatistics statistics{};
    statistics.size = sizeof statistics;
    control_->statistics(&statistics);
    EXPECT_EQ(statistics.physical_bytes, 0u) << switches;
  }
}

TEST_F(Probes, CanNotTellWhetherMappingWaitsWhereNoStreamWaits) {
  static_cast<void>(probe("map=waits"));
  table_.cuStreamWaitValue32 = nullptr;
  EXPECT_EQ(probe_mapping_in_flight(Driver(table_), facts_).finding, Finding::kNotTried);
}

TEST_F(Probes, StepsWorkWithADriverThatAcceptsOneMappingPerCall) {
  const Findings findings = probe("access=one,unmap=one");
  const Driver driver(table_, steps_for(findings, facts_.page_bytes));
  DeviceAddress at;
  PageHandle first{};
  PageHandle second{};
  const Bytes page = facts_.page_bytes;
  ASSERT_TRUE(driver.reserve(2 * page, page, &at).ok());
  ASSERT_TRUE(driver.create_page(page, 0, &first).ok() && driver.create_page(page, 0, &second).ok());
  ASSERT_TRUE(driver.map(at, page, first).ok() && driver.map(at + page, page, second).ok());
  EXPECT_FALSE(Driver(table_).set_access(at, 2 * page, 0).ok());
  EXPECT_TRUE(driver.set_access(at, 2 * page, 0).ok());
  EXPECT_FALSE(Driver(table_).unmap(at, 2 * page).ok());
  EXPECT_TRUE(driver.unmap(at, 2 * page).ok());
  EXPECT_TRUE(driver.destroy_page(first).ok() && driver.destroy_page(second).ok());
  EXPECT_TRUE(driver.release(at, 2 * page).ok());
}

}  // namespace
}  // namespace thermocline
