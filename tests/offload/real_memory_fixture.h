// SPDX-License-Identifier: Apache-2.0
// An engine on the simulated device with real memory and digests: the kernel computes them, and every byte is compared.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <optional>
#include <string>

#include "driver/page_size.h"
#include "driver/table.h"
#include "offload/engine/engine.h"
#include "tests/offload/fake_driver.h"
#include "trace/simulated_device.h"

namespace thermocline {

inline constexpr Bytes kPage = kDefaultPageBytes;
inline constexpr StreamHandle kStream{};

class RealMemoryTest : public testing::TestWithParam<HostFallback> {
 protected:
  void start(EngineOptions options, std::optional<std::uint64_t> seed = {}, void (*change)(DriverTable*) = nullptr) {
    std::string why;
    SimulatedDeviceOptions simulated;
    simulated.library = THERMOCLINE_SIMULATED_CUDA;
    simulated.check = true;
    simulated.tagged = false;
    simulated.seed = seed;
    device_ = SimulatedDevice::open(simulated, &why);
    ASSERT_NE(device_, nullptr) << why;
    table_ = device_->driver().table();
    watch_launches(&table_);
    if (change != nullptr) change(&table_);
    options.digests = DigestUse::kAuto;
    driver_ = std::make_unique<Driver>(table_);
    ASSERT_TRUE(Engine::create(*driver_, options, &engine_).ok());
    engine_->set_report_handler([](const std::string&) {});
    ASSERT_TRUE(driver().allocate_host(kMost, &pinned_).ok());
  }
  void start(const PolicyEntry* policy = kReactivePolicy) {
    start({.budget_bytes = 8 * kPage, .policy = policy, .host_fallback = GetParam()});
  }
  void TearDown() override {
    if (engine_ == nullptr) return;
    EXPECT_TRUE(driver().synchronize_context().ok());
    engine_->validate();
    engine_.reset();
    EXPECT_TRUE(driver().free_host(pinned_).ok());
    SimulatedStatistics statistics{};
    statistics.size = sizeof statistics;
    device_->control().statistics(&statistics);
    EXPECT_EQ(statistics.races, 0u);
    device_.reset();
  }

  const Driver& driver() const { return device_->driver(); }
  DeviceAddress allocate(Bytes bytes) {
    DeviceAddress address;
    EXPECT_TRUE(engine_->allocate(bytes, std::nullopt, &address).ok());
    return address;
  }
  void synchronize() {
    ASSERT_TRUE(driver().synchronize_context().ok());
    engine_->synchronized_all();
  }
  // The engine is told that it may write, and it does: all of it, or `bytes` from `offset` on.
  void write(DeviceAddress at, Bytes bytes, unsigned char value, Bytes offset = 0) {
    synchronize();  // of what was in `pinned_` before
    write_at_once(at, bytes, value, offset);
  }
  void write_at_once(DeviceAddress at, Bytes bytes, unsigned char value, Bytes offset = 0) {
    const MemoryAccess access{at};
    Operation operation = engine_->begin(kStream, {&access, 1});
    ASSERT_TRUE(operation.status().ok());
    std::memset(pinned_, value, bytes);
    ASSERT_TRUE(driver().copy_to_device(at + offset, pinned_, bytes, kStream).ok());
    operation.commit();
    engine_->validate();
  }
  // The same, but it only reads: what a kernel does that is given weights.
  void use(DeviceAddress at, Bytes bytes = 64) {
    const MemoryAccess access{at};
    Operation operation = engine_->begin(kStream, {&access, 1});
    ASSERT_TRUE(operation.status().ok());
    ASSERT_TRUE(driver().copy_to_host(pinned_, at, bytes, kStream).ok());
    operation.commit();
    engine_->validate();
  }
  ::testing::AssertionResult holds(DeviceAddress at, Bytes bytes, unsigned char value, Bytes offset = 0) {
    use(at);
    const MemoryAccess access{at + offset, bytes, Access::kRead};
    Operation operation = engine_->begin(kStream, {&access, 1});
    if (!operation.status().ok()) return ::testing::AssertionFailure() << "error " << operation.status().code();
    if (!driver().copy_to_host(pinned_, at + offset, bytes, kStream).ok()) return ::testing::AssertionFailure();
    operation.commit();
    synchronize();
    const auto* const found = static_cast<const unsigned char*>(pinned_);
    // All bytes are alike where each is like its neighbor.
    if (found[0] != value || std::memcmp(found, found + 1, bytes - 1) != 0) {
      return ::testing::AssertionFailure() << "it begins with " << int{found[0]};
    }
    return ::testing::AssertionSuccess();
  }
  EngineStatistics statistics() const { return engine_->statistics(); }

  static constexpr Bytes kMost = 96 * kMiB;
  std::unique_ptr<SimulatedDevice> device_;
  DriverTable table_;
  std::unique_ptr<Driver> driver_;
  std::unique_ptr<Engine> engine_;
  void* pinned_ = nullptr;
};

}  // namespace thermocline
