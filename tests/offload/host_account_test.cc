// SPDX-License-Identifier: Apache-2.0
// Engines under a host limit that they share with other devices of the process: these are bytes in the account here.
#include "allocator/host_account.h"

#include <regex>
#include <string>
#include <utility>
#include <vector>

#include "tests/offload/engine_fixture.h"
#include "tests/offload/memory_file.h"

namespace thermocline {
namespace {

constexpr Bytes kBuffer = 4 * kPage;
constexpr Bytes kLimit = 40 * kPage;
constexpr Bytes kBudget = 8 * kPage;

std::string report_of_refusal;  // the handler has no context argument

class HostAccountTest : public EngineTest {
 protected:
  void start_beside(Bytes others, EngineOptions options = {}, Bytes limit = kLimit) {
    TearDown();
    held_.clear();
    account_ = std::make_unique<HostAccount>(limit, 2);
    EXPECT_TRUE(account_->change(0, others));
    others_ = others;
    options.budget_bytes = kBudget;
    options.policy = kReactivePolicy;
    options.host_limit_bytes = limit;
    options.host_account = account_.get();
    start(options);
    engine_->set_report_handler([](const std::string& text) { report_of_refusal = text; });
  }
  // Real memory, as a file needs it.
  void start_with_file(Bytes budget, Bytes limit, unsigned devices, Bytes disk = 400 * kPage) {
    account_ = std::make_unique<HostAccount>(limit, devices);
    std::string why;
    SimulatedDeviceOptions simulated;
    simulated.library = THERMOCLINE_SIMULATED_CUDA;
    simulated.memory_bytes = kGiB;
    simulated.check = true;
    simulated.tagged = false;
    device_ = SimulatedDevice::open(simulated, &why);
    ASSERT_NE(device_, nullptr) << why;
    const EngineOptions options{.budget_bytes = budget,
                                .policy = kReactivePolicy,
                                .host_limit_bytes = limit,
                                .host_account = account_.get(),
                                .spill_limit_bytes = disk};
    ASSERT_TRUE(Engine::create(device_->driver(), options, &engine_, std::make_shared<MemoryFile>(disk)).ok());
  }
  void others_hold(Bytes bytes) { EXPECT_TRUE(account_->change(std::exchange(others_, bytes), bytes)); }
  void TearDown() override {
    EngineTest::TearDown();
    EXPECT_EQ(account_ == nullptr ? 0 : account_->held(), others_) << "an engine that ends gives everything back";
    account_.reset();
    others_ = 0;
  }

  std::size_t fill() {
    DeviceAddress address;
    while (held_.size() < 100 && engine_->allocate(kBuffer, std::nullopt, &address).ok()) {
      held_.push_back(address);
      if (!operate({{address, kBuffer}}).ok()) break;
    }
    return held_.size();
  }
  void expect_all_usable() {
    for (int turn = 0; turn < 2; ++turn) {
      for (const DeviceAddress at : held_)
        EXPECT_TRUE(operate({{at, kBuffer}}).ok()) << "what was granted stays usable\n" << report_of_refusal;
    }
  }

