// SPDX-License-Identifier: Apache-2.0
// The engine's statistics are right at every moment: while threads cache freed buffers, while buffers are on the host,
// and with the program's own mappings.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "allocator/thread_cache.h"
#include "driver/page_size.h"
#include "offload/engine/engine.h"
#include "trace/simulated_device.h"

namespace thermocline {
namespace {

constexpr Bytes kPage = kDefaultPageBytes;
constexpr StreamHandle kStream{};

class EngineStatisticsTest : public testing::Test {
 protected:
  void start(Bytes budget) {
    std::string why;
    SimulatedDeviceOptions simulated;
    simulated.library = THERMOCLINE_SIMULATED_CUDA;
    device_ = SimulatedDevice::open(simulated, &why);
    ASSERT_NE(device_, nullptr) << why;
    const EngineOptions options{.budget_bytes = budget, .policy = kReactivePolicy};
    ASSERT_TRUE(Engine::create(device_->driver(), options, &engine_).ok());
    engine_->set_report_handler([](const std::string&) {});
  }
  void TearDown() override {
    if (engine_ == nullptr) return;
    EXPECT_TRUE(device_->driver().synchronize_context().ok());
    engine_->validate();
    engine_.reset();
  }
  DeviceAddress allocate(Bytes bytes) {
    DeviceAddress address;
    EXPECT_TRUE(engine_->allocate(bytes, kStream, &address).ok());
    return address;
  }
  void free(DeviceAddress address) { EXPECT_TRUE(engine_->free(address, kStream).ok()); }
  void use(DeviceAddress address) {
    const MemoryAccess access{address, 0, Access::kUnknown};
    Operation operation = engine_->begin(kStream, {&access, 1});
    ASSERT_TRUE(operation.status().ok());
    const SimulatedOperand operand{address.value, 512, SIMULATED_OPERAND_READ | SIMULATED_OPERAND_WRITE};
    ASSERT_EQ(device_->control().launch_operator(nullptr, "use", 1e9, 1e6, std::nan(""), &operand, 1), 0);
    operation.commit();
  }
  static void expect_consistent(const EngineStatistics& s) {
    EXPECT_EQ(s.allocated_bytes - s.freed_bytes, s.live_bytes);
    EXPECT_EQ(s.created_bytes - s.destroyed_bytes + s.external_bytes, s.device_bytes);
    EXPECT_EQ(s.host_taken_bytes - s.host_given_bytes, s.host_bytes);
    EXPECT_EQ(s.allocations - s.frees, s.live_buffers);
    EXPECT_GE(s.peak_live_bytes, s.live_bytes);
    EXPECT_GE(s.peak_live_buffers, s.live_buffers);
    EXPECT_GE(s.peak_device_bytes, s.device_bytes);
    EXPECT_LE(s.peak_device_bytes, s.budget_bytes);
    Bytes live = s.external_bytes;
    std::uint64_t buffers = 0;
    for (const SizeClass& size_class : s.size_classes) {
      live += size_class.live_bytes;
      buffers += size_class.buffers;
    }
    EXPECT_EQ(live, s.live_bytes);
    EXPECT_EQ(buffers, s.live_buffers);
  }

