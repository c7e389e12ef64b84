// SPDX-License-Identifier: Apache-2.0
// An engine whose budget changes while it runs.
#include "offload/sharing/budget_source.h"

#include <array>
#include <functional>

#include "offload/sharing/stall_meter.h"
#include "tests/offload/engine_fixture.h"

namespace thermocline {
namespace {

constexpr Bytes kAtFirst = 8 * kPage, kDevice = 40 * kPage;

// Gives what the test says.
class FakeSource : public BudgetSource {
 public:
  Bytes raise(Bytes wanted) override {
    asked = std::max(asked, wanted);
    return grow();
  }
  Bytes grow() override {
    budget = std::max(budget, allowed);
    return budget;
  }
  void lowered(Bytes to) override { budget = to; }
  bool may_have_later(Bytes wanted) override { return wanted <= later; }
  Bytes share() override { return 20 * kPage; }
  bool waits_for_turn() override { return turns_of_others > 0 && --turns_of_others > 0; }
  bool needs_times() const override { return measures; }

  Bytes budget = kAtFirst, allowed = kAtFirst, later = 0, asked = 0;
  int turns_of_others = 0;
  bool measures = false;
};

class SharedBudgetTest : public EngineTest, public testing::WithParamInterface<bool> {
 protected:
  void SetUp() override {
    start({.budget_bytes = kAtFirst, .budget_source = &source_, .waits_without_lock = GetParam()}, kDevice);
  }
  EngineStatistics now() const { return engine_->statistics(); }
  // Reads and writes three buffers, of 6 pages each, in turn.
  std::uint64_t work(const std::function<void(int)>& between) {
    std::array<DeviceAddress, 3> all;
    for (DeviceAddress& one : all) {
      one = allocate(6 * kPage);
      EXPECT_TRUE(operate({{one, 6 * kPage}}, Access::kWrite).ok());
    }
    for (int i = 0; i < 12; ++i) {
      EXPECT_TRUE(operate({{all[static_cast<std::size_t>(i) % 3], 6 * kPage}}).ok());
      between(i);
    }
    return checksum();
  }