  std::unique_ptr<HostAccount> account_;
  Bytes others_ = 0;
  std::vector<DeviceAddress> held_;
};

TEST_F(HostAccountTest, HoldsWhatOtherDevicesLeave) {
  start_beside(16 * kPage);
  EXPECT_EQ(fill(), 6u);
  EXPECT_FALSE(account_->change(0, kPage)) << "it is spoken for, taken or not";
  expect_all_usable();
  EXPECT_TRUE(engine_->others_left_too_little_host());
  others_hold(0);
  EXPECT_GT(fill(), 6u);
  EXPECT_FALSE(engine_->others_left_too_little_host()) << "there are none any more";
}

TEST_F(HostAccountTest, AloneItHasAllOfTheLimit) {
  start_beside(0);
  EXPECT_EQ(fill(), 10u);
  EXPECT_FALSE(engine_->others_left_too_little_host()) << "no other device has any of it";
  expect_all_usable();
}

// The other device has taken everything: what fits the device needs no host memory.
TEST_F(HostAccountTest, WhereOthersHaveAllOfItWhatFitsTheDeviceIsGranted) {
  start_beside(kLimit);
  EXPECT_EQ(fill(), 2u);
  expect_all_usable();
  EXPECT_EQ(engine_->statistics().evicted_bytes, 0u);
  EXPECT_NE(report_of_refusal.find("no room on the host beside the process's other devices"), std::string::npos)
      << report_of_refusal;
  others_hold(16 * kPage);
  EXPECT_EQ(fill(), 6u) << "what they give back can be had";
  expect_all_usable();
}

TEST_F(HostAccountTest, WhatIsFreedIsLeftToOthersOnRequest) {
  start_beside(0);
  EXPECT_EQ(fill(), 10u);
  while (held_.size() > 1) {
    EXPECT_TRUE(engine_->free(held_.back(), std::nullopt).ok());
    held_.pop_back();
  }
  expect_all_usable();
  EXPECT_TRUE(device_->driver().synchronize_context().ok());
  EXPECT_GT(engine_->trim_host(), 0u);
  EXPECT_EQ(engine_->trim_host(), 0u);
  others_hold(32 * kPage);
  expect_all_usable();
}

// Copies in whole pages leave gaps, which a claim includes: with less, granted memory could not all leave the device.
TEST_F(HostAccountTest, WithAHostFallbackAClaimIncludesTheGaps) {
  start_beside(40 * kPage, {.host_fallback = HostFallback::kAuto, .host_is_readable = false}, 80 * kPage);
  const std::size_t granted = fill();
  EXPECT_EQ(granted, 6u) << "of 40 pages 16 are for gaps";
  EXPECT_FALSE(account_->change(0, kPage));
  expect_all_usable();
}

TEST_F(HostAccountTest, TheAdviceOfTheReportWorks) {
  start_beside(16 * kPage);
  ASSERT_EQ(fill(), 6u);
  EXPECT_NE(report_of_refusal.find("of which other devices of the process hold 32.0 MiB"), std::string::npos)
      << report_of_refusal;
  std::smatch found;
  ASSERT_TRUE(std::regex_search(report_of_refusal, found, std::regex("do     host_limit = \"([0-9]+)MiB\"")))
      << report_of_refusal;
  start_beside(16 * kPage, {}, std::stoull(found[1]) * kMiB);
  EXPECT_EQ(fill(), 7u) << "as the advice says, and no more";
  expect_all_usable();
}

// Each device leaves the other ones what their copies need for passing through to the file.
TEST_F(HostAccountTest, WithAFileOthersCanStillPassCopiesThrough) {
  start_with_file(kBudget, kLimit, 2);
  DeviceAddress address;
  for (int i = 0; i < 16; ++i) {
    ASSERT_TRUE(engine_->allocate(kBuffer, std::nullopt, &address).ok()) << i;
    held_.push_back(address);
  }
  expect_all_usable();
  EXPECT_GT(account_->held(), 0u);
  EXPECT_LE(account_->held(), kLimit / 2) << "half of so small a limit";
  EXPECT_GT(engine_->statistics().spill_written_bytes, 0u);
}

// Another device needs host memory: copies go to the file, first down to a part of the limit.
TEST_F(HostAccountTest, WithAFileCopiesMakeWayForOtherDevices) {
  constexpr Bytes kRoomy = 120 * kMiB;
  start_with_file(kBudget, kRoomy, 1);
  DeviceAddress address;
  for (int i = 0; i < 16; ++i) {
    ASSERT_TRUE(engine_->allocate(kBuffer, std::nullopt, &address).ok()) << i;
    held_.push_back(address);
  }
  expect_all_usable();
  ASSERT_TRUE(device_->driver().synchronize_context().ok());
  EXPECT_GT(account_->held(), kRoomy / 2);
  EXPECT_TRUE(engine_->leave_host(2));
  EXPECT_LE(engine_->statistics().host_live_bytes, kRoomy / 2);
  EXPECT_TRUE(engine_->leave_host(0));
  EXPECT_LE(account_->held(), 3 * kBuffer) << "through which copies pass";
  others_hold(kRoomy - 3 * kBuffer);
  expect_all_usable();
  EXPECT_EQ(account_->held(), kRoomy);
  others_hold(0);
}

TEST_F(HostAccountTest, WhatTheFileDoesNotHoldStays) {
  start_with_file(kBudget, 120 * kMiB, 1, 4 * kBuffer);
  DeviceAddress address;
  while (engine_->allocate(kBuffer, std::nullopt, &address).ok()) {
    held_.push_back(address);
    ASSERT_TRUE(operate({{address, kBuffer}}).ok());
  }
  const Bytes held = account_->held();
  EXPECT_FALSE(engine_->leave_host(0));
  EXPECT_EQ(account_->held(), held);
  expect_all_usable();
}

// A process may use one device of a machine with many.
TEST_F(HostAccountTest, WithAFileALimitThatIsEnoughForOneOfManyDevicesIsEnough) {
  constexpr Bytes kUnit = 32 * kMiB, kEnoughForOne = 3 * kUnit;
  start_with_file(2 * kUnit, kEnoughForOne, 8);
  DeviceAddress address;
  for (int i = 0; i < 4; ++i) {
    ASSERT_TRUE(engine_->allocate(kUnit, std::nullopt, &address).ok()) << i;
    held_.push_back(address);
  }
  expect_all_usable();
  EXPECT_GT(engine_->statistics().spill_written_bytes, 0u);
  EXPECT_EQ(engine_->statistics().host_limit_bytes, kEnoughForOne) << "as it was set";
}

}  // namespace
}  // namespace thermocline
