// SPDX-License-Identifier: Apache-2.0
// An engine on the simulated device with tagged memory, and operators about which the engine is told as much as the
// test wants.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "driver/page_size.h"
#include "offload/engine/engine.h"
#include "trace/simulated_device.h"

namespace thermocline {

inline constexpr Bytes kPage = kDefaultPageBytes;
inline constexpr StreamHandle kStream{};

class EngineTest : public testing::Test {
 protected:
  void start(EngineOptions options, Bytes device_bytes = 0) {
    std::string why;
    SimulatedDeviceOptions simulated;
    simulated.library = THERMOCLINE_SIMULATED_CUDA;
    simulated.memory_bytes = device_bytes;
    simulated.check = true;
    device_ = SimulatedDevice::open(simulated, &why);
    ASSERT_NE(device_, nullptr) << why;
    ASSERT_TRUE(Engine::create(device_->driver(), options, &engine_).ok());
    engine_->set_report_handler([](const std::string&) {});
  }
  void TearDown() override {
    if (engine_ != nullptr) {
      EXPECT_TRUE(device_->driver().synchronize_context().ok());
      engine_->validate();
      EXPECT_EQ(races(), 0u);
    }
    engine_.reset();
    device_.reset();
  }

  DeviceAddress allocate(Bytes bytes) {
    DeviceAddress address;
    EXPECT_TRUE(engine_->allocate(bytes, std::nullopt, &address).ok());
    return address;
  }
  using Operands = std::vector<std::pair<DeviceAddress, Bytes>>;
  // Runs one operator on the buffers; by default it reads and writes them, and the engine is not told which.
  Status operate(const Operands& buffers, Access access = Access::kUnknown) {
    return submit(buffers, access, {.kind = 7, .nanoseconds = 1000}, std::nan(""));
  }
  Status submit(const Operands& buffers, Access access, OperationInfo info, double microseconds) {
    std::vector<MemoryAccess> accesses;
    std::vector<SimulatedOperand> operands;
    for (const auto& [address, bytes] : buffers) {
      accesses.push_back({address, access == Access::kUnknown ? 0 : bytes, access});
      const std::uint32_t reads = access == Access::kWrite ? 0 : std::uint32_t{SIMULATED_OPERAND_READ};
      const std::uint32_t writes = access == Access::kRead ? 0 : std::uint32_t{SIMULATED_OPERAND_WRITE};
      operands.push_back({address.value, bytes, reads | writes});
    }
    Operation operation = engine_->begin(kStream, accesses, info);
    if (!operation.status().ok()) return operation.status();
    EXPECT_EQ(device_->control().launch_operator(nullptr, "operator", 1e9, 1e6, microseconds, operands.data(),
                                                 operands.size()),
              0);
    operation.commit();
    engine_->validate();
    return {};
  }
  std::uint64_t races() {
    SimulatedStatistics statistics{};
    statistics.size = sizeof statistics;
    device_->control().statistics(&statistics);
    return statistics.races;
  }
  std::uint64_t checksum() {
    EXPECT_TRUE(device_->driver().synchronize_context().ok());
    return device_->control().checksum();
  }

  std::unique_ptr<SimulatedDevice> device_;
  std::unique_ptr<Engine> engine_;
};

}  // namespace thermocline
