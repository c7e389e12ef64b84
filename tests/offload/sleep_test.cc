// SPDX-License-Identifier: Apache-2.0
// Sleep and wake (offload/sleep.h), on the simulated device with tagged memory.
#include <array>
#include <atomic>
#include <string>
#include <thread>

#include "tests/offload/engine_fixture.h"

namespace thermocline {
namespace {

constexpr Bytes kBuffer = 4 * kPage;

class SleepTest : public EngineTest {
 protected:
  EngineOptions options(Bytes budget = 64 * kPage) const {
    EngineOptions options;
    options.budget_bytes = budget;
    options.policy = kReactivePolicy;
    options.host_is_readable = false;
    return options;
  }
  void begin(std::size_t buffers, EngineOptions with) {
    start(with);
    for (std::size_t i = 0; i < buffers; ++i) all_.push_back(allocate(kBuffer));
    use_all();
    synchronize();
  }
  void begin(std::size_t buffers = 12) { begin(buffers, options()); }
  void use_all() {
    for (const DeviceAddress one : all_) ASSERT_TRUE(operate({{one, kBuffer}}).ok());
  }
  void synchronize() {
    ASSERT_TRUE(device_->driver().synchronize_context().ok());
    engine_->synchronized_all();
  }
  SleepReport sleep(const SleepRequest& request = {.waits = true}) {
    SleepReport report;
    EXPECT_TRUE(engine_->sleep(request, &report).ok());
    expect_sum(report);
    return report;
  }
  SleepReport wake() {
    SleepReport report;
    EXPECT_TRUE(engine_->wake({}, &report).ok());
    EXPECT_EQ(report.device_bytes, engine_->statistics().device_bytes);
    EXPECT_EQ(report.asleep_bytes, engine_->statistics().asleep_bytes);
    engine_->validate();
    return report;
  }
  void expect_sum(const SleepReport& report) {
    EXPECT_EQ(report.device_bytes, engine_->statistics().device_bytes);
    EXPECT_EQ(report.asleep_bytes, engine_->statistics().asleep_bytes);
    EXPECT_EQ(report.device_bytes, report.pinned_bytes + report.external_bytes + report.in_use_bytes +
                                       report.no_host_bytes + report.other_bytes);
    engine_->validate();
  }
  MovementCounts moved() const { return engine_->statistics().movements; }

