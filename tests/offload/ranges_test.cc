// SPDX-License-Identifier: Apache-2.0
// Operations that name ranges (copies, sets) fetch the eviction units that contain these, and not what they overwrite.
#include "offload/residency/unit_size.h"
#include "tests/offload/engine_fixture.h"

namespace thermocline {
namespace {

// Two units.
constexpr Bytes kLarge = 2 * kUnitBytes;

class RangesTest : public EngineTest {
 protected:
  // `large` has contents, and is evicted.
  void SetUp() override {
    start({.budget_bytes = kLarge + kPage, .policy = kLruPolicy});
    large_ = allocate(kLarge);
    other_ = allocate(kLarge);
    ASSERT_TRUE(operate({{large_, kLarge}}, Access::kWrite).ok());
    evict();
  }
  void evict() {
    ASSERT_TRUE(operate({{other_, kLarge}}, Access::kWrite).ok());
    ASSERT_FALSE(engine_->find(large_)->resident);
    before_ = engine_->statistics().restored_bytes;
  }
  Status set(Bytes from, Bytes bytes) {
    return submit({{large_ + from, bytes}}, Access::kWrite, {.kind = 9, .overwrites = true}, 5);
  }
  Status read(Bytes from, Bytes bytes) {
    return submit({{large_ + from, bytes}}, Access::kRead, {.kind = 8, .overwrites = true}, 5);
  }
  // The operation has begun, and the driver refuses it.
  void fail_to_set(Bytes from, Bytes bytes) {
    const MemoryAccess access{large_ + from, bytes, Access::kWrite};
    Operation operation = engine_->begin(kStream, {&access, 1}, {.kind = 9, .overwrites = true});
    EXPECT_TRUE(operation.status().ok());
  }
  Bytes restored() const { return engine_->statistics().restored_bytes - before_; }

  DeviceAddress large_, other_;
  Bytes before_ = 0;
};

TEST_F(RangesTest, WhatIsOverwrittenWholeIsNotBroughtBack) {
  ASSERT_TRUE(set(0, kLarge).ok());
  EXPECT_EQ(restored(), 0u);
  evict();
  ASSERT_TRUE(read(0, kLarge).ok());
  EXPECT_EQ(restored(), kLarge) << "what was written comes back";
}

TEST_F(RangesTest, WhatIsOverwrittenInPartComesBackWithItsUnit) {
  ASSERT_TRUE(set(kPage, kUnitBytes).ok());
  EXPECT_EQ(restored(), kLarge);
  evict();
  ASSERT_TRUE(set(0, kUnitBytes + 8).ok());
  EXPECT_EQ(restored(), kUnitBytes) << "the second unit";
}

TEST_F(RangesTest, ALittleOfALargeBufferBringsItsUnitAlone) {
  ASSERT_TRUE(read(kUnitBytes + 4096, 4096).ok());
  EXPECT_EQ(restored(), kUnitBytes);
  ASSERT_TRUE(read(kUnitBytes, 4096).ok());
  EXPECT_EQ(restored(), kUnitBytes);
}

// Afterwards the contents are those from before the operation. In between the unit may lose its pages again, before
// anybody reads the contents.
TEST_F(RangesTest, WhatWasToBeOverwrittenAndWasNotIsStillThere) {
  for (const bool leaves_again : {false, true}) {
    std::uint64_t read_then[2] = {};
    for (const bool fails : {false, true}) {
      TearDown();
      SetUp();
      if (fails) fail_to_set(0, kLarge);
      EXPECT_EQ(restored(), 0u);
      if (leaves_again) evict();
      ASSERT_TRUE(read(0, kLarge).ok());
      EXPECT_EQ(restored(), kLarge);
      read_then[fails ? 1 : 0] = checksum();
    }
    EXPECT_EQ(read_then[0], read_then[1]) << leaves_again;
  }
}

TEST_F(RangesTest, WhatIsReadAsWellIsBroughtBack) {
  const MemoryAccess both[] = {{large_, kLarge, Access::kWrite}, {large_ + 4096, 4096, Access::kRead}};
  {
    const Operation operation = engine_->begin(kStream, both, {.kind = 9, .overwrites = true});
    EXPECT_TRUE(operation.status().ok());
  }
  EXPECT_EQ(restored(), kUnitBytes) << "the unit that is read";
}

TEST_F(EngineTest, ABlockThatNoRangeOfWasNamedIsEvictedInAllItsUnits) {
  start({.budget_bytes = 2 * kLarge, .policy = kLruPolicy});
  const DeviceAddress large = allocate(kLarge);
  ASSERT_TRUE(operate({{large, kLarge}}, Access::kUnknown).ok());
  ASSERT_TRUE(engine_->evict(large).ok());
  engine_->validate();
  EXPECT_EQ(engine_->statistics().evicted_bytes, kLarge) << "all of it is copied out";
}

TEST_F(EngineTest, ARangeThatIsNamedMakesItsUnitTheYoungestOfTheBlock) {
  start({.budget_bytes = kLarge + kPage, .policy = kLruPolicy});
  const DeviceAddress large = allocate(kLarge), other = allocate(kUnitBytes);
  ASSERT_TRUE(operate({{large, kLarge}}, Access::kUnknown).ok());
  ASSERT_TRUE(operate({{large, 4096}}, Access::kRead).ok());
  ASSERT_TRUE(operate({{other, kUnitBytes}}, Access::kWrite).ok());
  ASSERT_TRUE(operate({{large, 4096}}, Access::kRead).ok());
  EXPECT_EQ(engine_->statistics().restored_bytes, 0u) << "the other unit was evicted";
  ASSERT_TRUE(operate({{large + kUnitBytes, 4096}}, Access::kRead).ok());
  EXPECT_EQ(engine_->statistics().restored_bytes, kUnitBytes);
}

TEST_F(RangesTest, SayWhetherTheyFitAndWhereTheirUnitsEnd) {
  const MemoryAccess ends[] = {{large_, kLarge, Access::kRead}, {other_, kLarge, Access::kWrite}};
  EXPECT_FALSE(engine_->fits(ends));
  EXPECT_TRUE(engine_->fits({ends, 1}));
  EXPECT_EQ(engine_->unit_bytes_from(large_), kUnitBytes);
  EXPECT_EQ(engine_->unit_bytes_from(large_ + kUnitBytes - 1), 1u);
  EXPECT_EQ(engine_->unit_bytes_from(large_ + kUnitBytes), kUnitBytes);
  EXPECT_EQ(engine_->unit_bytes_from(DeviceAddress{4096}), 0u);
}

}  // namespace
}  // namespace thermocline
