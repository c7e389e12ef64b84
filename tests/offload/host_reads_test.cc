// SPDX-License-Identifier: Apache-2.0
// Copies of evicted contents to the host are served from the host copy: nothing is fetched, and nothing else is
// evicted.
#include "offload/residency/unit_size.h"
#include "tests/offload/engine_fixture.h"

namespace thermocline {
namespace {

// Two eviction units.
constexpr Bytes kLarge = 2 * kUnitBytes;
constexpr OperationInfo kCopyToHost{.kind = 3, .overwrites = true, .reads_host_copy = true};

class HostReadsTest : public EngineTest, public testing::WithParamInterface<Safety> {
 protected:
  // `large_` has contents, and its first unit or all of it is evicted; `other_` is on the device.
  void SetUp() override {
    start({.budget_bytes = kLarge + kPage, .policy = kLruPolicy, .safety = GetParam()});
    large_ = allocate(kLarge);
    other_ = allocate(kLarge);
    ASSERT_TRUE(operate({{large_, kLarge}}, Access::kWrite).ok());
    ASSERT_TRUE(operate({{other_, kLarge}}, Access::kWrite).ok());
    ASSERT_FALSE(engine_->find(large_)->resident);
    before_ = engine_->statistics();
  }
  // Copies it as the hooks would, and discards the result. True: read from the host copy.
  bool read(Bytes from, Bytes bytes, bool submits = true) {
    const MemoryAccess access{large_ + from, bytes, Access::kRead};
    Operation operation = engine_->begin(kStream, {&access, 1}, kCopyToHost);
    EXPECT_TRUE(operation.status().ok());
    const void* const copy = operation.host_copy();
    if (submits) operation.commit();
    return copy != nullptr;
  }
  // Runs longer than everything that follows.
  void launch_something_long(StreamHandle stream) {
    const SimulatedOperand operand{other_.value, kLarge, SIMULATED_OPERAND_READ};
    void* const handle = reinterpret_cast<void*>(static_cast<std::uintptr_t>(stream));
    ASSERT_EQ(device_->control().launch_operator(handle, "long", 1e9, 1e6, 1e6, &operand, 1), 0);
  }
  Bytes restored() const { return engine_->statistics().restored_bytes - before_.restored_bytes; }
  Bytes evicted() const { return engine_->statistics().evicted_bytes - before_.evicted_bytes; }