  std::unique_ptr<SimulatedDevice> device_;
  std::unique_ptr<Engine> engine_;
};

TEST_F(EngineStatisticsTest, WhatAThreadKeepsIsNotLive) {
  start(64 * kPage);
  free(allocate(1000));  // what comes again is kept
  const DeviceAddress small = allocate(1000), large = allocate(3 * kMiB);
  free(small);
  free(large);
  EngineStatistics s = engine_->statistics();
  EXPECT_EQ(s.live_bytes, 0u);
  EXPECT_EQ(s.live_buffers, 0u);
  EXPECT_EQ(s.block_bytes, 2 * kMiB) << "the slab, in which the heap still has a buffer";
  expect_consistent(s);
  EXPECT_EQ(allocate(1000), small);
  s = engine_->statistics();
  EXPECT_EQ(s.live_bytes, 1000u);
  EXPECT_EQ(s.allocated_bytes, 3000u + 3 * kMiB);
  EXPECT_EQ(s.peak_live_bytes, 1000u + 3 * kMiB);
  EXPECT_EQ(s.largest_allocation_bytes, 3 * kMiB);
  expect_consistent(s);
}

// Compared with counts kept in the test.
TEST_F(EngineStatisticsTest, EveryNumberIsTrueAfterEveryCall) {
  start(64 * kPage);
  std::mt19937_64 random(1);
  std::vector<std::pair<DeviceAddress, Bytes>> live;
  Bytes live_bytes = 0, peak_bytes = 0, external = 0;
  std::size_t peak_buffers = 0;
  for (int turn = 0; turn < 4000; ++turn) {
    const std::uint64_t what = random() % 20;
    if (what < 9) {
      // Few sizes, so that many buffers come from the thread's cache.
      const Bytes bytes = Bytes{700} << (random() % 14);
      DeviceAddress address;
      if (engine_->allocate(bytes, kStream, &address).ok()) {
        live.emplace_back(address, bytes);
        live_bytes += bytes;
      }
    } else if (what < 17 && !live.empty()) {
      std::swap(live[random() % live.size()], live.back());
      free(live.back().first);
      live_bytes -= live.back().second;
      live.pop_back();
    } else if (what == 17 && external == 0 && engine_->add_external(kPage).ok()) {
      external = kPage;
    } else if (what == 18 && external > 0) {
      engine_->remove_external(external);
      external = 0;
    } else if (turn % 500 == 0) {
      engine_->reset_peaks();
      peak_bytes = 0;
      peak_buffers = 0;
    } else if (!live.empty()) {
      use(live[random() % live.size()].first);
    }
    peak_bytes = std::max(peak_bytes, live_bytes + external);
    peak_buffers = std::max(peak_buffers, live.size());
    const EngineStatistics s = engine_->statistics();
    ASSERT_EQ(s.live_bytes, live_bytes + external);
    ASSERT_EQ(s.live_buffers, live.size());
    ASSERT_EQ(s.peak_live_bytes, peak_bytes);
    ASSERT_GE(s.peak_live_buffers, peak_buffers);
    ASSERT_LE(s.peak_live_buffers, peak_buffers + ThreadCache::kSlots);
    expect_consistent(s);
    if (HasFailure()) return;
  }
  EXPECT_GT(engine_->statistics().allocations, 1000u);
}

TEST_F(EngineStatisticsTest, WhatIsOnTheHostCountsThere) {
  start(4 * kPage);
  std::vector<DeviceAddress> buffers;
  for (int i = 0; i < 6; ++i) {
    buffers.push_back(allocate(kPage));
    use(buffers.back());
  }
  const EngineStatistics s = engine_->statistics();
  EXPECT_EQ(s.live_bytes, 6 * kPage);
  EXPECT_LE(s.device_bytes, 4 * kPage);
  EXPECT_GE(s.nonresident_bytes, 2 * kPage);
  EXPECT_GE(s.host_live_bytes, 2 * kPage);
  EXPECT_GE(s.host_bytes, s.host_live_bytes);
  expect_consistent(s);
}

TEST_F(EngineStatisticsTest, AvailableIsWhatCanBeAllocatedWithoutAnythingLeaving) {
  start(8 * kPage);
  const DeviceAddress held = allocate(3 * kPage);
  use(held);
  EXPECT_EQ(engine_->statistics().available_bytes, 5 * kPage);
  use(allocate(engine_->statistics().available_bytes));
  EXPECT_EQ(engine_->statistics().evicted_bytes, 0u);
  EXPECT_EQ(engine_->statistics().available_bytes, 0u);
}

}  // namespace
}  // namespace thermocline
