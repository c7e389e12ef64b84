// SPDX-License-Identifier: Apache-2.0
// A range that a call holds on the device keeps the eviction units that contain it, and nothing else of its buffer.
#include <array>
#include <thread>

#include "offload/residency/unit_size.h"
#include "tests/offload/engine_fixture.h"

namespace thermocline {
namespace {

constexpr Bytes kLarge = 4 * kUnitBytes;

class HeldRangesTest : public EngineTest {
 protected:
  void SetUp() override {
    start({.budget_bytes = kLarge + kPage, .policy = kLruPolicy});
    large_ = allocate(kLarge);
    ASSERT_TRUE(operate({{large_, kLarge}}, Access::kWrite).ok());
  }
  Status hold(Bytes from, Bytes bytes) {
    const Status status = engine_->hold_on_device(std::array{AddressRange{large_ + from, bytes}}, "a test", &hold_);
    engine_->validate();
    return status;
  }
  void let_go() {
    engine_->let_go(hold_);
    engine_->validate();
  }
  Bytes pinned() const { return engine_->statistics().pinned_bytes; }

  DeviceAddress large_;
  std::uint64_t hold_ = 0;
};

TEST_F(HeldRangesTest, OthersHaveTheRoomOfTheRest) {
  ASSERT_TRUE(hold(kUnitBytes + 4096, 4096).ok());
  EXPECT_EQ(pinned(), kUnitBytes);
  const DeviceAddress other = allocate(3 * kUnitBytes);
  ASSERT_TRUE(operate({{other, 3 * kUnitBytes}}, Access::kWrite).ok());
  EXPECT_EQ(engine_->host_copy_run({large_ + kUnitBytes, kUnitBytes}), kUnitBytes);
  const DeviceAddress more = allocate(2 * kPage);
  EXPECT_TRUE(operate({{more, 2 * kPage}}, Access::kWrite).ok()) << "others leave";
  let_go();
  EXPECT_EQ(pinned(), 0u);
}

// The room is taken by pinned memory, except for what the range needs.
TEST_F(HeldRangesTest, ALittleOfALargeBufferNeedsLittleRoom) {
  const DeviceAddress other = allocate(3 * kUnitBytes);
  ASSERT_TRUE(operate({{other, 3 * kUnitBytes}}, Access::kWrite).ok());
  ASSERT_TRUE(engine_->pin(other, "a test").ok());
  EXPECT_TRUE(hold(2 * kUnitBytes, 4096).ok());
  let_go();
  EXPECT_EQ(hold(0, 0), Status::out_of_memory()) << "the whole buffer";
  EXPECT_EQ(pinned(), 3 * kUnitBytes);
}

// Another thread's call returns soon; this thread's own does not before it has what it asks for.
TEST_F(HeldRangesTest, WhatAnotherThreadsCallHoldsIsWaitedFor) {
  const DeviceAddress other = allocate(2 * kUnitBytes);
  const auto use_other = [&] { return operate({{other, 2 * kUnitBytes}}, Access::kWrite); };
  std::thread([&] { ASSERT_TRUE(hold(0, 3 * kUnitBytes).ok()); }).join();
  EXPECT_EQ(use_other(), Status::not_ready());
  EXPECT_EQ(engine_->statistics().out_of_memory, 0u);
  let_go();
  EXPECT_TRUE(use_other().ok());
  ASSERT_TRUE(hold(0, 3 * kUnitBytes).ok());
  EXPECT_EQ(use_other(), Status::out_of_memory());
  let_go();
  // It would not fit if nothing were held.
  std::thread([&] { ASSERT_TRUE(hold(0, 8).ok()); }).join();
  const DeviceAddress more = allocate(3 * kUnitBytes);
  EXPECT_EQ(operate({{other, 2 * kUnitBytes}, {more, 3 * kUnitBytes}}, Access::kWrite), Status::out_of_memory());
  let_go();
}

TEST_F(HeldRangesTest, AllRangesAreHeldOrNone) {
  const DeviceAddress other = allocate(2 * kUnitBytes);
  ASSERT_TRUE(operate({{other, 2 * kUnitBytes}}, Access::kWrite).ok());
  const std::array both{AddressRange{large_, 3 * kUnitBytes}, AddressRange{other, 2 * kUnitBytes}};
  EXPECT_EQ(engine_->hold_on_device(both, "a test", &hold_), Status::out_of_memory());
  EXPECT_EQ(pinned(), 0u);
}

TEST_F(HeldRangesTest, BlocksAndRangesArePinnedBesideOneAnother) {
  std::uint64_t second = 0;
  ASSERT_TRUE(hold(0, 8).ok());
  ASSERT_TRUE(engine_->hold_on_device(std::array{AddressRange{large_ + 16, kUnitBytes}}, "a test", &second).ok());
  EXPECT_EQ(pinned(), 2 * kUnitBytes);
  ASSERT_TRUE(engine_->pin(large_, "a test").ok());
  EXPECT_EQ(pinned(), kLarge);
  let_go();
  EXPECT_EQ(pinned(), kLarge);
  engine_->unpin(large_, engine_->find(large_)->number);
  EXPECT_EQ(pinned(), 2 * kUnitBytes);
  engine_->let_go(second);
  EXPECT_EQ(pinned(), 0u);
}

// Other users may write to it unseen, so a copy made meanwhile would soon be out of date.
TEST_F(HeldRangesTest, WhatIsPinnedIsNotCopiedOutWhenItIsEvicted) {
  ASSERT_TRUE(hold(0, 8).ok());
  ASSERT_TRUE(engine_->pin(large_, "a test").ok());
  ASSERT_TRUE(engine_->evict(large_).ok());
  EXPECT_EQ(engine_->statistics().evicted_bytes, 0u);
  engine_->unpin(large_, engine_->find(large_)->number);
  ASSERT_TRUE(engine_->evict(large_).ok());
  EXPECT_EQ(engine_->statistics().evicted_bytes, kLarge - kUnitBytes);
  let_go();
  ASSERT_TRUE(engine_->evict(large_).ok());
  EXPECT_EQ(engine_->statistics().evicted_bytes, kLarge);
}

TEST_F(HeldRangesTest, WhatIsFreedMeanwhileIsForgotten) {
  ASSERT_TRUE(hold(0, kLarge).ok());
  ASSERT_TRUE(engine_->free(large_, std::nullopt).ok());
  EXPECT_EQ(pinned(), 0u);
  large_ = allocate(kLarge);
  ASSERT_TRUE(operate({{large_, kLarge}}, Access::kWrite).ok());
  let_go();
  EXPECT_EQ(pinned(), 0u);
}

}  // namespace
}  // namespace thermocline
