// SPDX-License-Identifier: Apache-2.0
// The engine waits without its lock, so other threads can use it meanwhile.
#include <thread>

#include "driver/locks.h"
#include "tests/offload/engine_fixture.h"
#include "tests/offload/fake_driver.h"

namespace thermocline {
namespace {

class WaitsTest : public EngineTest {
 protected:
  // `pins`: how much the driver pins.
  void begin(Bytes budget = 8 * kPage, Bytes host_limit = 0, Bytes pins = ~Bytes{0}) {
    std::string why;
    SimulatedDeviceOptions simulated;
    simulated.library = THERMOCLINE_SIMULATED_CUDA;
    device_ = SimulatedDevice::open(simulated, &why);
    ASSERT_NE(device_, nullptr) << why;
    table_ = telling_of_waits(device_->driver().table());
    pinned_memory.most = pins;
    if (pins == 0) refuse_pinned_memory(&table_);
    if (pins != 0 && pins != ~Bytes{0}) limit_pinned_memory(&table_);
    driver_ = std::make_unique<Driver>(table_);
    before_each_wait = [this] { waits(); };
    before_each_host_free = [this] { ++host_frees_; };
    host_frees_ = 0;
    EngineOptions options{
        .budget_bytes = budget, .policy = kLruPolicy, .host_limit_bytes = host_limit, .waits_without_lock = true};
    options.may_use_pageable = pins != ~Bytes{0};
    ASSERT_TRUE(Engine::create(*driver_, options, &engine_).ok());
    engine_->set_report_handler([](const std::string&) {});
    locks_are_checked.store(true);
  }
  void TearDown() override {
    before_each_wait = [] {};
    before_each_host_free = [] {};
    EngineTest::TearDown();
    locks_are_checked.store(false);
  }

  // Calls the engine as another thread may during the wait. If the lock is held, this never returns.
  void waits() {
    ++waits_;
    EXPECT_EQ(locks_held(), 0);
    std::thread([this] { engine_->validate(); }).join();
  }