  FakeSource source_;
};

TEST_P(SharedBudgetTest, ItGrowsWhenTheProgramNeedsMore) {
  source_.allowed = 18 * kPage;
  const DeviceAddress first = allocate(6 * kPage), second = allocate(6 * kPage);
  EXPECT_GE(source_.asked, 12 * kPage);
  ASSERT_TRUE(operate({{first, 6 * kPage}, {second, 6 * kPage}}, Access::kWrite).ok());
  EXPECT_EQ(now().budget_bytes, 18 * kPage);
  EXPECT_EQ(now().evicted_bytes, 0u);
}

TEST_P(SharedBudgetTest, WhatIsAskedBackIsEvictedAndTheBitsStay) {
  source_.allowed = 18 * kPage;
  const std::uint64_t plain = work([](int) {});
  TearDown();
  source_ = {};
  source_.allowed = 18 * kPage;
  SetUp();
  const std::uint64_t lent = work([this](int i) {
    source_.allowed = i % 4 < 2 ? 7 * kPage : 18 * kPage;
    if (i % 4 < 2) {
      EXPECT_TRUE(engine_->lower_budget(7 * kPage).ok());
      EXPECT_LE(now().device_bytes, 7 * kPage);
      EXPECT_EQ(source_.budget, 7 * kPage);
    } else {
      engine_->raise_budget();
      EXPECT_EQ(now().budget_bytes, 18 * kPage);
    }
  });
  EXPECT_EQ(lent, plain);
  EXPECT_GT(now().evicted_bytes, 0u);
  EXPECT_EQ(now().out_of_memory, 0u);
}

TEST_P(SharedBudgetTest, WhatCanNotLeaveKeepsItsPart) {
  source_.allowed = 18 * kPage;
  const DeviceAddress pinned = allocate(10 * kPage), other = allocate(6 * kPage);
  ASSERT_TRUE(operate({{pinned, 10 * kPage}, {other, 6 * kPage}}, Access::kWrite).ok());
  ASSERT_TRUE(engine_->pin(pinned, "a test").ok());
  source_.allowed = 0;
  EXPECT_TRUE(engine_->lower_budget(4 * kPage).is_out_of_memory());
  EXPECT_GE(source_.budget, 10 * kPage);
  EXPECT_LT(source_.budget, 18 * kPage) << "the rest has been given back";
  EXPECT_EQ(now().budget_bytes, source_.budget);
  ASSERT_TRUE(operate({{pinned, 10 * kPage}}).ok());
}

TEST_P(SharedBudgetTest, MemoryOfTheProgramsOwnKeepsItsPart) {
  source_.allowed = 18 * kPage;
  ASSERT_TRUE(engine_->add_external(10 * kPage).ok());
  source_.allowed = 0;
  EXPECT_TRUE(engine_->lower_budget(4 * kPage).ok());
  EXPECT_EQ(source_.budget, 10 * kPage);
  engine_->remove_external(10 * kPage);
  EXPECT_TRUE(engine_->lower_budget(4 * kPage).ok());
  EXPECT_EQ(source_.budget, 4 * kPage);
}

// An operation waits for what others give back, and is refused where that does not come.
TEST_P(SharedBudgetTest, WhatDoesNotFitYetIsNotRefused) {
  const DeviceAddress first = allocate(6 * kPage), second = allocate(6 * kPage);
  source_.later = 12 * kPage;
  EXPECT_EQ(operate({{first, 6 * kPage}, {second, 6 * kPage}}, Access::kWrite), Status::not_ready());
  EXPECT_EQ(now().out_of_memory, 0u);
  source_.later = 0;
  EXPECT_TRUE(operate({{first, 6 * kPage}, {second, 6 * kPage}}, Access::kWrite).is_out_of_memory());
  EXPECT_EQ(now().out_of_memory, 1u);
  source_.allowed = 12 * kPage;
  EXPECT_TRUE(operate({{first, 6 * kPage}, {second, 6 * kPage}}, Access::kWrite).ok());
}

TEST_P(SharedBudgetTest, OneAllocationWaitsTheSameWay) {
  DeviceAddress at;
  source_.later = 12 * kPage;
  EXPECT_EQ(engine_->allocate(12 * kPage, std::nullopt, &at), Status::not_ready());
  EXPECT_EQ(engine_->add_external(12 * kPage), Status::not_ready());
  source_.later = 0;
  EXPECT_TRUE(engine_->allocate(12 * kPage, std::nullopt, &at).is_out_of_memory());
  EXPECT_TRUE(engine_->add_external(12 * kPage).is_out_of_memory());
  source_.allowed = 12 * kPage;
  EXPECT_TRUE(engine_->allocate(12 * kPage, std::nullopt, &at).ok());
}

TEST_P(SharedBudgetTest, AProgramIsToldItsShareAndTheSourceWhatItUses) {
  const DeviceAddress one = allocate(4 * kPage);
  ASSERT_TRUE(operate({{one, 4 * kPage}}, Access::kWrite).ok());
  Bytes free = 0, total = 0;
  engine_->memory_info(&free, &total);
  EXPECT_EQ(total, 20 * kPage);
  EXPECT_EQ(free, 16 * kPage);
  ASSERT_TRUE(device_->driver().synchronize_context().ok());
  const auto use = engine_->try_budget_use();
  ASSERT_TRUE(use.has_value());
  EXPECT_EQ(use->budget, kAtFirst);
  EXPECT_EQ(use->demand, 4 * kPage);
  EXPECT_EQ(use->in_use, 4 * kPage);
  EXPECT_FALSE(use->works);
  ASSERT_TRUE(operate({{one, 4 * kPage}}, Access::kRead).ok());
  EXPECT_NE(engine_->try_budget_use()->activity, use->activity);
}

// Or it would count as active, and take back what it has just given.
TEST_P(SharedBudgetTest, GivingBackIsNoWorkOfTheProgram) {
  const DeviceAddress one = allocate(6 * kPage);
  ASSERT_TRUE(operate({{one, 6 * kPage}}, Access::kWrite).ok());
  ASSERT_TRUE(device_->driver().synchronize_context().ok());
  const auto rests = engine_->try_budget_use();
  ASSERT_TRUE(engine_->lower_budget(4 * kPage).ok());
  EXPECT_GT(now().evicted_bytes, 0u);
  ASSERT_TRUE(engine_->lower_budget(2 * kPage).ok());
  const auto given = engine_->try_budget_use();
  EXPECT_EQ(given->activity, rests->activity);
  EXPECT_FALSE(given->works);
}

// It would go on to evict what fits by now.
TEST_P(SharedBudgetTest, APlanForASmallerBudgetIsNotFollowed) {
  TearDown();
  start({.budget_bytes = kAtFirst,
         .budget_source = &source_,
         .policy = find_policy("learned"),
         .waits_without_lock = GetParam()},
        kDevice);
  source_.allowed = 13 * kPage;
  std::array<DeviceAddress, 3> all;
  for (DeviceAddress& one : all) {
    one = allocate(6 * kPage);
    EXPECT_TRUE(operate({{one, 6 * kPage}}, Access::kWrite).ok());
  }
  const auto turns = [&](int count) {
    for (int i = 0; i < 3 * count; ++i) {
      ASSERT_TRUE(operate({{all[static_cast<std::size_t>(i) % 3], 6 * kPage}}).ok());
      ASSERT_TRUE(device_->driver().synchronize_context().ok());
    }
  };
  turns(20);
  ASSERT_GT(now().plans, 0u);
  source_.allowed = 24 * kPage;
  engine_->raise_budget();
  turns(2);
  const Bytes evicted = now().evicted_bytes;
  turns(10);
  EXPECT_EQ(now().evicted_bytes, evicted);
}

TEST_P(SharedBudgetTest, TheTimeThatOperationsRunAndWaitIsMeasured) {
  TearDown();
  source_.measures = true;
  SetUp();
  work([](int) {});
  ASSERT_TRUE(device_->driver().synchronize_context().ok());
  const StallTimes times = engine_->try_budget_use()->times;
  EXPECT_GT(times.computed_ns, 0u);
  EXPECT_GT(times.stalled_ns, times.computed_ns) << "each operation fetches what it needs";
  EXPECT_LE(times.stalled_ns, times.measured_ns);
  EXPECT_GT(times.copied_in_ns, 0u);
  EXPECT_GT(times.copied_out_ns, 0u);
}

TEST_P(SharedBudgetTest, NothingIsMeasuredUnlessAsked) {
  work([](int) {});
  ASSERT_TRUE(device_->driver().synchronize_context().ok());
  EXPECT_EQ(engine_->try_budget_use()->times.copied_in_ns, 0u);
}

TEST_P(SharedBudgetTest, AnOperationWaitsUntilOthersHaveHadTheirTurn) {
  const DeviceAddress one = allocate(4 * kPage);
  source_.turns_of_others = 5;
  EXPECT_TRUE(operate({{one, 4 * kPage}}, Access::kWrite).ok());
  EXPECT_EQ(source_.turns_of_others, 0);
}

TEST_P(SharedBudgetTest, OneOfWhichNothingIsKnownWaitsToo) {
  source_.turns_of_others = 5;
  EXPECT_TRUE(engine_->begin_unknown(kStream).status().ok());
  EXPECT_EQ(source_.turns_of_others, 0);
}

TEST_P(SharedBudgetTest, OneInPartsWaitsBeforeItsFirstPartOnly) {
  const DeviceAddress one = allocate(4 * kPage);
  source_.turns_of_others = 5;
  {
    const AmidParts as_one;
    EXPECT_TRUE(operate({{one, 4 * kPage}}, Access::kWrite).ok());
  }
  EXPECT_EQ(source_.turns_of_others, 5);
  engine_->wait_for_turn();
  EXPECT_EQ(source_.turns_of_others, 0);
}

TEST_P(SharedBudgetTest, TimeInWhichNothingIsMeasuredDoesNotCount) {
  TearDown();
  source_.measures = true;
  SetUp();
  constexpr double kLong = 1e6;  // us
  const auto run = [this](DeviceAddress at, double microseconds) {
    ASSERT_TRUE(submit({{at, 6 * kPage}}, Access::kWrite, {.kind = 7, .nanoseconds = 1000}, microseconds).ok());
  };
  const DeviceAddress first = allocate(6 * kPage), second = allocate(6 * kPage);
  for (const DeviceAddress at : {first, second, first, second}) run(at, 1);
  ASSERT_TRUE(engine_->free(first, std::nullopt).ok());
  run(second, kLong);
  const DeviceAddress third = allocate(6 * kPage);
  for (const DeviceAddress at : {third, second, third}) run(at, 1);
  static_cast<void>(engine_->begin_unknown(kStream));
  run(second, 1);
  ASSERT_TRUE(device_->driver().synchronize_context().ok());
  const StallTimes times = engine_->try_budget_use()->times;
  EXPECT_GT(times.measured_ns, 0u);
  EXPECT_LT(times.measured_ns, 1'000'000'000u);
}

// The engine's lock is free while an operation is prepared.
TEST_P(SharedBudgetTest, TheMeasurementOfOneOperationOutlivesAnothersFailure) {
  StallMeter meter(device_->driver());
  ASSERT_TRUE(meter.begin(kStream, true));
  meter.not_submitted();
  EXPECT_FALSE(meter.begin(kStream, true)) << "the first is still being prepared";
  meter.may_run(kStream);
  meter.not_submitted();
  EXPECT_TRUE(meter.begin(kStream, true));
}

INSTANTIATE_TEST_SUITE_P(Waits, SharedBudgetTest, testing::Bool());

}  // namespace
}  // namespace thermocline
