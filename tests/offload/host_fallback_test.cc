// SPDX-License-Identifier: Apache-2.0
// Mappings of evicted addresses, on the simulated device with tagged memory; tests with bytes are in tests/preload.
#include "offload/residency/host_fallback.h"
#include "driver/page_size.h"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "offload/engine/engine.h"
#include "trace/simulated_device.h"

namespace thermocline {
namespace {

constexpr Bytes kPage = kDefaultPageBytes;
constexpr StreamHandle kStream{};

class NetTest : public testing::TestWithParam<HostFallback> {
 protected:
  void start(HostFallback fallback, const PolicyEntry* policy = kReactivePolicy, Safety safety = Safety::kStrict,
             bool waits_without_lock = false) {
    std::string why;
    SimulatedDeviceOptions simulated;
    simulated.library = THERMOCLINE_SIMULATED_CUDA;
    simulated.check = true;
    device_ = SimulatedDevice::open(simulated, &why);
    ASSERT_NE(device_, nullptr) << why;
    const EngineOptions options{.budget_bytes = 8 * kPage,
                                .policy = policy,
                                .safety = safety,
                                .host_fallback = fallback,
                                .host_is_readable = false,
                                .waits_without_lock = waits_without_lock};
    ASSERT_TRUE(Engine::create(device_->driver(), options, &engine_).ok());
    engine_->set_report_handler([](const std::string&) {});
  }
  void TearDown() override {
    if (engine_ != nullptr) engine_->validate();
    engine_.reset();
    device_.reset();
  }

  DeviceAddress allocate(Bytes bytes) {
    DeviceAddress address;
    EXPECT_TRUE(engine_->allocate(bytes, std::nullopt, &address).ok());
    return address;
  }
  // Runs one operator that reads and writes the buffer. `seen`: the engine is told. `flags`: what it does to the
  // buffer.
  void operate(DeviceAddress at, Bytes bytes, bool seen = true,
               std::uint32_t flags = SIMULATED_OPERAND_READ | SIMULATED_OPERAND_WRITE) {
    const MemoryAccess access{at};
    Operation operation = engine_->begin(kStream, {&access, seen ? 1u : 0u}, {.kind = 7, .follows = true});
    ASSERT_TRUE(operation.status().ok());
    const SimulatedOperand operand{at.value, bytes, flags};
    ASSERT_EQ(device_->control().launch_operator(nullptr, "operator", 0, 0, 5, &operand, 1), 0);
    operation.commit();
    engine_->validate();
  }
  // Two buffers of 5 pages alternate in a budget of 8; the second one is accessed unseen while it is evicted. Returns
  // the checksum of everything computed, or 0 if the device faulted.
  std::uint64_t take_turns() {
    const DeviceAddress a = allocate(5 * kPage), b = allocate(5 * kPage);
    for (const DeviceAddress at : {a, b}) {
      operate(at, 5 * kPage, true, SIMULATED_OPERAND_WRITE | SIMULATED_OPERAND_FRESH);
    }
    for (int turn = 0; turn < 4; ++turn) {
      operate(b, 5 * kPage);
      operate(a, 5 * kPage);
      operate(b, 5 * kPage, false);
      if (!device_->driver().synchronize_context().ok()) return 0;
      engine_->synchronized_all();
    }
    operate(b, 5 * kPage);
    EXPECT_TRUE(device_->driver().synchronize_context().ok());
    SimulatedStatistics statistics{};
    statistics.size = sizeof statistics;
    device_->control().statistics(&statistics);
    EXPECT_EQ(statistics.races, 0u);
    return device_->control().checksum();
  }

