// SPDX-License-Identifier: Apache-2.0
// The engine with a driver that refuses a call, or has less memory than the limit allows: errors found by random
// programs (tests/fuzz_engine), each reduced to its smallest form.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "driver/page_size.h"
#include "offload/engine/engine.h"
#include "tests/fuzz_engine/faults.h"
#include "trace/simulated_device.h"

namespace thermocline {
namespace {

constexpr Bytes kPage = kDefaultPageBytes;
constexpr StreamHandle kStream{};

class FailingDriverTest : public testing::Test {
 protected:
  void start(EngineOptions options, Bytes memory = 0) {
    std::string why;
    SimulatedDeviceOptions simulated;
    simulated.library = THERMOCLINE_SIMULATED_CUDA;
    simulated.memory_bytes = memory;
    simulated.check = true;
    device_ = SimulatedDevice::open(simulated, &why);
    ASSERT_NE(device_, nullptr) << why;
    faulty_ = std::make_unique<fuzz_engine::FaultyDriver>(device_->driver().table(), fuzz_engine::FaultPlan{});
    ASSERT_TRUE(Engine::create(faulty_->driver(), options, &engine_).ok());
    engine_->set_report_handler([](const std::string&) {});
  }
  void TearDown() override {
    if (engine_ == nullptr) return;
    EXPECT_TRUE(device_->driver().synchronize_context().ok());
    engine_->validate();
    engine_.reset();
    EXPECT_EQ(faulty_->held(), "");
    faulty_.reset();
    SimulatedStatistics statistics{};
    statistics.size = sizeof statistics;
    device_->control().statistics(&statistics);
    EXPECT_EQ(statistics.races, 0U);
    device_.reset();
  }

  DeviceAddress allocate(Bytes bytes) {
    DeviceAddress address;
    EXPECT_TRUE(engine_->allocate(bytes, std::nullopt, &address).ok());
    return address;
  }
  Status access(DeviceAddress address, StreamHandle stream = kStream) {
    const MemoryAccess access{address};
    Operation operation = engine_->begin(stream, {&access, 1});
    if (!operation.status().ok()) return operation.status();
    const SimulatedOperand operand{address.value, 64 * kKiB, SIMULATED_OPERAND_READ | SIMULATED_OPERAND_WRITE};
    void* const at = reinterpret_cast<void*>(static_cast<std::uintptr_t>(stream));
    EXPECT_EQ(device_->control().launch_operator(at, "operator", 0, 0, 1, &operand, 1), 0);
    operation.commit();
    engine_->validate();
    return {};
  }
  std::uint64_t checksum() {
    EXPECT_TRUE(device_->driver().synchronize_context().ok());
    return device_->control().checksum();
  }

