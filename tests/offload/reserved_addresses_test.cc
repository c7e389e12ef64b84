// SPDX-License-Identifier: Apache-2.0
#include "offload/page_assignment/reserved_addresses.h"

#include <memory>

#include <gtest/gtest.h>

#include "tests/allocator/fake_driver.h"

namespace thermocline {
namespace {

constexpr Bytes kPage = FakeDriver::kPage;

// A heap with few addresses, and an iteration of one operation.
class ReservedAddressesTest : public testing::Test {
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
    reserved.clear(*heap);
    heap->validate();
  }

  // As the engine does it.
  Buffer* allocate(Bytes bytes) {
    Block* const reserved_block = reserved.find(kPlace, bytes);
    Buffer* buffer = nullptr;
    EXPECT_TRUE(heap->allocate(bytes, StreamIndex{}, &buffer, reserved_block).ok());
    name = reserved.occupied(kPlace, bytes, *heap, buffer->block());
    return buffer;
  }
  void free(Buffer* buffer) {
    if (reserved.vacated(buffer->block())) {
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
  ReservedAddresses reserved;
  std::optional<ReservedAddresses::Name> name;  // of the latest allocation
};

TEST_F(ReservedAddressesTest, WhoComesBackFindsItsAddressesEvenIfOthersCameBetween) {
  reserved.keep();
  Buffer* const first = allocate(2 * kPage);
  const DeviceAddress at = first->address();
  const auto its_name = name;
  free(first);
  Buffer* other = nullptr;
  ASSERT_TRUE(heap->allocate(2 * kPage, StreamIndex{}, &other).ok());
  EXPECT_NE(other->address(), at);
  reserved.next();
  Buffer* const again = allocate(2 * kPage);
  EXPECT_EQ(again->address(), at);
  EXPECT_EQ(name, its_name);
  EXPECT_EQ(reserved.block_of(*name), &again->block());
}

TEST_F(ReservedAddressesTest, BeforeTheyAreKeptAddressesAreFreeForAnybody) {
  Buffer* const buffer = allocate(2 * kPage);
  ASSERT_TRUE(name.has_value());
  free(buffer);
  EXPECT_EQ(reserved.block_of(*name), nullptr);
  EXPECT_EQ(heap->statistics().blocks, 0u);
}

TEST_F(ReservedAddressesTest, AnotherSizeAtTheSamePlaceHasNoName) {
  reserved.keep();
  free(allocate(2 * kPage));
  reserved.next();
  free(allocate(3 * kPage));
  EXPECT_FALSE(name.has_value());
}

TEST_F(ReservedAddressesTest, WhoComesWhileItsPredecessorIsThereGoesElsewhere) {
  reserved.keep();
  Buffer* const first = allocate(2 * kPage);
  reserved.next();
  Buffer* const second = allocate(2 * kPage);
  EXPECT_NE(second->address(), first->address());
  EXPECT_FALSE(name.has_value());
}

TEST_F(ReservedAddressesTest, NoMoreThanAQuarterOfAllAddressesIsKept) {
  reserved.keep();
  int named = 0;
  for (int i = 0; i < 12; ++i) {
    Buffer* const buffer = allocate(2 * kPage);
    named += name.has_value() ? 1 : 0;
    free(buffer);
  }
  EXPECT_EQ(named, 8);
}

TEST_F(ReservedAddressesTest, WhatIsClearedGivesItsAddressesBackAndKeepsTheAllocationAnnounced) {
  reserved.keep();
  const DeviceAddress at = allocate(2 * kPage)->address();
  free(heap->find(at));
  reserved.next();
  EXPECT_NE(reserved.find(kPlace, 2 * kPage), nullptr);
  reserved.clear(*heap);
  EXPECT_FALSE(reserved.keeps());
  Buffer* buffer = nullptr;
  ASSERT_TRUE(heap->allocate(2 * kPage, StreamIndex{}, &buffer).ok());
  EXPECT_EQ(buffer->address(), at);
  EXPECT_TRUE(reserved.occupied(kPlace, 2 * kPage, *heap, buffer->block()).has_value());
}

}  // namespace
}  // namespace thermocline