  std::unique_ptr<SimulatedDevice> device_;
  std::unique_ptr<Engine> engine_;
};

TEST_P(NetTest, EvictedAddressesLeadToTheHost) {
  start(HostFallback::kOff, kNoPolicy);
  engine_.reset();
  ASSERT_TRUE(Engine::create(device_->driver(), {.budget_bytes = 16 * kPage}, &engine_).ok());
  const std::uint64_t expected = take_turns();
  ASSERT_NE(expected, 0u);
  TearDown();

  start(GetParam());
  EXPECT_EQ(take_turns(), expected);
  const EngineStatistics s = engine_->statistics();
  EXPECT_GT(s.fallback_evictions, 0u);
  EXPECT_GE(s.fallback_evictions, s.evictions) << "with a full host fallback also what is new and has no room";
  EXPECT_EQ(s.unmapped_evictions, 0u);
  EXPECT_LE(s.peak_device_bytes, 8 * kPage);
}

// A full host fallback abandons copies out in progress when an operation is prepared again. An operation that starts
// again after each of its waits must not begin them anew each time, or it would never end.
TEST_P(NetTest, AnOperationThatWaitsWithTheLockOpenCopiesNothingOutTwice) {
  Bytes copied_in_place = 0;
  for (const bool waits_without_lock : {false, true}) {
    start(GetParam(), kReactivePolicy, Safety::kStrict, waits_without_lock);
    const DeviceAddress a = allocate(5 * kPage), b = allocate(5 * kPage);
    for (const DeviceAddress at : {a, b, a, b}) operate(at, 5 * kPage);
    const Bytes copied = engine_->statistics().evicted_bytes;
    if (!waits_without_lock) copied_in_place = copied;
    EXPECT_EQ(copied, copied_in_place);
    EXPECT_GT(copied, 0u);
    ASSERT_TRUE(device_->driver().synchronize_context().ok());
    TearDown();
  }
}

TEST_P(NetTest, WhatIsFreedWhileItIsAwayLeavesNothingBehind) {
  start(GetParam());
  for (int turn = 0; turn < 8; ++turn) {
    const DeviceAddress a = allocate(5 * kPage), b = allocate(5 * kPage), small = allocate(1000);
    operate(a, 5 * kPage);
    operate(small, 1000);
    operate(b, 5 * kPage);
    // A copy to the buffer that is being freed is in progress, ordered in its stream.
    operate(a, 5 * kPage, false);
    for (const DeviceAddress at : {a, small, b}) ASSERT_TRUE(engine_->free(at, kStream).ok());
    engine_->validate();
  }
  ASSERT_TRUE(device_->driver().synchronize_context().ok());
  engine_->synchronized_all();
  ASSERT_TRUE(engine_->trim().ok());
  const EngineStatistics s = engine_->statistics();
  EXPECT_GT(s.fallback_evictions, 0u);
  EXPECT_EQ(s.host_bytes, 0u);
  EXPECT_EQ(s.device_bytes, 0u);
}

INSTANTIATE_TEST_SUITE_P(Modes, NetTest, testing::Values(HostFallback::kAuto, HostFallback::kFull));

TEST_F(NetTest, IsOffWhereAddressesLeadToOthersPages) {
  start(HostFallback::kAuto, kReactivePolicy, Safety::kTrusting);
  const DeviceAddress a = allocate(5 * kPage), b = allocate(5 * kPage);
  for (int turn = 0; turn < 3; ++turn) {
    operate(a, 5 * kPage);
    operate(b, 5 * kPage);
  }
  ASSERT_TRUE(device_->driver().synchronize_context().ok());
  EXPECT_GT(engine_->statistics().evictions, 0u);
  EXPECT_EQ(engine_->statistics().fallback_evictions, 0u);
}

TEST(DigestOfSamples, SeesEveryByteOfAFewAndTheEndsOfMany) {
  std::vector<unsigned char> few(4096, 7);
  const std::uint64_t before = digest_of_samples(few);
  for (const std::size_t at : {0u, 1u, 63u, 64u, 2000u, 4095u}) {
    few[at] ^= 1;
    EXPECT_NE(digest_of_samples(few), before) << at;
    few[at] ^= 1;
  }
  EXPECT_EQ(digest_of_samples(few), before);
  std::vector<unsigned char> many(100'001, 7);
  const std::uint64_t of_many = digest_of_samples(many);
  for (const std::size_t at : {std::size_t{0}, many.size() - 1}) {
    many[at] ^= 1;
    EXPECT_NE(digest_of_samples(many), of_many) << at;
    many[at] ^= 1;
  }
  // With 62 ranges between them, adjacent from end to end.
  constexpr std::size_t kEach = (100'001 - 64) / 63;
  for (std::size_t line = 0; line < 64; ++line) {
    for (const std::size_t at : {line * kEach, line * kEach + 63}) {
      many[at] ^= 0x80;
      EXPECT_NE(digest_of_samples(many), of_many) << line;
      many[at] ^= 0x80;
    }
  }
  // A write to all of it is detected by any sample.
  for (unsigned char& byte : many) ++byte;
  EXPECT_NE(digest_of_samples(many), of_many);
  EXPECT_NE(digest_of_samples(std::vector<unsigned char>(8)), digest_of_samples(std::vector<unsigned char>(9)));
}

}  // namespace
}  // namespace thermocline
