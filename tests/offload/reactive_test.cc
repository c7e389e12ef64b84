// SPDX-License-Identifier: Apache-2.0
// Offloading without a history: what is prefetched.
#include <utility>

#include "offload/residency/unit_size.h"
#include "tests/offload/engine_fixture.h"
#include "tests/offload/fake_driver.h"

namespace thermocline {
namespace {

class ReactiveTest : public EngineTest {
 protected:
  static constexpr std::size_t kFit = 8;

  // Twice as many buffers as fit are used in turn, then enough of them are freed for all evicted ones to fit.
  void leave_half_away(bool may_use_pageable = false) {
    EngineOptions options;
    options.may_use_pageable = may_use_pageable;
    options.budget_bytes = kFit * kUnitBytes;
    options.policy = kReactivePolicy;
    options.host_is_readable = false;
    start(options);
    if (may_use_pageable) {
      engine_.reset();
      table_ = device_->driver().table();
      limit_pinned_memory(&table_);
      driver_ = std::make_unique<Driver>(table_);
      ASSERT_TRUE(Engine::create(*driver_, options, &engine_).ok());
    }
    for (std::size_t i = 0; i < 2 * kFit; ++i) {
      all_.push_back(allocate(kUnitBytes));
      ASSERT_TRUE(use(i).ok());
    }
    ASSERT_TRUE(device_->driver().synchronize_context().ok());
    for (std::size_t i = kFit; i < 2 * kFit; ++i) ASSERT_TRUE(engine_->free(all_[i], std::nullopt).ok());
    ASSERT_EQ(engine_->statistics().nonresident_bytes, kFit * kUnitBytes);
  }
  Status use(std::size_t buffer) { return operate({{all_[buffer], kUnitBytes}}); }
  std::uint64_t prefetches() const { return engine_->statistics().prefetches; }

  std::vector<DeviceAddress> all_;
  DriverTable table_;
  std::unique_ptr<Driver> driver_;
};

TEST_F(ReactiveTest, NoMoreIsGuessedBeforeWhatWasGuessedIsUsed) {
  leave_half_away();
  // The buffer that was evicted last is fetched first.
  ASSERT_TRUE(use(kFit - 1).ok());
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(device_->driver().synchronize_context().ok());
    ASSERT_TRUE(use(kFit - 1).ok());
  }
  EXPECT_EQ(prefetches(), 2u);
  EXPECT_GT(engine_->statistics().nonresident_bytes, 0u);
}

TEST_F(ReactiveTest, WhatIsUsedIsFollowedByMore) {
  leave_half_away();
  ASSERT_TRUE(use(kFit - 1).ok());
  for (std::size_t i = kFit - 1; i-- > 0;) {
    ASSERT_TRUE(device_->driver().synchronize_context().ok());
    ASSERT_TRUE(use(i).ok());
  }
  // Except for the last one, whose room the next allocation may need.
  EXPECT_EQ(prefetches(), kFit - 2);
  EXPECT_EQ(engine_->statistics().nonresident_bytes, 0u);
}

// A unit in pageable memory is left where it is, and what was evicted before it is fetched.
TEST_F(ReactiveTest, WhatIsInPageableMemoryKeepsNothingElseAway) {
  pinned_memory.most = 4 * kUnitBytes;
  leave_half_away(true);
  ASSERT_GT(engine_->statistics().pageable_bytes, 0u);
  ASSERT_LT(engine_->statistics().pageable_bytes, engine_->statistics().host_bytes);
  ASSERT_TRUE(use(kFit - 1).ok());
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(device_->driver().synchronize_context().ok());
    ASSERT_TRUE(use(kFit - 1).ok());
  }
  EXPECT_EQ(prefetches(), 2u);
}

// Where nothing can be pinned the host would wait for both: copies out ahead of need, and back.
TEST_F(ReactiveTest, NothingGoesToPageableMemoryAheadOfNeedOrComesFromThere) {
  const auto run = [this](Bytes most) {
    pinned_memory.most = most;
    all_.clear();
    leave_half_away(true);
    const std::uint64_t written_behind = engine_->statistics().write_behinds;
    for (int i = 0; i < 4; ++i) {
      EXPECT_TRUE(device_->driver().synchronize_context().ok());
      EXPECT_TRUE(use(kFit - 1).ok());
    }
    return std::pair(written_behind, prefetches());
  };
  const auto [written_behind, fetched] = run(64 * kUnitBytes);
  EXPECT_GT(written_behind, 0u);
  EXPECT_GT(fetched, 0u);
  EXPECT_EQ(engine_->statistics().peak_pageable_bytes, 0u);
  TearDown();
  const auto [pageable_behind, pageable_fetched] = run(0);
  EXPECT_EQ(pageable_behind, 0u);
  EXPECT_EQ(pageable_fetched, 0u);
  EXPECT_GT(engine_->statistics().peak_pageable_bytes, 0u);
  EXPECT_EQ(engine_->statistics().out_of_memory, 0u);
}

}  // namespace
}  // namespace thermocline