  std::unique_ptr<SimulatedDevice> device_;
  std::unique_ptr<fuzz_engine::FaultyDriver> faulty_;
  std::unique_ptr<Engine> engine_;
};

TEST_F(FailingDriverTest, APartThatIsNotUnmappedStaysAndAnotherOneLeaves) {
  start({.budget_bytes = 8 * kPage});
  const DeviceAddress a = allocate(4 * kPage), b = allocate(4 * kPage), c = allocate(4 * kPage);
  ASSERT_TRUE(access(a).ok());
  ASSERT_TRUE(access(b).ok());
  faulty_->fail_next("unmap");
  EXPECT_TRUE(access(c).ok());
  EXPECT_EQ(faulty_->failed(), 1U);
  EXPECT_TRUE(access(a).ok());
}

TEST_F(FailingDriverTest, WhatCanNotBeUnmappedAtAllIsOutOfMemoryAndNoMore) {
  start({.budget_bytes = 8 * kPage});
  const DeviceAddress a = allocate(4 * kPage), b = allocate(4 * kPage), c = allocate(4 * kPage);
  ASSERT_TRUE(access(a).ok());
  ASSERT_TRUE(access(b).ok());
  faulty_->fail_next("unmap", 1000);
  EXPECT_TRUE(access(c).is_out_of_memory());
  faulty_->fail_next("unmap", 0);
  for (const DeviceAddress at : {c, a, b}) EXPECT_TRUE(access(at).ok());
}

// The driver creates host pages and maps them for the device, but does not copy from them.
TEST_F(FailingDriverTest, WithoutCopiesFromMappableMemoryThereIsNoNet) {
  start({.budget_bytes = 8 * kPage, .host_fallback = HostFallback::kAuto, .host_is_readable = false});
  const DeviceAddress a = allocate(5 * kPage), b = allocate(5 * kPage);
  ASSERT_TRUE(access(a).ok());
  // The first copies are the ones that test such memory.
  faulty_->fail_next("copy to device", 1000);
  ASSERT_TRUE(access(b).ok());
  EXPECT_GT(faulty_->failed(), 0U);
  faulty_->fail_next("copy to device", 0);
  for (const DeviceAddress at : {a, b, a}) ASSERT_TRUE(access(at).ok());
  const EngineStatistics s = engine_->statistics();
  EXPECT_GT(s.evictions, 0U);
  EXPECT_EQ(s.fallback_evictions, 0U);
  EXPECT_EQ(s.unmapped_evictions, s.evictions);
}

// Then an operation that may access more than fits is refused: the addresses of what was left out would be unmapped.
TEST_F(FailingDriverTest, WithoutANetThatHoldsWhatIsKnownMustFit) {
  for (const bool fails : {false, true}) {
    start({.budget_bytes = 8 * kPage, .host_fallback = HostFallback::kFull, .host_is_readable = false});
    if (fails) faulty_->fail_next("copy to device", 1000);
    const DeviceAddress table = allocate(256), a = allocate(5 * kPage), b = allocate(5 * kPage);
    for (const DeviceAddress at : {a, b}) EXPECT_TRUE(access(at).ok() || fails);
    faulty_->fail_next("copy to device", 0);
    for (const DeviceAddress at : {a, b}) ASSERT_TRUE(access(at).ok());
    EXPECT_EQ(engine_->statistics().unmapped_evictions > 0, fails);
    const HeldWord words[] = {{table, a.value}, {table + 8, b.value}};
    engine_->hold(words);
    const MemoryAccess given{table};
    const OperationInfo reader{.kind = 7, .name = "reader", .follows = true};
    EXPECT_EQ(engine_->begin(kStream, {&given, 1}, reader).status().is_out_of_memory(), fails);
    TearDown();
  }
}

// Contents whose fetch failed are not on the device, and the next access fetches them again.
TEST_F(FailingDriverTest, ACopyBackThatFailsIsMadeByTheNextAccess) {
  std::uint64_t sums[2];
  for (const bool fails : {false, true}) {
    start({.budget_bytes = 8 * kPage});
    const DeviceAddress a = allocate(4 * kPage), b = allocate(4 * kPage), c = allocate(4 * kPage);
    for (const DeviceAddress at : {a, b, c}) ASSERT_TRUE(access(at).ok());
    ASSERT_FALSE(engine_->find(a)->resident);
    if (fails) {
      faulty_->fail_next("copy to device");
      EXPECT_FALSE(access(a).ok());
    }
    for (const DeviceAddress at : {a, b, c}) ASSERT_TRUE(access(at).ok());
    sums[fails] = checksum();
    TearDown();
  }
  EXPECT_EQ(sums[0], sums[1]);
}

TEST_F(FailingDriverTest, PagesThatCanNotBeTakenBackStayWithTheBuffer) {
  start({.budget_bytes = 8 * kPage});
  DeviceAddress refused;
  faulty_->fail_next("set access");
  EXPECT_FALSE(engine_->allocate(2 * kPage, std::nullopt, &refused).ok());
  const DeviceAddress a = allocate(4 * kPage);
  EXPECT_TRUE(access(a).ok());
  EXPECT_LE(engine_->statistics().device_bytes, 8 * kPage);
}

TEST_F(FailingDriverTest, WhatTheProgramGivesBackRaisesTheLimitWhateverTheDriverSays) {
  start({.budget_bytes = 8 * kPage});
  const DeviceAddress a = allocate(2 * kPage);
  ASSERT_TRUE(access(a).ok());
  ASSERT_TRUE(engine_->free(a, std::nullopt).ok());
  ASSERT_TRUE(engine_->add_external(4 * kPage).ok());
  const DeviceAddress b = allocate(4 * kPage);  // on the pages of a, whose addresses are lent
  ASSERT_TRUE(access(b).ok());
  faulty_->fail_next("unmap", 1000);
  engine_->remove_external(4 * kPage);
  faulty_->fail_next("unmap", 0);
  ASSERT_TRUE(engine_->free(b, std::nullopt).ok());
  EXPECT_TRUE(access(allocate(8 * kPage)).ok());
}

// There is nothing left that a stream could wait for, so the host waits.
TEST_F(FailingDriverTest, WorkOfAStreamThatWentWithoutAFenceIsWaitedForByTheHost) {
  start({.budget_bytes = 8 * kPage});
  StreamHandle stream{};
  ASSERT_TRUE(device_->driver().create_stream(&stream).ok());
  const DeviceAddress a = allocate(4 * kPage);
  ASSERT_TRUE(access(a, stream).ok());
  ASSERT_TRUE(engine_->free(a, std::nullopt).ok());
  faulty_->fail_next("record");
  engine_->retire(stream);
  ASSERT_TRUE(device_->driver().destroy_stream(stream).ok());
  const DeviceAddress b = allocate(8 * kPage);
  EXPECT_TRUE(access(b).ok());
  EXPECT_GT(engine_->statistics().host_waits, 0U);
}

TEST_F(FailingDriverTest, WhereOthersHoldTheDeviceBuffersLeaveAsUnderASmallerBudget) {
  start({.budget_bytes = 0}, 12 * kPage);
  std::vector<DeviceAddress> buffers;
  for (int i = 0; i < 3; ++i) buffers.push_back(allocate(3 * kPage));
  ASSERT_TRUE(access(buffers[0]).ok());
  ASSERT_TRUE(engine_->trim().ok());
  PageHandle theirs{};
  const Bytes left = 12 * kPage - engine_->statistics().device_bytes;
  if (left > 0) {
    ASSERT_TRUE(device_->driver().create_page(left, 0, &theirs).ok());
  }
  buffers.push_back(allocate(6 * kPage));
  for (int turn = 0; turn < 3; ++turn) {
    for (const DeviceAddress at : buffers) EXPECT_TRUE(access(at).ok());
  }
  if (left > 0) {
    EXPECT_TRUE(device_->driver().destroy_page(theirs).ok());
  }
}

TEST_F(FailingDriverTest, TrimGivesBackTheHostMemoryOfWhatWasFreed) {
  start({.budget_bytes = 8 * kPage});
  std::vector<DeviceAddress> buffers;
  for (int i = 0; i < 4; ++i) {
    buffers.push_back(allocate(4 * kPage));
    ASSERT_TRUE(access(buffers.back()).ok());
  }
  EXPECT_GT(engine_->statistics().host_bytes, 0U);
  for (const DeviceAddress at : buffers) ASSERT_TRUE(engine_->free(at, std::nullopt).ok());
  ASSERT_TRUE(device_->driver().synchronize_context().ok());
  engine_->synchronized_all();
  ASSERT_TRUE(engine_->trim().ok());
  EXPECT_EQ(engine_->statistics().host_bytes, 0U);
  EXPECT_EQ(engine_->statistics().device_bytes, 0U);
}

TEST_F(FailingDriverTest, ASlabMayLeaveWhenThePinnedBuffersInItAreFreed) {
  start({.budget_bytes = 8 * kPage});
  const DeviceAddress pinned = allocate(64 * kKiB), neighbour = allocate(64 * kKiB);
  ASSERT_TRUE(access(neighbour).ok());
  ASSERT_TRUE(engine_->pin(pinned, "test").ok());
  EXPECT_EQ(engine_->statistics().pinned_buffers, 1U);
  DeviceAddress all;
  EXPECT_TRUE(engine_->allocate(8 * kPage, std::nullopt, &all).is_out_of_memory());
  ASSERT_TRUE(engine_->free(pinned, std::nullopt).ok());
  EXPECT_EQ(engine_->statistics().pinned_buffers, 0U);
  EXPECT_TRUE(access(allocate(8 * kPage)).ok());
  EXPECT_TRUE(access(neighbour).ok());
}

}  // namespace
}  // namespace thermocline
