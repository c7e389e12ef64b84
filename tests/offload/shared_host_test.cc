// SPDX-License-Identifier: Apache-2.0
// Engines under a limit for pinned host memory that they share with other processes: what is granted stays usable, and
// refusals state the reason.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <regex>
#include <string>
#include <vector>

#include "driver/page_size.h"
#include "offload/engine/engine.h"
#include "tests/allocator/ledger_peer.h"
#include "trace/simulated_device.h"

namespace thermocline {
namespace {

constexpr Bytes kPage = kDefaultPageBytes;
constexpr Bytes kBuffer = 4 * kPage;
constexpr Bytes kLimit = 40 * kPage;

std::string report;  // the handler has no context argument

class SharedHostTest : public testing::Test {
 protected:
  SharedHostTest() { std::filesystem::create_directories(folder_); }
  ~SharedHostTest() override { std::filesystem::remove_all(folder_); }

  void SetUp() override {
    other_ = std::make_unique<Peer>(folder_, kLimit);
    start(kLimit);
  }
  void TearDown() override { end(); }

  void start(Bytes limit) {
    std::string why;
    ledger_ = HostLedger::open(folder_, limit, &why);
    ASSERT_NE(ledger_, nullptr) << why;
    SimulatedDeviceOptions simulated;
    simulated.library = THERMOCLINE_SIMULATED_CUDA;
    device_ = SimulatedDevice::open(simulated, &why);
    ASSERT_NE(device_, nullptr) << why;
    const EngineOptions options{.budget_bytes = 8 * kPage, .policy = kReactivePolicy, .host_ledger = ledger_.get()};
    ASSERT_TRUE(Engine::create(device_->driver(), options, &engine_).ok());
    engine_->set_report_handler([](const std::string& text) { report = text; });
    report.clear();
  }
  void end() {
    if (engine_ != nullptr) {
      EXPECT_TRUE(device_->driver().synchronize_context().ok());
      engine_->validate();
    }
    engine_.reset();
    device_.reset();
    EXPECT_EQ(ledger_ == nullptr ? 0 : ledger_->held(), 0u) << "an engine that ends gives everything back";
    ledger_.reset();
    held_.clear();
  }

  bool use(DeviceAddress buffer) {
    const MemoryAccess access{buffer, 0, Access::kUnknown};
    const SimulatedOperand operand{buffer.value, kBuffer, SIMULATED_OPERAND_READ | SIMULATED_OPERAND_WRITE};
    Operation operation = engine_->begin(StreamHandle{}, {&access, 1});
    if (!operation.status().ok()) return false;
    EXPECT_EQ(device_->control().launch_operator(nullptr, "use", 1e9, 1e6, std::nan(""), &operand, 1), 0);
    operation.commit();
    return true;
  }
  // Allocates and uses buffers until something is refused; returns how many buffers there are then.
  std::size_t fill() {
    DeviceAddress address;
    while (held_.size() < 100 && engine_->allocate(kBuffer, std::nullopt, &address).ok()) {
      held_.push_back(address);
      if (!use(address)) break;
    }
    return held_.size();
  }
  void expect_all_usable() {
    for (int turn = 0; turn < 2; ++turn) {
      for (const DeviceAddress at : held_) EXPECT_TRUE(use(at)) << "what was granted stays usable\n" << report;
    }
  }

  const std::string folder_ = std::filesystem::temp_directory_path() / ("shared_host_" + std::to_string(getpid()));
  std::unique_ptr<Peer> other_;
  std::unique_ptr<HostLedger> ledger_;
  std::unique_ptr<SimulatedDevice> device_;
  std::unique_ptr<Engine> engine_;
  std::vector<DeviceAddress> held_;
};

TEST_F(SharedHostTest, HoldsWhatOthersLeave) {
  ASSERT_TRUE(other_->hold(16 * kPage));
  EXPECT_EQ(fill(), 6u);
  EXPECT_FALSE(other_->hold(17 * kPage)) << "it is spoken for, taken or not";
  expect_all_usable();
  const EngineStatistics now = engine_->statistics();
  EXPECT_EQ(now.host_shared_limit_bytes, kLimit);
  EXPECT_EQ(now.host_shared_bytes, kLimit);
  EXPECT_EQ(now.host_claimed_bytes, 24 * kPage);
}

TEST_F(SharedHostTest, WhatAKilledProcessHeldCanBeHad) {
  ASSERT_TRUE(other_->hold(16 * kPage));
  EXPECT_EQ(fill(), 6u);
  other_->kill();
  EXPECT_EQ(fill(), 10u);
  expect_all_usable();
}

TEST_F(SharedHostTest, WhatFitsTheDeviceClaimsNothing) {
  ASSERT_TRUE(other_->hold(kLimit));
  EXPECT_EQ(fill(), 2u);
  expect_all_usable();
  EXPECT_EQ(engine_->statistics().evicted_bytes, 0u);
}

TEST_F(SharedHostTest, WhatIsFreedAndTrimmedIsLeftToOthers) {
  EXPECT_EQ(fill(), 10u);
  EXPECT_FALSE(other_->hold(kPage));
  while (held_.size() > 1) {
    EXPECT_TRUE(engine_->free(held_.back(), std::nullopt).ok());
    held_.pop_back();
  }
  EXPECT_TRUE(use(held_.front()));
  EXPECT_TRUE(device_->driver().synchronize_context().ok());
  ASSERT_TRUE(engine_->trim().ok());
  EXPECT_TRUE(other_->hold(32 * kPage));
}

TEST_F(SharedHostTest, TheReportSaysThatOthersHoldItAndWhatWouldHelp) {
  ASSERT_TRUE(other_->hold(16 * kPage));
  ASSERT_EQ(fill(), 6u);
  EXPECT_NE(report.find("no room on the host beside other processes"), std::string::npos) << report;
  EXPECT_NE(report.find("others hold 32.0 MiB"), std::string::npos) << report;
  std::smatch found;
  ASSERT_TRUE(std::regex_search(report, found, std::regex("do     host_limit_shared = \"([0-9]+)MiB\""))) << report;
  const Bytes advised = std::stoull(found[1]) * kMiB;
  end();
  start(advised);
  EXPECT_EQ(fill(), 7u) << "as the advice says, and no more";
  expect_all_usable();
}

}  // namespace
}  // namespace thermocline