  DriverTable table_;
  std::unique_ptr<Driver> driver_;
  int waits_ = 0, host_frees_ = 0;
};

TEST_F(WaitsTest, OthersHaveTheLockWhileAnOperationWaitsForRoom) {
  begin();
  std::vector<DeviceAddress> all;
  for (int i = 0; i < 12; ++i) all.push_back(allocate(2 * kPage));
  for (int round = 0; round < 3; ++round) {
    for (const DeviceAddress one : all) ASSERT_TRUE(operate({{one, 2 * kPage}}).ok());
  }
  EXPECT_GT(waits_, 0);
  EXPECT_GT(engine_->statistics().evictions, 0u);
  EXPECT_EQ(engine_->statistics().out_of_memory, 0u);
}

// In a copy to or from pageable memory the host waits with the lock held. What comes before it has completed by then: a
// kernel may loop until a thread acts that waits for the lock.
TEST_F(WaitsTest, OthersHaveTheLockUntilNothingButThePageableCopyIsLeft) {
  begin(8 * kPage, 0, 0);
  int copies = 0;
  before_each_pageable_copy = [&](CUstream stream) {
    ++copies;
    const StreamHandle handle{reinterpret_cast<std::uintptr_t>(stream)};
    EventHandle event{};
    ASSERT_TRUE(driver_->create_event(false, &event).ok());
    EXPECT_TRUE(driver_->record(event, handle).ok());
    EXPECT_TRUE(driver_->query(event).ok()) << "copy " << copies;
    EXPECT_TRUE(driver_->destroy_event(event).ok());
  };
  std::vector<DeviceAddress> all;
  for (int i = 0; i < 12; ++i) all.push_back(allocate(2 * kPage));
  for (int round = 0; round < 3; ++round) {
    for (const DeviceAddress one : all) ASSERT_TRUE(operate({{one, 2 * kPage}}).ok());
  }
  EXPECT_GT(waits_, 0);
  EXPECT_GT(copies, 24);
  EXPECT_EQ(engine_->statistics().pageable_bytes, engine_->statistics().host_bytes);
  EXPECT_EQ(engine_->statistics().out_of_memory, 0u);
}

// The driver pins room for two buffers, and there is one more than fits: the copy that still reads one of the two is
// waited for, without the lock, before anything goes to pageable memory.
TEST_F(WaitsTest, NothingGoesToPageableMemoryWhilePinnedMemoryIsAboutToBeFree) {
  begin(8 * kPage, 0, 4 * kPage);
  std::vector<DeviceAddress> all;
  for (int i = 0; i < 5; ++i) all.push_back(allocate(2 * kPage));
  for (int round = 0; round < 8; ++round) {
    for (const DeviceAddress one : all) ASSERT_TRUE(operate({{one, 2 * kPage}}).ok());
  }
  EXPECT_GT(waits_, 0);
  EXPECT_GT(engine_->statistics().evictions, 30u);
  EXPECT_EQ(engine_->statistics().peak_pageable_bytes, 0u);
  // With more live than both can hold, the rest is there.
  for (int i = 0; i < 4; ++i) all.push_back(allocate(2 * kPage));
  for (const DeviceAddress one : all) ASSERT_TRUE(operate({{one, 2 * kPage}}).ok());
  EXPECT_GT(engine_->statistics().peak_pageable_bytes, 0u);
}

TEST_F(WaitsTest, OthersHaveTheLockWhileABufferIsPinnedOrTheProgramMapsMemory) {
  begin();
  std::vector<DeviceAddress> all;
  for (int i = 0; i < 4; ++i) all.push_back(allocate(2 * kPage));
  for (const DeviceAddress one : all) ASSERT_TRUE(operate({{one, 2 * kPage}}).ok());
  ASSERT_TRUE(engine_->add_external(3 * kPage).ok());
  const int before = waits_;
  EXPECT_GT(before, 0);
  for (const DeviceAddress one : all) {
    ASSERT_TRUE(engine_->pin(one, "a test").ok());
    engine_->unpin(one, engine_->find(one)->number);
  }
  EXPECT_GT(waits_, before);
  engine_->remove_external(3 * kPage);
}

// Drivers synchronize the context when pinned memory is freed.
TEST_F(WaitsTest, OthersHaveTheLockWhilePinnedMemoryIsGivenBack) {
  begin();
  std::vector<DeviceAddress> all;
  for (int i = 0; i < 12; ++i) all.push_back(allocate(2 * kPage));
  for (const DeviceAddress one : all) ASSERT_TRUE(operate({{one, 2 * kPage}}).ok());
  for (const DeviceAddress one : all) ASSERT_TRUE(engine_->free(one, std::nullopt).ok());
  ASSERT_TRUE(device_->driver().synchronize_context().ok());
  engine_->synchronized_all();
  const int before = waits_;
  ASSERT_GT(engine_->statistics().host_bytes, 0u);
  ASSERT_TRUE(engine_->trim().ok());
  EXPECT_EQ(engine_->statistics().host_bytes, 0u);
  EXPECT_GT(waits_, before);
}

// Pinned memory for buffers of one size stands in the way of that for another.
TEST_F(WaitsTest, OthersHaveTheLockWhilePinnedMemoryOfOneSizeMakesWayForAnother) {
  constexpr Bytes kHostLimit = 35 * kPage;
  begin(16 * kPage, kHostLimit);
  const auto exchange = [this](Bytes bytes, int count) {
    std::vector<DeviceAddress> all;
    for (int i = 0; i < count; ++i) all.push_back(allocate(bytes));
    for (int round = 0; round < 2; ++round) {
      for (const DeviceAddress one : all) ASSERT_TRUE(operate({{one, bytes}}).ok());
    }
    for (const DeviceAddress one : all) ASSERT_TRUE(engine_->free(one, std::nullopt).ok());
  };
  exchange(10 * kPage, 3);
  EXPECT_EQ(host_frees_, 0);
  exchange(15 * kPage, 2);
  EXPECT_GT(host_frees_, 0);
  EXPECT_EQ(engine_->statistics().out_of_memory, 0u);
  EXPECT_LE(engine_->statistics().peak_host_bytes, kHostLimit);
}

}  // namespace
}  // namespace thermocline