  std::vector<DeviceAddress> all_;
};

TEST_F(SleepTest, GivesAllBackAndTakesItAgain) {
  begin();
  use_all();
  use_all();
  const std::uint64_t expected = checksum();
  TearDown();
  all_.clear();

  begin();
  const SleepReport asleep = sleep();
  EXPECT_EQ(asleep.device_bytes_before, 12 * kBuffer);
  EXPECT_EQ(asleep.device_bytes, 0u);
  EXPECT_EQ(asleep.asleep_bytes, 12 * kBuffer);
  EXPECT_EQ(asleep.copied_bytes, 12 * kBuffer);
  EXPECT_EQ(moved().of(EvictReason::kSleep).units, 12u);
  EXPECT_EQ(moved().of(EvictReason::kSleep).copied_bytes, 12 * kBuffer);
  use_all();
  EXPECT_EQ(sleep().device_bytes, 0u);
  const SleepReport awake = wake();
  EXPECT_EQ(awake.device_bytes, 12 * kBuffer);
  EXPECT_EQ(awake.asleep_bytes, 0u);
  EXPECT_EQ(awake.copied_bytes, 12 * kBuffer);
  EXPECT_EQ(moved().of(FetchReason::kWake).units, 12u);
  use_all();
  EXPECT_EQ(moved().of(FetchReason::kWake).units, 12u);
  EXPECT_EQ(checksum(), expected);
}

// The device has the contents, and the host an equal copy since the first sleep.
TEST_F(SleepTest, WhatHasNotChangedSinceIsNotCopiedAgain) {
  begin();
  EXPECT_EQ(sleep().copied_bytes, 12 * kBuffer);
  wake();
  for (const DeviceAddress one : all_) ASSERT_TRUE(operate({{one, kBuffer}}, Access::kRead).ok());
  ASSERT_TRUE(operate({{all_[3], kBuffer}}).ok());
  const SleepReport again = sleep();
  EXPECT_EQ(again.copied_bytes, kBuffer);
  EXPECT_EQ(again.device_bytes, 0u);
}

TEST_F(SleepTest, AnAccessBringsBackWhatItNeeds) {
  EngineOptions lru = options();
  lru.policy = kLruPolicy;
  begin(12, lru);
  sleep();
  ASSERT_TRUE(operate({{all_[5], kBuffer}}).ok());
  EXPECT_EQ(engine_->statistics().device_bytes, kBuffer);
  EXPECT_EQ(engine_->statistics().asleep_bytes, 11 * kBuffer);
  EXPECT_EQ(moved().of(FetchReason::kAccessed).units, 1u);
}

TEST_F(SleepTest, ComesBackInOrderOfLastAccess) {
  begin(4);
  for (const std::size_t i : {2, 0, 3, 1}) ASSERT_TRUE(operate({{all_[i], kBuffer}}).ok());
  sleep();
  // Room for two of them.
  ASSERT_TRUE(engine_->add_external(64 * kPage - 2 * kBuffer).ok());
  const SleepReport awake = wake();
  EXPECT_EQ(awake.asleep_bytes, 2 * kBuffer);
  for (const std::size_t i : {2, 0}) EXPECT_TRUE(engine_->find(all_[i])->resident) << i;
  for (const std::size_t i : {3, 1}) EXPECT_FALSE(engine_->find(all_[i])->resident) << i;
  engine_->remove_external(64 * kPage - 2 * kBuffer);
  EXPECT_EQ(wake().asleep_bytes, 0u);
}

TEST_F(SleepTest, SleepingTwiceAndWakingWithoutSleepDoNothing) {
  begin();
  EXPECT_EQ(wake().copied_bytes, 0u);
  sleep();
  const SleepReport again = sleep();
  EXPECT_EQ(again.device_bytes_before, 0u);
  EXPECT_EQ(again.copied_bytes, 0u);
  EXPECT_EQ(again.asleep_bytes, 12 * kBuffer);
  wake();
  EXPECT_EQ(wake().copied_bytes, 0u);
}

TEST_F(SleepTest, WhatIsPinnedOrTheProgramsOwnStays) {
  begin();
  ASSERT_TRUE(engine_->pin(all_[0], "a graph").ok());
  ASSERT_TRUE(engine_->add_external(3 * kPage).ok());
  const SleepReport report = sleep();
  EXPECT_EQ(report.pinned_bytes, kBuffer);
  EXPECT_EQ(report.external_bytes, 3 * kPage);
  EXPECT_EQ(report.device_bytes, kBuffer + 3 * kPage);
  use_all();
}

TEST_F(SleepTest, WithoutEnoughHostMemorySomeOfItStays) {
  EngineOptions limited = options();
  limited.host_limit_bytes = 5 * kBuffer;
  begin(12, limited);
  const SleepReport report = sleep();
  EXPECT_GE(report.no_host_bytes, 7 * kBuffer);
  EXPECT_LT(report.no_host_bytes, 12 * kBuffer);
  EXPECT_EQ(report.device_bytes, report.no_host_bytes);
  EXPECT_LE(engine_->statistics().peak_host_bytes, 5 * kBuffer);
  use_all();
  EXPECT_EQ(wake().asleep_bytes, 0u);
}

TEST_F(SleepTest, RoomThatItMadeIsGrantedOnlyIfHostAndDeviceHoldAll) {
  EngineOptions limited = options();
  limited.host_limit_bytes = 8 * kBuffer;
  begin(12, limited);
  sleep();
  // 16 of them are the budget, which the device holds without the host.
  for (int i = 12; i < 16; ++i) all_.push_back(allocate(kBuffer));
  DeviceAddress refused;
  EXPECT_TRUE(engine_->allocate(kBuffer, std::nullopt, &refused).is_out_of_memory());
  use_all();
  use_all();
}

// Slabs of which all buffers are cached in a thread's cache count as live until they are taken back.
// Which are cached depends on their addresses, but of six of a size some always are.
TEST_F(SleepTest, WhatIsCachedIsTakenBackBeforeAnythingIsRefusedForTheHost) {
  EngineOptions limited = options(32 * kPage);
  limited.host_limit_bytes = 32 * kPage;
  begin(5, limited);  // 20 pages
  sleep();
  // Free addresses with pages, so that the next place found is mapped already.
  ASSERT_TRUE(engine_->free(allocate(10 * kPage), std::nullopt).ok());
  std::vector<DeviceAddress> filling, last;
  for (Bytes size = 0; size < 10; ++size) {
    for (int i = 0; i < 6; ++i) last.push_back(allocate(9000 + 600 * size));
    for (int i = 0; i < 62; ++i) filling.push_back(allocate(32 * 1024));
  }
  for (const auto* const freed : {&filling, &last}) {
    for (const DeviceAddress at : *freed) ASSERT_TRUE(engine_->free(at, std::nullopt).ok());
  }
  EXPECT_GT(engine_->statistics().block_bytes, 22 * kPage) << "slabs are cached, or this shows nothing";
  all_.push_back(allocate(10 * kPage));
  for (const DeviceAddress one : all_) ASSERT_TRUE(operate({{one, kBuffer}}).ok());
}

TEST_F(SleepTest, WorkInFlightIsWaitedForIfAskedTo) {
  begin();
  ASSERT_TRUE(submit({{all_[2], kBuffer}}, Access::kUnknown, {.kind = 7, .nanoseconds = 1000}, 1e7).ok());
  const SleepReport first = sleep({});
  EXPECT_TRUE(first.is_busy);
  EXPECT_EQ(first.in_use_bytes, kBuffer);
  EXPECT_EQ(first.asleep_bytes, 11 * kBuffer) << "nothing else stands behind it";
  const SleepReport second = sleep();
  EXPECT_FALSE(second.is_busy);
  EXPECT_EQ(second.device_bytes, 0u);
}

// Nor for a copy that stands behind it; and what the program copies next does not come behind all of a sleep's copies.
TEST_F(SleepTest, CopiesBehindWorkInFlightAreNotWaitedFor) {
  begin();
  ASSERT_TRUE(submit({{all_[2], kBuffer}}, Access::kUnknown, {.kind = 7, .nanoseconds = 1000}, 1e7).ok());
  ASSERT_TRUE(engine_->evict(all_[2]).ok());
  const SleepReport first = sleep({});
  EXPECT_TRUE(first.is_busy);
  EXPECT_EQ(first.copied_bytes, 0u);
  EXPECT_TRUE(engine_->find(all_[2])->resident);
  const SleepReport second = sleep();
  EXPECT_FALSE(second.is_busy);
  EXPECT_EQ(second.device_bytes, 0u);
}

// A program that goes on meanwhile keeps what it accesses.
TEST_F(SleepTest, ARequestThatGoesOnLeavesWhatHasBeenAccessedSince) {
  begin();
  ASSERT_TRUE(submit({{all_[2], kBuffer}}, Access::kUnknown, {.kind = 7, .nanoseconds = 1000}, 1e7).ok());
  const SleepReport first = sleep({});
  ASSERT_TRUE(operate({{all_[7], kBuffer}}).ok());
  synchronize();
  const SleepReport second = sleep({.waits = true, .since = first.since});
  EXPECT_EQ(second.in_use_bytes, kBuffer);
  EXPECT_FALSE(second.is_busy);
  EXPECT_TRUE(engine_->find(all_[7])->resident);
  EXPECT_FALSE(engine_->find(all_[2])->resident);
}

TEST_F(SleepTest, PagesWithoutContentsGoAndDoNotSleep) {
  begin(2);
  const DeviceAddress unused = allocate(kBuffer);
  const SleepReport report = sleep();
  EXPECT_EQ(report.device_bytes_before, 3 * kBuffer);
  EXPECT_EQ(report.device_bytes, 0u);
  EXPECT_EQ(report.asleep_bytes, 2 * kBuffer);
  EXPECT_EQ(report.copied_bytes, 2 * kBuffer);
  ASSERT_TRUE(operate({{unused, kBuffer}}, Access::kWrite).ok());
}

TEST_F(SleepTest, SmallBuffersSleepToo) {
  begin(0);
  std::vector<DeviceAddress> small;
  for (int i = 0; i < 40; ++i) {
    small.push_back(allocate(300 * kKiB));
    ASSERT_TRUE(operate({{small.back(), 300 * kKiB}}).ok());
  }
  synchronize();
  EXPECT_EQ(sleep().device_bytes, 0u);
  for (const DeviceAddress one : small) ASSERT_TRUE(operate({{one, 300 * kKiB}}).ok());
}

TEST_F(SleepTest, WhatIsFreedSleepsNoMore) {
  begin();
  sleep();
  for (const DeviceAddress one : all_) EXPECT_TRUE(engine_->free(one, std::nullopt).ok());
  all_.clear();
  EXPECT_EQ(engine_->trim(), Status());
  EXPECT_EQ(engine_->statistics().asleep_bytes, 0u);
  EXPECT_EQ(engine_->statistics().host_bytes, 0u);
}

// Otherwise a program that fits would be copied out again and again.
TEST_F(SleepTest, ItDoesNotCountAsWantOfMemory) {
  begin(12);
  sleep();
  wake();
  for (int round = 0; round < 4; ++round) use_all();
  EXPECT_EQ(engine_->statistics().write_behinds, 0u);
}

TEST_F(SleepTest, StopsWhenItIsToldTo) {
  begin();
  const std::atomic<bool> stop{true};
  EXPECT_LT(sleep({.waits = true, .stop = &stop}).asleep_bytes, 12 * kBuffer);
  sleep();
  SleepReport report;
  EXPECT_TRUE(engine_->wake({.stop = &stop}, &report).ok());
  EXPECT_EQ(report.asleep_bytes, 12 * kBuffer);
}

TEST_F(SleepTest, OneIsUnderWayAtATime) {
  begin();
  sleep();
  std::atomic<bool> ends{false};
  std::thread other([&] {
    while (!ends.load()) {
      SleepReport report;
      const Status status = engine_->wake({}, &report);
      EXPECT_TRUE(status.ok() || status == Status::not_ready());
    }
  });
  for (int round = 0; round < 50; ++round) {
    SleepReport report;
    const Status status = engine_->sleep({.waits = true}, &report);
    EXPECT_TRUE(status.ok() || status == Status::not_ready());
    EXPECT_LE(report.copied_bytes, 12 * kBuffer);
  }
  ends.store(true);
  other.join();
  engine_->validate();
}

// Weights sleep and the cache stays; then the other way round. Small buffers have no tag.
TEST_F(SleepTest, WhatHasATagSleepsAlone) {
  begin(8);
  constexpr std::uint64_t kWeights = 1, kCache = 2;
  for (std::size_t i = 0; i < 6; ++i) ASSERT_TRUE(engine_->tag(all_[i] + kPage, i < 4 ? kWeights : kCache).ok());
  const DeviceAddress small = allocate(4096);
  ASSERT_TRUE(operate({{small, 4096}}).ok());
  ASSERT_TRUE(engine_->tag(small, kWeights).ok());
  synchronize();
  const auto request = [&](std::uint64_t tag) {
    SleepReport report;
    EXPECT_TRUE(engine_->sleep({.waits = true, .tag = tag}, &report).ok());
    EXPECT_EQ(report.device_bytes, report.pinned_bytes + report.external_bytes + report.in_use_bytes +
                                       report.no_host_bytes + report.other_bytes + report.untagged_bytes);
    engine_->validate();
    return report;
  };
  const SleepReport weights = request(kWeights);
  EXPECT_EQ(weights.asleep_bytes, 4 * kBuffer);
  EXPECT_EQ(weights.copied_bytes, 4 * kBuffer);
  EXPECT_GE(weights.untagged_bytes, 4 * kBuffer);
  EXPECT_EQ(weights.device_bytes, weights.untagged_bytes);
  EXPECT_EQ(request(kCache).asleep_bytes, 2 * kBuffer);
  EXPECT_EQ(engine_->statistics().asleep_bytes, 6 * kBuffer);
  SleepReport woken;
  ASSERT_TRUE(engine_->wake({.tag = kCache}, &woken).ok());
  EXPECT_EQ(woken.copied_bytes, 2 * kBuffer);
  EXPECT_EQ(woken.asleep_bytes, 0u);
  EXPECT_EQ(engine_->statistics().asleep_bytes, 4 * kBuffer);
  EXPECT_FALSE(engine_->find(all_[0])->resident);
  EXPECT_TRUE(engine_->find(all_[5])->resident);
  // Without its tag it stays.
  ASSERT_TRUE(engine_->tag(all_[4], 0).ok());
  EXPECT_EQ(request(kCache).asleep_bytes, kBuffer);
  EXPECT_EQ(wake().asleep_bytes, 0u);
}

// The next owner of its addresses has another name, or none.
TEST_F(SleepTest, ATagEndsWithItsBuffer) {
  begin(2);
  ASSERT_TRUE(engine_->tag(all_[0], 7).ok());
  ASSERT_TRUE(engine_->free(all_[0], kStream).ok());
  ASSERT_EQ(allocate(kBuffer), all_[0]);
  use_all();
  synchronize();
  SleepReport report;
  ASSERT_TRUE(engine_->sleep({.waits = true, .tag = 7}, &report).ok());
  EXPECT_EQ(report.asleep_bytes, 0u);
  EXPECT_EQ(report.untagged_bytes, 2 * kBuffer);
  EXPECT_EQ(engine_->tag(all_[0] + 100 * kPage, 7), Status::invalid_value());
}

TEST_F(SleepTest, WithoutAPolicyNothingSleeps) {
  EngineOptions none = options();
  none.policy = kNoPolicy;
  begin(4, none);
  SleepReport report;
  EXPECT_EQ(engine_->sleep({}, &report), Status::not_supported());
}

TEST_F(SleepTest, LargeBuffersLeaveInUnitsWhileOthersAreOnTheirWay) {
  begin(0, options(400 * kPage));
  const DeviceAddress large = allocate(300 * kPage);
  ASSERT_TRUE(operate({{large, 300 * kPage}}).ok());
  synchronize();
  EXPECT_EQ(sleep().device_bytes, 0u);
  EXPECT_GT(moved().of(EvictReason::kSleep).units, 10u);
  EXPECT_EQ(wake().asleep_bytes, 0u);
  ASSERT_TRUE(operate({{large, 300 * kPage}}).ok());
}

// Iterations with more memory than the budget, asleep now and then: at different places of the iteration.
struct Way {
  const char* name;
  const PolicyEntry* policy;
  Safety safety = Safety::kStrict;
  HostFallback host_fallback = HostFallback::kOff;
  bool waits_without_lock = false;
};

class SleepWay : public testing::TestWithParam<Way> {
 protected:
  std::uint64_t run(const Way& way, unsigned sleep_every) {
    std::string why;
    SimulatedDeviceOptions simulated;
    simulated.library = THERMOCLINE_SIMULATED_CUDA;
    simulated.seed = 7;
    simulated.check = true;
    const auto device = SimulatedDevice::open(simulated, &why);
    EXPECT_NE(device, nullptr) << why;
    std::unique_ptr<Engine> engine;
    const EngineOptions options{.budget_bytes = 24 * kPage,
                                .policy = way.policy,
                                .safety = way.safety,
                                .host_fallback = way.host_fallback,
                                .host_is_readable = false,
                                .waits_without_lock = way.waits_without_lock};
    EXPECT_TRUE(Engine::create(device->driver(), options, &engine).ok());
    std::array<DeviceAddress, 10> all;
    for (DeviceAddress& one : all) {
      EXPECT_TRUE(engine->allocate(kBuffer, std::nullopt, &one).ok());
      const MemoryAccess access{one, kBuffer, Access::kWrite};
      Operation operation = engine->begin(kStream, {&access, 1}, {.kind = 100});
      EXPECT_TRUE(operation.status().ok());
      const SimulatedOperand operand{one.value, kBuffer, SIMULATED_OPERAND_WRITE};
      EXPECT_EQ(device->control().launch_operator(nullptr, "fill", 0, 0, 5, &operand, 1), 0);
      operation.commit();
    }
    unsigned operations = 0;
    for (unsigned round = 0; round < 8; ++round) {
      for (std::size_t i = 0; i + 1 < all.size(); ++i) {
        const std::array accesses{MemoryAccess{all[i], kBuffer, Access::kRead},
                                  MemoryAccess{all[i + 1], kBuffer, Access::kUnknown}};
        const std::array operands{
            SimulatedOperand{all[i].value, kBuffer, SIMULATED_OPERAND_READ},
            SimulatedOperand{all[i + 1].value, kBuffer, SIMULATED_OPERAND_READ | SIMULATED_OPERAND_WRITE}};
        Operation operation = engine->begin(kStream, accesses, {.kind = i + 1, .nanoseconds = 50'000});
        EXPECT_TRUE(operation.status().ok());
        EXPECT_EQ(device->control().launch_operator(nullptr, "operator", 0, 0, 50, operands.data(), 2), 0);
        operation.commit();
        if (sleep_every == 0 || ++operations % sleep_every != 0) continue;
        SleepReport report;
        EXPECT_TRUE(engine->sleep({.waits = true}, &report).ok());
        EXPECT_EQ(report.device_bytes, 0u) << operations;
        engine->validate();
        if (operations % 2 == 0) {
          EXPECT_TRUE(engine->wake({}, &report).ok());
        }
        engine->validate();
      }
    }
    EXPECT_TRUE(device->driver().synchronize_context().ok());
    SimulatedStatistics statistics{};
    statistics.size = sizeof statistics;
    device->control().statistics(&statistics);
    EXPECT_EQ(statistics.races, 0u);
    const std::uint64_t checksum = device->control().checksum();
    engine.reset();
    return checksum;
  }
};

TEST_P(SleepWay, GivesTheSameBits) {
  const std::uint64_t expected = run(GetParam(), 0);
  for (const unsigned every : {1u, 5u, 13u}) EXPECT_EQ(run(GetParam(), every), expected) << every;
}
INSTANTIATE_TEST_SUITE_P(
    All, SleepWay,
    testing::Values(Way{"lru", kLruPolicy}, Way{"reactive", kReactivePolicy}, Way{"learned", kLearnedPolicy},
                    Way{"trusting", kLearnedPolicy, Safety::kTrusting},
                    Way{"fallback", kLearnedPolicy, Safety::kStrict, HostFallback::kAuto},
                    Way{"full_fallback", kReactivePolicy, Safety::kStrict, HostFallback::kFull},
                    Way{"open_lock", kReactivePolicy, Safety::kStrict, HostFallback::kOff, true},
                    Way{"open_lock_fallback", kLearnedPolicy, Safety::kStrict, HostFallback::kAuto, true}),
    [](const auto& of) { return std::string(of.param.name); });

}  // namespace
}  // namespace thermocline
