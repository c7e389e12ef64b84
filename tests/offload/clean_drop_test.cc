// SPDX-License-Identifier: Apache-2.0
// Evictions without a copy because the digest shows no change (offload/residency/clean_drop.cc), on the simulated
// device with real memory: the kernel computes the digests, and every byte is compared.
#include <vector>

#include "tests/offload/real_memory_fixture.h"

namespace thermocline {
namespace {

class CleanDropTest : public RealMemoryTest {};

TEST_P(CleanDropTest, WhatNeverChangesGoesOutAtMostTwice) {
  start();
  std::vector<DeviceAddress> weights;
  for (unsigned char i = 0; i < 8; ++i) {
    weights.push_back(allocate(3 * kPage));
    write(weights.back(), 3 * kPage, i);
  }
  Bytes after_first = 0;
  for (int round = 0; round < 6; ++round) {
    for (unsigned char i = 0; i < 8; ++i) ASSERT_TRUE(holds(weights[i], 3 * kPage, i)) << "round " << round;
    if (round == 1) after_first = statistics().evicted_bytes;
  }
  const EngineStatistics s = statistics();
  EXPECT_GT(s.unchanged_units, 20u);
  EXPECT_EQ(s.changed_units, 0u);
  EXPECT_EQ(s.uncopied_bytes, s.unchanged_units * 3 * kPage);
  EXPECT_EQ(s.evicted_bytes, after_first) << "nothing goes out any more";
  EXPECT_LE(s.evicted_bytes, 2 * 24 * kPage);
}

TEST_P(CleanDropTest, WhatHasChangedIsCopied) {
  start();
  const DeviceAddress a = allocate(5 * kPage), b = allocate(5 * kPage);
  write(a, 5 * kPage, 1);
  write(b, 5 * kPage, 2);
  for (unsigned char turn = 0; turn < 6; ++turn) {
    use(a);
    write(a, 1, turn, 5 * kPage - 1);
    use(b);
    ASSERT_TRUE(holds(a, 1, turn, 5 * kPage - 1)) << int{turn};
    ASSERT_TRUE(holds(a, 5 * kPage - 1, 1)) << int{turn};
    ASSERT_TRUE(holds(b, 5 * kPage, 2)) << int{turn};
  }
  EXPECT_GT(statistics().changed_units, 0u);
}

// It costs a digest now and then, and no more.
TEST_P(CleanDropTest, WhatAlwaysChangesIsLeftAlone) {
  start();
  const DeviceAddress a = allocate(5 * kPage), b = allocate(5 * kPage);
  for (int turn = 0; turn < 40; ++turn) {
    write(a, 5 * kPage, static_cast<unsigned char>(turn));
    write(b, 5 * kPage, static_cast<unsigned char>(turn + 1));
    ASSERT_TRUE(holds(a, 5 * kPage, static_cast<unsigned char>(turn)));
  }
  const EngineStatistics s = statistics();
  EXPECT_GT(s.evictions, 70u);
  EXPECT_LT(s.changed_units, 16u);
  EXPECT_LT(s.digests, 30u);
}

// One of several units, its first and its last byte among them.
TEST_P(CleanDropTest, UnitsAreComparedWhole) {
  start({.budget_bytes = 96 * kMiB, .policy = kReactivePolicy, .host_fallback = GetParam()});
  constexpr Bytes kBytes = 72 * kMiB;  // three units
  const DeviceAddress a = allocate(kBytes), b = allocate(kBytes);
  write(a, kBytes, 7);
  write(b, kBytes, 8);
  unsigned char value = 20;
  for (const Bytes at : {Bytes{0}, 24 * kMiB - 1, 24 * kMiB, kBytes - 1}) {
    use(a), use(b), use(a);
    write(a, 1, ++value, at);
    use(b);
    ASSERT_TRUE(holds(a, 1, value, at)) << at;
  }
  EXPECT_GT(statistics().unchanged_units, 0u);
}

TEST_P(CleanDropTest, AWriteBehindTheDigestCounts) {
  start();
  const DeviceAddress a = allocate(3 * kPage), b = allocate(3 * kPage), c = allocate(3 * kPage);
  for (const DeviceAddress at : {a, b, c}) write(at, 3 * kPage, 1);
  for (int turn = 0; turn < 3; ++turn) use(a), use(b), use(c), synchronize();
  for (unsigned char turn = 10; turn < 14; ++turn) {
    use(a), synchronize();
    // The check begins, and is not known to be over when the write comes.
    ASSERT_TRUE(engine_->evict(a).ok());
    write_at_once(a, 3 * kPage, turn);
    use(b), use(c);
    ASSERT_TRUE(holds(a, 3 * kPage, turn));
  }
}

// While it is evicted somebody unseen writes to it, and when it is back what was there before is written again: the pages
// then hold what once was copied out, and the host does not.
TEST_P(CleanDropTest, ACopyThatTheDeviceWroteToIsAnotherOne) {
  if (GetParam() == HostFallback::kOff) GTEST_SKIP() << "nobody can reach it there";
  start();
  const DeviceAddress a = allocate(3 * kPage), b = allocate(4 * kPage), c = allocate(3 * kPage);
  write(a, 3 * kPage, 1);
  write(b, 4 * kPage, 2);
  for (int turn = 0; turn < 2; ++turn) use(a), use(b), use(c), synchronize();
  // Copied out early, with a digest, and then evicted.
  use(a), synchronize();
  ASSERT_TRUE(engine_->evict(a).ok());
  synchronize();
  use(b), use(c), synchronize();
  ASSERT_FALSE(engine_->find(a)->resident);
  std::memset(pinned_, 9, 64);
  ASSERT_TRUE(driver().copy_to_device(a + 50000, pinned_, 64, kStream).ok());
  synchronize();
  // Not one of the samples that find unseen writes: the copy is 6 MiB.
  write(a, 64, 1, 50000);
  use(b), use(c);
  ASSERT_TRUE(holds(a, 3 * kPage, 1));
}

// A slab's copy ends where its last buffer ended. A buffer that is allocated behind that, and written, is contents that
// neither the copy nor its digest has.
TEST_P(CleanDropTest, ABufferThatCameIntoASlabBehindItsCopyIsCopied) {
  start();
  const DeviceAddress a = allocate(kMiB), big = allocate(7 * kPage), other = allocate(3 * kPage);
  write(a, kMiB, 1);
  write(big, 7 * kPage, 2);
  write(other, 3 * kPage, 3);
  for (int turn = 0; turn < 2; ++turn) use(a), use(big), use(other), synchronize();
  use(a), synchronize();
  const DeviceAddress b = allocate(512 * kKiB);
  ASSERT_EQ(b - a, kMiB) << "in the same slab, behind the other one";
  write(b, 512 * kKiB, 5);
  for (int turn = 0; turn < 2; ++turn) use(big), use(other), synchronize();
  ASSERT_TRUE(holds(a, kMiB, 1));
  ASSERT_TRUE(holds(b, 512 * kKiB, 5));
}

TEST_P(CleanDropTest, NothingIsDigestedWhileEverythingFits) {
  start(kLearnedPolicy);
  const DeviceAddress a = allocate(4 * kPage), b = allocate(4 * kPage);
  for (int turn = 0; turn < 8; ++turn) {
    write(a, 4 * kPage, 1);
    use(b);
  }
  EXPECT_EQ(statistics().digests, 0u);
  EXPECT_EQ(launches.made, 0u);
}

TEST_P(CleanDropTest, WithoutTheKernelEverythingIsAsBefore) {
  start({.budget_bytes = 8 * kPage, .policy = kReactivePolicy, .host_fallback = GetParam()}, {}, refuse_modules);
  const DeviceAddress a = allocate(5 * kPage), b = allocate(5 * kPage);
  write(a, 5 * kPage, 1);
  write(b, 5 * kPage, 2);
  for (int turn = 0; turn < 3; ++turn) {
    ASSERT_TRUE(holds(a, 5 * kPage, 1));
    ASSERT_TRUE(holds(b, 5 * kPage, 2));
  }
  EXPECT_EQ(statistics().digests, 0u);
  EXPECT_EQ(statistics().unchanged_units, 0u);
  EXPECT_EQ(statistics().digests_unavailable, 1u);
}

// The first eviction is when the device is full, and code needs memory of it: there may be room later.
TEST_P(CleanDropTest, ALoadThatFoundNoRoomIsTriedAgain) {
  start({.budget_bytes = 8 * kPage, .policy = kReactivePolicy, .host_fallback = GetParam()}, {},
        refuse_the_first_module);
  const DeviceAddress a = allocate(5 * kPage), b = allocate(5 * kPage);
  write(a, 5 * kPage, 1);
  write(b, 5 * kPage, 2);
  for (int turn = 0; turn < 4; ++turn) use(a), use(b);
  EXPECT_GT(modules_loaded, 1);
  EXPECT_GT(statistics().unchanged_units, 0u);
}

// A launch that is refused, and one that is lost, at each place: what is not known is copied.
TEST_P(CleanDropTest, LaunchesMayFail) {
  for (const bool lost : {false, true}) {
    for (const unsigned from : {0u, 1u, 3u, 6u}) {
      start();
      (lost ? launches.lost_from : launches.refused_from) = from;
      const DeviceAddress a = allocate(5 * kPage), b = allocate(5 * kPage);
      write(a, 5 * kPage, 1);
      write(b, 5 * kPage, 2);
      for (unsigned char turn = 0; turn < 4; ++turn) {
        write(a, 5 * kPage, turn);
        ASSERT_TRUE(holds(b, 5 * kPage, 2));
        ASSERT_TRUE(holds(a, 5 * kPage, turn)) << from;
      }
      TearDown();
      engine_.reset();
    }
  }
}

// The records of a lost launch contain another digest, which may be that of the next contents.
TEST_P(CleanDropTest, ALostLaunchIsNoDigest) {
  for (int lost = 1; lost <= 6; ++lost) {
    start();
    const DeviceAddress a = allocate(5 * kPage), b = allocate(5 * kPage);
    const auto leave_with = [&](unsigned char value) {
      write(a, 5 * kPage, value);
      use(b);
      synchronize();
    };
    write(b, 5 * kPage, 2);
    for (int turn = 0; turn < 2; ++turn) leave_with(7);
    leave_with(8);  // the newest digest; the next copies out are taken without one
    launches.lost_from = 0;
    for (int turn = 0; turn < lost; ++turn) leave_with(9);
    launches.lost_from = ~0u;
    leave_with(8);
    ASSERT_TRUE(holds(a, 5 * kPage, 8)) << lost;
    TearDown();
    engine_.reset();
  }
}

// The plan takes what was found unchanged for read, until it changes. Operations differ in how many buffers they use, so
// a plan that is off by one of them shows.
TEST_P(CleanDropTest, WhatBeginsToChangeIsPlannedAnew) {
  start({.budget_bytes = 12 * kPage, .policy = kLearnedPolicy, .host_fallback = GetParam()});
  constexpr int kLayers = 8;
  std::vector<DeviceAddress> layers;
  for (unsigned char i = 0; i < kLayers; ++i) {
    layers.push_back(allocate(2 * kPage));
    write(layers.back(), 2 * kPage, i);
  }
  const DeviceAddress activations = allocate(kPage);
  write(activations, kPage, 0);
  const auto run = [&](std::vector<MemoryAccess> accesses, std::uint64_t kind, auto&& submit) {
    Operation operation = engine_->begin(kStream, accesses, {.kind = kind});
    ASSERT_TRUE(operation.status().ok()) << operation.status().code();
    ASSERT_TRUE(submit().ok());
    operation.commit();
  };
  const auto pass = [&](bool changes, unsigned char value) {
    std::uint64_t kind = 0;
    for (int i = 0; i < kLayers; ++i) {
      std::memset(pinned_, value + i, 64);
      run({{layers[i]}, {activations}}, ++kind, [&] {
        return changes ? driver().copy_to_device(layers[i], pinned_, 64, kStream)
                       : driver().copy_to_host(pinned_, layers[i], 64, kStream);
      });
      run({{activations}}, ++kind, [&] { return driver().copy_to_host(pinned_, activations, 64, kStream); });
      synchronize();
    }
  };
  for (int i = 0; i < 10; ++i) pass(false, 0);
  const std::uint64_t plans = statistics().plans;
  EXPECT_GE(plans, 1u);
  for (int i = 0; i < 14; ++i) pass(true, static_cast<unsigned char>(i));
  EXPECT_GT(statistics().plans, plans);
  for (int i = 0; i < kLayers; ++i) EXPECT_TRUE(holds(layers[i], 64, static_cast<unsigned char>(13 + i))) << i;
}

// Weights in training: unchanged between the passes of a step, changed behind them. What was found unchanged only there
// is not taken for read, or each step would be planned anew.
TEST_P(CleanDropTest, WhatChangesInEachStepIsPlannedOnce) {
  start({.budget_bytes = 4 * kPage, .policy = kLearnedPolicy, .host_fallback = GetParam()});
  constexpr int kLayers = 6;
  std::vector<DeviceAddress> layers;
  for (int i = 0; i < kLayers; ++i) {
    layers.push_back(allocate(kPage));
    write(layers.back(), kPage, static_cast<unsigned char>(i));
  }
  const auto run = [&](int layer, std::uint64_t kind, bool changes) {
    const MemoryAccess access{layers[layer]};
    Operation operation = engine_->begin(kStream, {&access, 1}, {.kind = kind});
    ASSERT_TRUE(operation.status().ok()) << operation.status().code();
    ASSERT_TRUE((changes ? driver().copy_to_device(layers[layer], pinned_, 64, kStream)
                         : driver().copy_to_host(pinned_, layers[layer], 64, kStream))
                    .ok());
    operation.commit();
    synchronize();
  };
  const auto step = [&](int number) {
    std::uint64_t kind = 0;
    for (int pass = 0; pass < 3; ++pass) {
      for (int i = 0; i < kLayers; ++i) run(i, ++kind, false);
    }
    for (int i = 0; i < kLayers; ++i) {
      std::memset(pinned_, number + i, 64);
      run(i, ++kind, true);
    }
  };
  for (int i = 0; i < 8; ++i) step(i);
  const std::uint64_t plans = statistics().plans;
  EXPECT_GE(plans, 1u);
  EXPECT_GT(statistics().unchanged_units, 0u);
  for (int i = 8; i < 14; ++i) step(i);
  EXPECT_EQ(statistics().plans, plans);
}

// Host memory for what is live, and little more: a stale copy goes when another one needs its place. Without digests the
// program needs as much.
TEST_P(CleanDropTest, StaleCopiesGiveWayToOthers) {
  pinned_memory.most = 56 * kMiB;
  start({.budget_bytes = 8 * kPage, .policy = kReactivePolicy, .host_fallback = GetParam()}, {}, limit_pinned_memory);
  std::vector<DeviceAddress> all;
  for (unsigned char i = 0; i < 9; ++i) {
    all.push_back(allocate(3 * kPage));
    write(all.back(), 3 * kPage, i);
  }
  for (int turn = 0; turn < 3; ++turn) {
    for (unsigned char i = 0; i < 9; ++i) ASSERT_TRUE(holds(all[i], 3 * kPage, i)) << turn;
  }
  EXPECT_GT(statistics().digests, 0u);
  EXPECT_LE(statistics().peak_host_bytes, pinned_memory.most);
}

TEST_P(CleanDropTest, AdversarialOrders) {
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    start({.budget_bytes = 8 * kPage, .policy = kReactivePolicy, .host_fallback = GetParam()}, seed);
    std::vector<DeviceAddress> all;
    std::vector<unsigned char> values(6);
    for (std::size_t i = 0; i < values.size(); ++i) {
      all.push_back(allocate(2 * kPage));
      write(all.back(), 2 * kPage, 0);
    }
    for (unsigned turn = 0; turn < 40; ++turn) {
      const std::size_t which = (turn * 7 + seed) % 6;
      if ((turn * 5 + seed) % 11 == 0) write(all[which], 2 * kPage, values[which] = static_cast<unsigned char>(turn));
      if (turn % 4 == 0) {
        ASSERT_TRUE(holds(all[which], 2 * kPage, values[which])) << "seed " << seed << ", turn " << turn;
      } else {
        use(all[which]);
      }
    }
    TearDown();
    engine_.reset();
  }
}

INSTANTIATE_TEST_SUITE_P(Nets, CleanDropTest, testing::Values(HostFallback::kOff, HostFallback::kAuto),
                         [](const auto& named) { return named.param == HostFallback::kOff ? "Off" : "Auto"; });

}  // namespace
}  // namespace thermocline