  DeviceAddress large_, other_;
  EngineStatistics before_;
};

TEST_P(HostReadsTest, NothingMovesForThem) {
  EXPECT_TRUE(read(0, kUnitBytes));
  EXPECT_TRUE(read(kUnitBytes + 4096, 4096));
  EXPECT_EQ(restored(), 0u);
  EXPECT_EQ(evicted(), 0u);
  EXPECT_FALSE(engine_->find(large_)->resident);
  EXPECT_EQ(engine_->statistics().host_reads, 2u);
}

TEST_P(HostReadsTest, TheyNeedNoRoom) {
  ASSERT_TRUE(engine_->pin(other_, "a test").ok());
  EXPECT_EQ(operate({{large_, kLarge}}, Access::kRead), Status::out_of_memory());
  EXPECT_TRUE(read(kUnitBytes, kUnitBytes));
}

TEST_P(HostReadsTest, ACopyOfMoreThanOneUnitFetchesIt) {
  EXPECT_FALSE(read(4096, kUnitBytes));
  EXPECT_EQ(restored(), kLarge);
}

TEST_P(HostReadsTest, WhatIsOnTheDeviceIsReadThere) {
  ASSERT_TRUE(operate({{large_, kLarge}}, Access::kWrite).ok());
  EXPECT_FALSE(read(0, kUnitBytes));
  EXPECT_EQ(engine_->statistics().host_reads, 0u);
}

TEST_P(HostReadsTest, RunsEndWhereTheContentsGoOnElsewhere) {
  EXPECT_EQ(engine_->host_copy_run({large_, kLarge}), kUnitBytes);
  EXPECT_EQ(engine_->host_copy_run({large_ + 4096, 100}), 100u);
  EXPECT_EQ(engine_->host_copy_run({other_, kLarge}), kLarge) << "on the device";
  ASSERT_TRUE(submit({{large_, 4096}}, Access::kRead, {.kind = 8}, 5).ok());
  EXPECT_EQ(engine_->host_copy_run({large_, kLarge}), kUnitBytes) << "its first unit is on the device";
  EXPECT_EQ(engine_->host_copy_run({large_ + kUnitBytes, kUnitBytes}), kUnitBytes) << "its second is not";
  EXPECT_EQ(engine_->host_copy_run({DeviceAddress{4096}, 8192}), 8192u) << "not ours";
}

TEST_P(HostReadsTest, WhatIsPartlyEvictedIsOnTheHost) {
  EXPECT_TRUE(engine_->is_on_host({large_, kLarge}));
  EXPECT_TRUE(engine_->is_on_host({large_ + 4096, 100}));
  EXPECT_FALSE(engine_->is_on_host({large_, 0}));
  EXPECT_FALSE(engine_->is_on_host({other_, kLarge}));
  ASSERT_TRUE(submit({{large_, 4096}}, Access::kRead, {.kind = 8}, 5).ok());
  EXPECT_FALSE(engine_->is_on_host({large_, kUnitBytes}));
  EXPECT_TRUE(engine_->is_on_host({large_ + 4096, kUnitBytes}));
  EXPECT_FALSE(engine_->is_on_host({DeviceAddress{4096}, 8192})) << "not ours";
}

// The copy may still be reading when the buffer is freed, so its host memory must not be reused before.
TEST_P(HostReadsTest, TheHostCopyStaysUntilItHasBeenRead) {
  ASSERT_TRUE(device_->driver().synchronize_context().ok());
  const MemoryAccess access{large_ + kUnitBytes, kUnitBytes, Access::kRead};
  {
    Operation operation = engine_->begin(kStream, {&access, 1}, kCopyToHost);
    ASSERT_TRUE(operation.status().ok());
    ASSERT_NE(operation.host_copy(), nullptr);
    launch_something_long(kStream);
    operation.commit();
  }
  const Bytes held = engine_->statistics().host_live_bytes;
  ASSERT_TRUE(engine_->free(large_, std::nullopt).ok());
  ASSERT_TRUE(engine_->trim().ok());
  EXPECT_EQ(held - engine_->statistics().host_live_bytes, kUnitBytes) << "the first unit's, which nobody reads";
  ASSERT_TRUE(device_->driver().synchronize_context().ok());
  engine_->synchronized_all();
  ASSERT_TRUE(engine_->trim().ok());
  EXPECT_EQ(held - engine_->statistics().host_live_bytes, kLarge);
}

// A copy that is blocked is not waited for, and keeps only its own host memory.
TEST_P(HostReadsTest, ACopyThatStandsKeepsItsOwnHostCopyAlone) {
  ASSERT_TRUE(device_->driver().synchronize_context().ok());
  StreamHandle blocked{};
  ASSERT_TRUE(device_->driver().create_stream(&blocked).ok());
  {
    Operation operation = engine_->begin(blocked, {}, {.may_block = true});
    launch_something_long(blocked);
    operation.commit();
  }
  const MemoryAccess access{large_, kUnitBytes, Access::kRead};
  {
    Operation operation = engine_->begin(blocked, {&access, 1}, kCopyToHost);
    ASSERT_NE(operation.host_copy(), nullptr);
    operation.commit();
  }
  const Bytes held = engine_->statistics().host_live_bytes;
  ASSERT_TRUE(engine_->free(large_, std::nullopt).ok());
  ASSERT_TRUE(engine_->trim().ok());
  EXPECT_EQ(held - engine_->statistics().host_live_bytes, kUnitBytes) << "the second unit's";
}

// The blocks have three units each, of which a range that is no longer than the longest unit meets all.
class FitsAnywhereTest : public EngineTest {};

TEST_F(FitsAnywhereTest, IsTrueOfRangesThatMeetThreeUnits) {
  for (const Bytes units : {4, 5, 6}) {
    start({.budget_bytes = units * kUnitBytes, .policy = kLruPolicy});
    MemoryAccess ranges[2];
    for (MemoryAccess& range : ranges) {
      const DeviceAddress block = allocate(35 * kPage);
      const Bytes unit = engine_->unit_bytes_from(block);
      ASSERT_LT(unit, 12 * kPage);
      range = {block + (unit - 256), kUnitBytes, Access::kRead};
    }
    EXPECT_EQ(engine_->fits_anywhere(2), units == 6);
    EXPECT_TRUE(engine_->fits(ranges) || !engine_->fits_anywhere(2));
    TearDown();
  }
}

// Source and target are one unit each, and only one of them fits.
class TwoThatDoNotFit : public EngineTest, public testing::WithParamInterface<Safety> {
 protected:
  void SetUp() override {
    start({.budget_bytes = kUnitBytes + kPage, .policy = kLruPolicy, .safety = GetParam()});
    source_ = allocate(kUnitBytes);
    target_ = allocate(kUnitBytes);
  }
  Status copy(Bytes bytes, bool reads_host_copy, bool* from_host) {
    const MemoryAccess accesses[] = {{target_, bytes, Access::kWrite}, {source_, bytes, Access::kRead}};
    Operation operation =
        engine_->begin(kStream, accesses, {.kind = 3, .overwrites = true, .reads_host_copy = reads_host_copy});
    if (!operation.status().ok()) return operation.status();
    *from_host = operation.host_copy() != nullptr;
    operation.commit();
    return {};
  }
  DeviceAddress source_, target_;
};

TEST_P(TwoThatDoNotFit, TheSourceIsReadOnTheHostWhereverItIs) {
  bool from_host = false;
  EXPECT_EQ(copy(kUnitBytes, false, &from_host), Status::out_of_memory());
  for (const bool is_on_device : {true, false}) {
    ASSERT_TRUE(operate({{is_on_device ? target_ : source_, kUnitBytes}}, Access::kWrite).ok());
    ASSERT_TRUE(operate({{is_on_device ? source_ : target_, kUnitBytes}}, Access::kWrite).ok());
    EXPECT_EQ(engine_->find(source_)->resident, is_on_device);
    ASSERT_TRUE(copy(kUnitBytes, true, &from_host).ok());
    EXPECT_TRUE(from_host);
    EXPECT_TRUE(engine_->find(target_)->resident);
    engine_->validate();
  }
  EXPECT_EQ(engine_->statistics().host_reads, 2u);
}

// Nobody has written it yet.
TEST_P(TwoThatDoNotFit, ASourceWithoutContentsIsReadOnTheHostToo) {
  bool from_host = false;
  ASSERT_TRUE(copy(kUnitBytes, true, &from_host).ok());
  EXPECT_TRUE(from_host);
  engine_->validate();
}

TEST_P(TwoThatDoNotFit, WhatHasToStayOnTheDeviceIsRefused) {
  bool from_host = false;
  ASSERT_TRUE(engine_->pin(source_, "a test").ok());
  EXPECT_EQ(copy(4096, true, &from_host), Status::out_of_memory());
  engine_->validate();
}

INSTANTIATE_TEST_SUITE_P(Safeties, TwoThatDoNotFit, testing::Values(Safety::kStrict, Safety::kTrusting));

TEST_P(HostReadsTest, OneThatIsNotSubmittedChangesNothing) {
  EXPECT_TRUE(read(0, kUnitBytes, false));
  EXPECT_EQ(engine_->statistics().host_reads, 0u);
  EXPECT_TRUE(read(0, kUnitBytes));
}

INSTANTIATE_TEST_SUITE_P(Safeties, HostReadsTest, testing::Values(Safety::kStrict, Safety::kTrusting));

}  // namespace
}  // namespace thermocline
