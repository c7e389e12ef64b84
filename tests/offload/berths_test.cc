// SPDX-License-Identifier: Apache-2.0
#include "offload/page_assignment/berths.h"

#include <memory>

#include <gtest/gtest.h>

#include "tests/allocator/fake_driver.h"

namespace thermocline {
namespace {

constexpr Bytes kPage = FakeDriver::kPage;

// A heap with few addresses, and an iteration of one operation.
class BerthsTest : public testing::Test {
 protected:
  static constexpr std::size_t kPlace = 3;

  void SetUp() override {
    HeapOptions options;
    options.page_bytes = kPage;
    options.limit = 16 * kPage;
    options.reserve_bytes = 64 * kPage;
    ASSERT_TRUE(Heap::create(driver, clock, options, &heap).ok());
  }
  void TearDown() override {
    berths.clear(*heap);
    heap->validate();
  }

  // As the engine does it.
  Buffer* allocate(Bytes bytes) {
    Block* const berth = berths.find(kPlace, bytes);
    Buffer* buffer = nullptr;
    EXPECT_TRUE(heap->allocate(bytes, StreamIndex{}, &buffer, berth).ok());
    name = berths.occupied(kPlace, bytes, *heap, buffer->block());
    return buffer;
  }
  void free(Buffer* buffer) {
    if (berths.vacated(buffer->block())) {
      heap->vacate(buffer);
    } else {
      heap->free(buffer);
    }
    heap->validate();
  }

  FakeDriver fake;
  Driver driver{fake.table()};
  StreamClock clock{driver};
  std::unique_ptr<Heap> heap;
  Berths berths;
  std::optional<Berths::Name> name;  // of the latest allocation
};

TEST_F(BerthsTest, WhoComesBackFindsItsAddressesEvenIfOthersCameBetween) {
  berths.keep();
  Buffer* const first = allocate(2 * kPage);
  const DeviceAddress at = first->address();
  const auto its_name = name;
  free(first);
  Buffer* other = nullptr;
  ASSERT_TRUE(heap->allocate(2 * kPage, StreamIndex{}, &other).ok());
  EXPECT_NE(other->address(), at);
  berths.next();
  Buffer* const again = allocate(2 * kPage);
  EXPECT_EQ(again->address(), at);
  EXPECT_EQ(name, its_name);
  EXPECT_EQ(berths.block_of(*name), &again->block());
}

TEST_F(BerthsTest, BeforeTheyAreKeptAddressesAreFreeForAnybody) {
  Buffer* const buffer = allocate(2 * kPage);
  ASSERT_TRUE(name.has_value());
  free(buffer);
  EXPECT_EQ(berths.block_of(*name), nullptr);
  EXPECT_EQ(heap->statistics().blocks, 0u);
}

TEST_F(BerthsTest, AnotherSizeAtTheSamePlaceHasNoName) {
  berths.keep();
  free(allocate(2 * kPage));
  berths.next();
  free(allocate(3 * kPage));
  EXPECT_FALSE(name.has_value());
}

TEST_F(BerthsTest, WhoComesWhileItsPredecessorIsThereGoesElsewhere) {
  berths.keep();
  Buffer* const first = allocate(2 * kPage);
  berths.next();
  Buffer* const second = allocate(2 * kPage);
  EXPECT_NE(second->address(), first->address());
  EXPECT_FALSE(name.has_value());
}

TEST_F(BerthsTest, NoMoreThanAQuarterOfAllAddressesIsKept) {
  berths.keep();
  int named = 0;
  for (int i = 0; i < 12; ++i) {
    Buffer* const buffer = allocate(2 * kPage);
    named += name.has_value() ? 1 : 0;
    free(buffer);
  }
  EXPECT_EQ(named, 8);
}

TEST_F(BerthsTest, WhatIsClearedGivesItsAddressesBackAndKeepsTheAllocationAnnounced) {
  berths.keep();
  const DeviceAddress at = allocate(2 * kPage)->address();
  free(heap->find(at));
  berths.next();
  EXPECT_NE(berths.find(kPlace, 2 * kPage), nullptr);
  berths.clear(*heap);
  EXPECT_FALSE(berths.keeps());
  Buffer* buffer = nullptr;
  ASSERT_TRUE(heap->allocate(2 * kPage, StreamIndex{}, &buffer).ok());
  EXPECT_EQ(buffer->address(), at);
  EXPECT_TRUE(berths.occupied(kPlace, 2 * kPage, *heap, buffer->block()).has_value());
}

}  // namespace
}  // namespace thermocline
