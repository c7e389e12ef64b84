// SPDX-License-Identifier: Apache-2.0
// The engine on the simulated device: what is accessed is resident, with its latest contents.
#include "offload/engine/engine.h"

#include <algorithm>
#include <atomic>
#include <random>
#include <string>
#include <vector>

#include "tests/offload/engine_fixture.h"

namespace thermocline {
namespace {

TEST_F(EngineTest, CopiesNothingWhileEverythingFits) {
  start({.budget_bytes = 16 * kPage});
  for (int turn = 0; turn < 5; ++turn) {
    const DeviceAddress a = allocate(4 * kPage), b = allocate(4 * kPage);
    ASSERT_TRUE(operate({{a, 4 * kPage}, {b, 4 * kPage}}).ok());
    ASSERT_TRUE(engine_->free(a, std::nullopt).ok());
    ASSERT_TRUE(engine_->free(b, std::nullopt).ok());
  }
  const EngineStatistics s = engine_->statistics();
  EXPECT_EQ(s.evicted_bytes, 0u);
  EXPECT_EQ(s.maps, 8u) << "the first turn's";
  EXPECT_EQ(s.unmaps, 0u);
}

// More live bytes than the budget, with holes everywhere: buffers that a program allocates in a row, and uses together,
// still fit, and keep their contents when they are evicted and fetched.
TEST_F(EngineTest, SmallBuffersAllocatedInARowNeedLittleOfASmallBudget) {
  const auto run = [this](EngineOptions options) {
    start(options);
    std::mt19937_64 random(1);
    std::vector<DeviceAddress> buffers(12'000);
    for (DeviceAddress& buffer : buffers) buffer = allocate(4 * kKiB);
    std::shuffle(buffers.begin(), buffers.end(), random);
    for (std::size_t i = 4'000; i < buffers.size(); ++i) EXPECT_TRUE(engine_->free(buffers[i], std::nullopt).ok());
    std::vector<Operands> rows(60);
    for (Operands& row : rows) {
      for (int i = 0; i < 64; ++i) row.push_back({allocate(4 * kKiB), 4 * kKiB});
      EXPECT_TRUE(operate(row, Access::kWrite).ok());
    }
    for (int turn = 0; turn < 2; ++turn) {
      for (const Operands& row : rows) EXPECT_TRUE(operate(row).ok());
    }
    if (options.budget_bytes != 0) {
      EXPECT_GT(engine_->statistics().restored_bytes, 0u);
    }
    const std::uint64_t sum = checksum();
    TearDown();
    return sum;
  };
  const std::uint64_t expected = run({.policy = kNoPolicy});
  EXPECT_EQ(run({.budget_bytes = 8 * kPage, .policy = kReactivePolicy}), expected);
}

// However full memory is: nothing is copied before something has to be evicted.
TEST_F(EngineTest, CopiesNothingWhileEverythingJustFits) {
  start({.budget_bytes = 16 * kPage});
  const DeviceAddress a = allocate(8 * kPage - 1), b = allocate(8 * kPage - 1);
  for (int turn = 0; turn < 20; ++turn) {
    ASSERT_TRUE(operate({{a, 8 * kPage - 1}}).ok());
    ASSERT_TRUE(operate({{b, 8 * kPage - 1}}).ok());
  }
  EXPECT_EQ(engine_->statistics().evicted_bytes, 0u);
}

// Ten buffers of four pages with a budget for three of them, used in order and in reverse, give the same results as
// with all memory.
TEST_F(EngineTest, KeepsContentsThroughEvictionUnderEveryPolicy) {
  const auto run = [this](EngineOptions options) {
    start(options);
    std::vector<DeviceAddress> buffers;
    for (int i = 0; i < 10; ++i) {
      buffers.push_back(allocate(4 * kPage));
      EXPECT_TRUE(operate({{buffers.back(), 4 * kPage}}, Access::kWrite).ok());
    }
    for (int turn = 0; turn < 12; ++turn) {
      for (std::size_t i = 0; i + 1 < buffers.size(); ++i) {
        EXPECT_TRUE(operate({{buffers[i], 4 * kPage}, {buffers[i + 1], 4 * kPage}}).ok());
      }
      for (std::size_t i = buffers.size(); i-- > 1;) EXPECT_TRUE(operate({{buffers[i], 4 * kPage}}).ok());
    }
    const std::uint64_t sum = checksum();
    const EngineStatistics s = engine_->statistics();
    EXPECT_LE(s.peak_device_bytes, s.budget_bytes);
    if (options.budget_bytes != 0) {
      EXPECT_GT(s.restored_bytes, 0u);
    }
    TearDown();
    return sum;
  };
  const std::uint64_t expected = run({.policy = kNoPolicy});
  EXPECT_EQ(run({.budget_bytes = 12 * kPage, .policy = kReactivePolicy}), expected);
  EXPECT_EQ(run({.budget_bytes = 12 * kPage, .policy = kLearnedPolicy}), expected);
  EXPECT_EQ(run({.budget_bytes = 8 * kPage, .policy = kReactivePolicy}), expected);
  for (const PolicyEntry* const policy : {kReactivePolicy, kLearnedPolicy}) {
    EXPECT_EQ(run({.budget_bytes = 12 * kPage, .policy = policy, .safety = Safety::kTrusting}), expected);
  }
}

// Half of what is accessed in turn fits: each buffer must be evicted before the one after next can be fetched. A host
// that need not wait is far ahead of the device at the end; one that must wait for every copy out is not.
TEST_F(EngineTest, TrustingHandsPagesOverWithoutWaiting) {
  const auto waits = [this](Safety safety) {
    start({.budget_bytes = 12 * kPage, .policy = kReactivePolicy, .safety = safety});
    for (int i = 0; i < 6; ++i) EXPECT_TRUE(operate({{allocate(4 * kPage), 4 * kPage}}, Access::kWrite).ok());
    const EngineStatistics s = engine_->statistics();
    EXPECT_EQ(s.evictions, 3u);
    EXPECT_LE(s.peak_device_bytes, s.budget_bytes);
    TearDown();
    return s.host_waits;
  };
  EXPECT_GT(waits(Safety::kStrict), 0u);
  EXPECT_EQ(waits(Safety::kTrusting), 0u);
}

TEST_F(EngineTest, WhatWasGivenUpMayBeFreedAccessedAndTrimmed) {
  start({.budget_bytes = 8 * kPage, .policy = kReactivePolicy, .safety = Safety::kTrusting});
  const DeviceAddress a = allocate(4 * kPage), b = allocate(4 * kPage), c = allocate(4 * kPage);
  for (const DeviceAddress at : {a, b, c}) ASSERT_TRUE(operate({{at, 4 * kPage}}, Access::kWrite).ok());
  EXPECT_FALSE(engine_->find(a)->resident);
  ASSERT_TRUE(engine_->free(a, std::nullopt).ok()) << "while its copy out is under way";
  engine_->validate();
  ASSERT_TRUE(operate({{b, 4 * kPage}}).ok());
  const DeviceAddress d = allocate(4 * kPage);
  ASSERT_TRUE(operate({{d, 4 * kPage}}, Access::kWrite).ok()) << "one of the others is given up";
  ASSERT_TRUE(operate({{b, 4 * kPage}, {d, 4 * kPage}}).ok());
  ASSERT_TRUE(operate({{c, 4 * kPage}}).ok()) << "and returns to its own addresses";
  ASSERT_TRUE(device_->driver().synchronize_context().ok());
  engine_->synchronized_all();
  for (const DeviceAddress at : {b, c, d}) ASSERT_TRUE(engine_->free(at, std::nullopt).ok());
  ASSERT_TRUE(engine_->trim().ok());
  EXPECT_EQ(engine_->statistics().device_bytes, 0u);
}

// Three buffers of 64 pages with a budget for two and a half: only the excess is evicted, not a whole buffer.
TEST_F(EngineTest, LargeBuffersAreEvictedInUnits) {
  start({.budget_bytes = 160 * kPage});
  std::vector<DeviceAddress> buffers;
  for (int i = 0; i < 3; ++i) {
    buffers.push_back(allocate(64 * kPage));
    ASSERT_TRUE(operate({{buffers.back(), 64 * kPage}}, Access::kWrite).ok());
  }
  const EngineStatistics s = engine_->statistics();
  EXPECT_GE(s.evicted_bytes, 32 * kPage);
  EXPECT_LT(s.evicted_bytes, 64 * kPage + 64 * kPage) << "write-behind may be ahead by some units";
  EXPECT_GT(s.evictions, 1u);
  EXPECT_LE(s.peak_device_bytes, 160 * kPage);
  ASSERT_TRUE(operate({{buffers[0], 64 * kPage}, {buffers[1], 64 * kPage}}).ok());
  EXPECT_GT(engine_->statistics().restored_bytes, 0u);
}

// New buffers reuse the pages of freed ones, and the host does not wait for that.
TEST_F(EngineTest, FreedMemoryMovesToOtherAddressesWithoutWaiting) {
  start({.budget_bytes = 16 * kPage});
  for (int turn = 0; turn < 20; ++turn) {
    const DeviceAddress a = allocate(5 * kPage), b = allocate(6 * kPage);
    ASSERT_TRUE(operate({{a, 5 * kPage}, {b, 6 * kPage}}, Access::kWrite).ok());
    ASSERT_TRUE(engine_->free(a, std::nullopt).ok());
    const DeviceAddress c = allocate(10 * kPage);
    ASSERT_TRUE(operate({{b, 6 * kPage}, {c, 10 * kPage}}).ok());
    ASSERT_TRUE(engine_->free(b, std::nullopt).ok());
    ASSERT_TRUE(engine_->free(c, std::nullopt).ok());
  }
  const EngineStatistics s = engine_->statistics();
  EXPECT_EQ(s.evicted_bytes, 0u);
  EXPECT_EQ(s.host_waits, 0u);
}

// Hooks are not told how long a kernel runs. These run a hundred times longer than their accesses suggest.
TEST_F(EngineTest, MeasuresHowLongOperationsTake) {
  constexpr int kLayers = 12;
  start({.budget_bytes = 32 * kPage});
  std::vector<DeviceAddress> layers;
  for (int i = 0; i < kLayers; ++i) layers.push_back(allocate(4 * kPage));
  const auto step = [&] {
    for (int i = 0; i < 2 * kLayers; ++i) {
      const int layer = i < kLayers ? i : 2 * kLayers - 1 - i;
      const double microseconds = i < kLayers ? 1000 : 3000;
      const OperationInfo info{.kind = static_cast<std::uint64_t>(i + 1)};
      ASSERT_TRUE(submit({{layers[layer], 4 * kPage}}, Access::kUnknown, info, microseconds).ok());
    }
  };
  for (int i = 0; i < 4; ++i) step();
  const EngineStatistics s = engine_->statistics();
  ASSERT_EQ(s.plans, 1u);
  const double compute_ns = kLayers * 4e6;
  EXPECT_GE(static_cast<double>(s.predicted_step_ns), 0.99 * compute_ns);
  EXPECT_LT(static_cast<double>(s.predicted_step_ns), 1.1 * compute_ns);
}

// A program that has plenty of memory does not pay for plans.
TEST_F(EngineTest, LearnsNothingBeforeHalfOfTheBudgetHasBeenLive) {
  constexpr int kLayers = 12;
  start({.budget_bytes = 32 * kPage});
  std::vector<DeviceAddress> layers;
  for (int i = 0; i < kLayers; ++i) layers.push_back(allocate(kPage));
  const auto steps = [&] {
    for (int i = 0; i < 5 * 2 * kLayers; ++i) {
      const int place = i % (2 * kLayers), layer = place < kLayers ? place : 2 * kLayers - 1 - place;
      const OperationInfo info{.kind = static_cast<std::uint64_t>(place + 1), .nanoseconds = 1'000'000};
      ASSERT_TRUE(submit({{layers[layer], kPage}}, Access::kUnknown, info, 1000).ok());
    }
  };
  steps();
  EXPECT_EQ(engine_->statistics().plans, 0u);
  allocate(5 * kPage);
  steps();
  EXPECT_EQ(engine_->statistics().plans, 1u) << "before it runs short";
  EXPECT_EQ(engine_->statistics().evictions, 0u);
}

TEST_F(EngineTest, KeepsAPlanForEachKindOfStep) {
  constexpr int kLayers = 12;
  start({.budget_bytes = 32 * kPage});
  std::vector<DeviceAddress> layers;
  for (int i = 0; i < kLayers; ++i) layers.push_back(allocate(4 * kPage));
  const auto step = [&](std::uint64_t kind) {
    for (int i = 0; i < 2 * kLayers; ++i) {
      const int layer = i < kLayers ? i : 2 * kLayers - 1 - i;
      const OperationInfo info{.kind = kind + static_cast<std::uint64_t>(i), .nanoseconds = 1'000'000};
      ASSERT_TRUE(submit({{layers[layer], 4 * kPage}}, Access::kUnknown, info, 1000).ok());
    }
  };
  for (const std::uint64_t kind : {1000, 1000, 1000, 2000, 2000, 2000, 1000, 1000, 2000}) step(kind);
  const EngineStatistics before = engine_->statistics();
  EXPECT_EQ(before.plans, 2u);
  for (const std::uint64_t kind : {2000, 2000, 2000, 1000, 1000}) step(kind);
  EXPECT_EQ(engine_->statistics().divergences, before.divergences) << "both ways between them are known";
  EXPECT_EQ(engine_->statistics().plans, 2u);
  EXPECT_GT(engine_->statistics().restores, before.restores);
}

TEST_F(EngineTest, EvictsWholeSlabsOfSmallBuffers) {
  start({.budget_bytes = 8 * kPage});
  std::vector<DeviceAddress> small;
  for (int i = 0; i < 64; ++i) small.push_back(allocate(512 * kKiB));  // 32 MiB, twice the budget
  for (int turn = 0; turn < 2; ++turn) {
    for (const DeviceAddress at : small) ASSERT_TRUE(operate({{at, 512 * kKiB}}).ok());
  }
  EXPECT_GT(engine_->statistics().restores, 0u);
}

TEST_F(EngineTest, AnOperationThatCanNotFitIsOutOfMemoryAndEvictsNothing) {
  start({.budget_bytes = 8 * kPage});
  const DeviceAddress a = allocate(5 * kPage), b = allocate(5 * kPage);
  ASSERT_TRUE(operate({{a, 5 * kPage}}).ok());
  const std::uint64_t evictions = engine_->statistics().evictions;
  EXPECT_TRUE(operate({{a, 5 * kPage}, {b, 5 * kPage}}).is_out_of_memory());
  EXPECT_EQ(engine_->statistics().evictions, evictions);
  EXPECT_TRUE(operate({{b, 5 * kPage}}).ok()) << "each alone fits";
}

TEST_F(EngineTest, WithoutAPolicyTheBudgetIsTheEnd) {
  start({.budget_bytes = 8 * kPage, .policy = kNoPolicy});
  const DeviceAddress a = allocate(5 * kPage);
  DeviceAddress b;
  EXPECT_TRUE(engine_->allocate(5 * kPage, std::nullopt, &b).is_out_of_memory());
  EXPECT_EQ(engine_->statistics().out_of_memory, 1u);
  EXPECT_EQ(engine_->statistics().peak_live_bytes, 5 * kPage) << "what was refused counts in no peak";
  ASSERT_TRUE(engine_->free(a, std::nullopt).ok());
  EXPECT_TRUE(engine_->allocate(5 * kPage, std::nullopt, &b).ok());
}

// During an exchange, contents that are evicted and contents that are fetched are both on the host.
TEST_F(EngineTest, HoldsBeyondTheDeviceOnlyWhatTheHostCanHold) {
  start({.budget_bytes = 8 * kPage, .host_limit_bytes = 24 * kPage});
  std::vector<DeviceAddress> held;
  DeviceAddress address;
  while (held.size() < 100 && engine_->allocate(4 * kPage, std::nullopt, &address).ok()) {
    held.push_back(address);
    ASSERT_TRUE(operate({{address, 4 * kPage}}).ok());
  }
  EXPECT_EQ(held.size(), 6u);
  for (const DeviceAddress at : held) EXPECT_TRUE(operate({{at, 4 * kPage}}).ok()) << "what was granted stays usable";
}

TEST_F(EngineTest, WhatIsEvictedLeavesFirstAndComesBackWhereThereIsRoom) {
  start({.budget_bytes = 16 * kPage, .policy = kLruPolicy});
  const DeviceAddress old = allocate(6 * kPage), sent = allocate(6 * kPage);
  for (const DeviceAddress at : {old, sent}) ASSERT_TRUE(operate({{at, 6 * kPage}}, Access::kWrite).ok());
  ASSERT_TRUE(engine_->evict(sent + kPage).ok());
  EXPECT_EQ(engine_->statistics().evicted_bytes, 6 * kPage) << "copied before anybody needs the room";
  EXPECT_TRUE(engine_->find(sent)->resident);
  const DeviceAddress more = allocate(8 * kPage);
  ASSERT_TRUE(operate({{more, 8 * kPage}}, Access::kWrite).ok());
  EXPECT_FALSE(engine_->find(sent)->resident);
  EXPECT_TRUE(engine_->find(old)->resident) << "although it was used before";
  EXPECT_EQ(engine_->prefetch(sent), Status::not_ready());
  ASSERT_TRUE(engine_->free(more, std::nullopt).ok());
  ASSERT_TRUE(engine_->prefetch(sent).ok());
  EXPECT_TRUE(engine_->find(sent)->resident);
  EXPECT_EQ(engine_->statistics().evicted_bytes, 6 * kPage);
  ASSERT_TRUE(operate({{sent, 6 * kPage}}).ok());
  EXPECT_EQ(engine_->evict(more), Status::invalid_value());
  EXPECT_EQ(engine_->prefetch(DeviceAddress{5}), Status::invalid_value());
  engine_->validate();
}

TEST_F(EngineTest, WithoutAPolicyNothingIsEvicted) {
  start({.budget_bytes = 16 * kPage, .policy = kNoPolicy});
  const DeviceAddress a = allocate(4 * kPage);
  EXPECT_EQ(engine_->evict(a), Status::not_supported());
  EXPECT_EQ(engine_->prefetch(a), Status::not_supported());
}

// Evicted contents stay right, and are fetched when there is room.
TEST_F(EngineTest, OnceMemoryMayBeUsedUnseenNothingLeavesAnyMore) {
  for (const PolicyEntry* const policy : {kLruPolicy, kReactivePolicy, kLearnedPolicy}) {
    for (const Safety safety : {Safety::kStrict, Safety::kTrusting}) {
      std::atomic<bool> unseen{false};
      start({.budget_bytes = 16 * kPage, .policy = policy, .evict_no_more = &unseen, .safety = safety});
      const DeviceAddress evicted = allocate(6 * kPage), there = allocate(6 * kPage), newest = allocate(6 * kPage);
      for (const DeviceAddress at : {evicted, there, newest})
        ASSERT_TRUE(operate({{at, 6 * kPage}}, Access::kWrite).ok());
      ASSERT_FALSE(engine_->find(evicted)->resident);
      const EngineStatistics before = engine_->statistics();
      unseen = true;
      EXPECT_TRUE(operate({{evicted, 6 * kPage}}).is_out_of_memory());
      DeviceAddress more;
      EXPECT_TRUE(!engine_->allocate(6 * kPage, std::nullopt, &more).ok() ||
                  operate({{more, 6 * kPage}}).is_out_of_memory());
      EXPECT_EQ(engine_->evict(there), Status::not_supported());
      EXPECT_TRUE(engine_->add_external(6 * kPage).is_out_of_memory());
      for (int turn = 0; turn < 20; ++turn) ASSERT_TRUE(operate({{there, 6 * kPage}, {newest, 6 * kPage}}).ok());
      EXPECT_EQ(engine_->statistics().evicted_bytes, before.evicted_bytes);
      EXPECT_EQ(engine_->statistics().evictions, before.evictions);
      ASSERT_TRUE(engine_->free(newest, std::nullopt).ok());
      EXPECT_TRUE(operate({{there, 6 * kPage}, {evicted, 6 * kPage}}).ok());
      TearDown();
    }
  }
}

TEST_F(EngineTest, PinnedBuffersStay) {
  start({.budget_bytes = 8 * kPage});
  const DeviceAddress kept = allocate(4 * kPage);
  ASSERT_TRUE(engine_->pin(kept, "test").ok());
  for (int i = 0; i < 6; ++i) {
    const DeviceAddress other = allocate(4 * kPage);
    ASSERT_TRUE(operate({{other, 4 * kPage}}).ok());
    EXPECT_TRUE(engine_->find(kept)->resident);
  }
  EXPECT_EQ(engine_->statistics().pinned_buffers, 1u);
  ASSERT_TRUE(engine_->free(kept, std::nullopt).ok());
  EXPECT_EQ(engine_->statistics().pinned_buffers, 0u);
}

// A user may access it on a stream of which the engine knows nothing.
TEST_F(EngineTest, WhatIsPinnedIsThereOnceItHasBeenWaitedFor) {
  for (const bool without_lock : {false, true}) {
    start({.budget_bytes = 8 * kPage, .waits_without_lock = without_lock});
    const Driver& driver = device_->driver();
    StreamHandle stream;
    ASSERT_TRUE(driver.create_stream(&stream).ok());
    const DeviceAddress a = allocate(5 * kPage), b = allocate(5 * kPage);
    ASSERT_TRUE(operate({{a, 5 * kPage}}, Access::kWrite).ok());
    ASSERT_TRUE(operate({{b, 5 * kPage}}, Access::kWrite).ok());
    ASSERT_FALSE(engine_->find(a)->resident);
    ASSERT_TRUE(engine_->pin(a, "test").ok());
    EXPECT_EQ(engine_->statistics().pinned_bytes, 5 * kPage);
    EXPECT_EQ(engine_->wait_until_fetched(a, Engine::HostWait::kNever), Status::not_ready());
    ASSERT_TRUE(engine_->wait_until_fetched(a).ok());
    EXPECT_TRUE(engine_->wait_until_fetched(a, Engine::HostWait::kNever).ok());
    const SimulatedOperand operand{a.value, 5 * kPage, SIMULATED_OPERAND_READ};
    const auto there = reinterpret_cast<void*>(static_cast<std::uintptr_t>(stream));
    ASSERT_EQ(device_->control().launch_operator(there, "unseen", 0, 0, 5, &operand, 1), 0);
    ASSERT_TRUE(driver.synchronize_context().ok());
    EXPECT_EQ(races(), 0u);
    ASSERT_TRUE(driver.destroy_stream(stream).ok());
    TearDown();
  }
}

// The neighbor's memory is still used by whoever had it before; that may take until the calling thread lets it end.
TEST_F(EngineTest, WhatIsPinnedInASlabDoesNotWaitForItsNeighbours) {
  start({.budget_bytes = 8 * kPage});
  const Driver& driver = device_->driver();
  const DeviceAddress a = allocate(64 * kKiB), before = allocate(64 * kKiB);
  ASSERT_TRUE(operate({{a, 64 * kKiB}, {before, 64 * kKiB}}, Access::kWrite).ok());
  ASSERT_TRUE(driver.synchronize_context().ok());
  engine_->synchronized_all();
  ASSERT_TRUE(operate({{before, 64 * kKiB}}, Access::kWrite).ok());
  ASSERT_TRUE(engine_->free(before, kStream).ok());
  const DeviceAddress b = allocate(64 * kKiB);
  ASSERT_EQ(b, before);
  for (const DeviceAddress one : {a, b}) ASSERT_TRUE(engine_->pin(one, "test").ok());
  EXPECT_TRUE(engine_->wait_until_fetched(a, Engine::HostWait::kNever).ok());
  EXPECT_EQ(engine_->wait_until_fetched(b, Engine::HostWait::kNever), Status::not_ready());
  ASSERT_TRUE(engine_->wait_until_fetched(b).ok());
}

// The contents are the same as if the engine had been told of it.
TEST_F(EngineTest, WhatIsWrittenUnseenWhilePinnedIsKept) {
  const auto checksum_of = [this](bool has_host_copy, bool is_seen, bool is_about_to_leave) {
    start({.budget_bytes = 8 * kPage, .policy = kReactivePolicy});
    const Driver& driver = device_->driver();
    const DeviceAddress a = allocate(5 * kPage), b = allocate(5 * kPage);
    if (has_host_copy) {
      EXPECT_TRUE(operate({{a, 5 * kPage}}, Access::kWrite).ok());
    }
    EXPECT_TRUE(operate({{b, 5 * kPage}}, Access::kWrite).ok());
    if (is_about_to_leave) {
      EXPECT_TRUE(operate({{a, 5 * kPage}}, Access::kRead).ok());
      EXPECT_TRUE(engine_->evict(a).ok());
    }
    EXPECT_TRUE(engine_->pin(a, "test").ok());
    EXPECT_TRUE(engine_->wait_until_fetched(a).ok());
    const SimulatedOperand operand{a.value, 5 * kPage, SIMULATED_OPERAND_WRITE};
    if (is_seen) {
      EXPECT_TRUE(operate({{a, 5 * kPage}}, Access::kWrite).ok());
    } else {
      EXPECT_EQ(device_->control().launch_operator(nullptr, "operator", 1e9, 1e6, std::nan(""), &operand, 1), 0);
    }
    EXPECT_TRUE(driver.synchronize_context().ok());
    engine_->unpin_unseen(a, engine_->find(a)->number);
    engine_->validate();
    EXPECT_TRUE(operate({{b, 5 * kPage}}, Access::kWrite).ok());
    EXPECT_FALSE(engine_->find(a)->resident);
    EXPECT_TRUE(operate({{a, 5 * kPage}}, Access::kRead).ok());
    const std::uint64_t sum = checksum();
    TearDown();
    return sum;
  };
  for (const bool has_host_copy : {false, true}) {
    for (const bool leaves : {false, true}) {
      EXPECT_EQ(checksum_of(has_host_copy, false, leaves), checksum_of(has_host_copy, true, leaves))
          << has_host_copy << leaves;
    }
  }
}

TEST_F(EngineTest, BuffersPinnedForNowStayUntilTheyAreUnpinnedAsOften) {
  start({.budget_bytes = 8 * kPage});
  const DeviceAddress kept = allocate(4 * kPage);
  const auto crowd = [&] {
    for (int i = 0; i < 6; ++i) {
      const DeviceAddress other = allocate(4 * kPage);
      ASSERT_TRUE(operate({{other, 4 * kPage}}).ok());
    }
  };
  ASSERT_TRUE(operate({{kept, 4 * kPage}}).ok());
  ASSERT_TRUE(engine_->pin(kept, "test").ok());
  ASSERT_TRUE(engine_->pin(kept + kPage, "test").ok()) << "any address in it";
  engine_->unpin(kept, engine_->find(kept)->number);
  crowd();
  EXPECT_TRUE(engine_->find(kept)->resident) << "pinned once more than unpinned";
  EXPECT_EQ(engine_->statistics().pinned_buffers, 1u);
  EXPECT_EQ(engine_->statistics().pinned_bytes, 4 * kPage);
  engine_->unpin(kept, engine_->find(kept)->number);
  engine_->unpin(kept, engine_->find(kept)->number);
  EXPECT_EQ(engine_->statistics().pinned_buffers, 0u);
  EXPECT_EQ(engine_->statistics().pinned_bytes, 0u);
  crowd();
  EXPECT_FALSE(engine_->find(kept)->resident);
  engine_->validate();
  ASSERT_TRUE(engine_->pin(kept, "test").ok());
  EXPECT_TRUE(engine_->find(kept)->resident) << "brought back";
  const std::uint64_t number = engine_->find(kept)->number;
  engine_->keep_pinned(kept, number);
  engine_->unpin(kept, number);
  crowd();
  EXPECT_TRUE(engine_->find(kept)->resident) << "pinned for good meanwhile";
  ASSERT_TRUE(engine_->free(kept, std::nullopt).ok());
  engine_->unpin(kept, number);
  EXPECT_EQ(engine_->statistics().pinned_bytes, 0u);
}

TEST_F(EngineTest, TheProgramsOwnMappingsCountAgainstTheBudget) {
  start({.budget_bytes = 8 * kPage});
  const DeviceAddress a = allocate(6 * kPage);
  ASSERT_TRUE(operate({{a, 6 * kPage}}).ok());
  ASSERT_TRUE(engine_->add_external(4 * kPage).ok()) << "what is in the way is evicted";
  EXPECT_FALSE(engine_->find(a)->resident);
  EXPECT_TRUE(operate({{a, 6 * kPage}}).is_out_of_memory());
  engine_->remove_external(4 * kPage);
  EXPECT_TRUE(operate({{a, 6 * kPage}}).ok());
  EXPECT_TRUE(engine_->add_external(9 * kPage).is_out_of_memory());
}

TEST_F(EngineTest, AnEndPointerAccessesTheBufferThatEndsThereAndNoOther) {
  start({.budget_bytes = 8 * kPage});
  const DeviceAddress a = allocate(4 * kPage), b = allocate(4 * kPage), c = allocate(4 * kPage);
  for (const DeviceAddress at : {a, b, c}) ASSERT_TRUE(operate({{at, 4 * kPage}}).ok());
  ASSERT_FALSE(engine_->find(a)->resident);
  const MemoryAccess end{a + 4 * kPage};
  Operation operation = engine_->begin(kStream, {&end, 1});
  ASSERT_TRUE(operation.status().ok());
  operation.commit();
  EXPECT_TRUE(engine_->find(a)->resident);
}

TEST_F(EngineTest, WhatIsReportedFreeCanBeAllocated) {
  start({.budget_bytes = 5 * kPage + kPage / 2});
  Bytes free = 0, total = 0;
  for (const Bytes expected : {5 * kPage, 3 * kPage}) {
    engine_->memory_info(&free, &total);
    EXPECT_EQ(free, expected);
    EXPECT_EQ(total, 5 * kPage + kPage / 2);
    allocate(2 * kPage - 1);
  }
  engine_->memory_info(&free, &total);
  ASSERT_TRUE(operate({{allocate(free), free}}).ok());
}

TEST_F(EngineTest, WhatIsOnlyReadIsDroppedAgainWithoutACopy) {
  start({.budget_bytes = 8 * kPage});
  const DeviceAddress a = allocate(4 * kPage), b = allocate(4 * kPage), c = allocate(4 * kPage);
  for (const DeviceAddress at : {a, b, c}) ASSERT_TRUE(operate({{at, 4 * kPage}}).ok());
  for (const DeviceAddress at : {a, b, c}) ASSERT_TRUE(operate({{at, 4 * kPage}}, Access::kRead).ok());
  const Bytes evicted = engine_->statistics().evicted_bytes;
  for (int turn = 0; turn < 4; ++turn) {
    for (const DeviceAddress at : {a, b, c}) ASSERT_TRUE(operate({{at, 4 * kPage}}, Access::kRead).ok());
  }
  EXPECT_LE(engine_->statistics().evicted_bytes, evicted + 4 * kPage) << "at most the last dirty one";
}

TEST_F(EngineTest, FreesOnlyWhatItHandedOut) {
  start({.budget_bytes = 8 * kPage});
  const DeviceAddress a = allocate(kPage);
  EXPECT_EQ(engine_->free(a + 512, std::nullopt), Status::invalid_value());
  EXPECT_EQ(engine_->free(DeviceAddress{4096}, std::nullopt), Status::invalid_value());
  EXPECT_EQ(engine_->free(DeviceAddress{}, std::nullopt), Status::invalid_value());
  EXPECT_TRUE(engine_->free(a, std::nullopt).ok());
  EXPECT_EQ(engine_->free(a, std::nullopt), Status::invalid_value());
}

}  // namespace
}  // namespace thermocline
