// SPDX-License-Identifier: Apache-2.0
// Memory that is accessible to other devices.
#include <gtest/gtest.h>

#include <memory>

#include "allocator/heap.h"
#include "tests/allocator/fake_driver.h"

namespace thermocline {
namespace {

constexpr Bytes kPage = FakeDriver::kPage;

class OpenToPeers : public testing::Test {
 protected:
  FakeDriver fake;
  Driver driver{fake.table()};
  StreamClock clock{driver};
  std::unique_ptr<Heap> heap;

  void SetUp() override {
    HeapOptions options;
    options.page_bytes = kPage;
    options.limit = 64 * kPage;
    ASSERT_TRUE(Heap::create(driver, clock, options, &heap).ok());
  }

  Buffer* allocate(Bytes bytes) {
    Buffer* buffer = nullptr;
    EXPECT_TRUE(heap->allocate(bytes, StreamIndex{}, &buffer).ok());
    return buffer;
  }
  Buffer* allocate_mapped(Bytes bytes) {
    Buffer* const buffer = allocate(bytes);
    EXPECT_TRUE(heap->map(buffer->block(), Wait::kNo).ok());
    return buffer;
  }
  void free(Buffer* buffer) { heap->free(buffer); }

  void TearDown() override {
    heap->validate();
    heap.reset();
    for (const std::string& error : fake.errors()) ADD_FAILURE() << error;
  }
};

TEST_F(OpenToPeers, WhatIsMappedAndWhatWillBeIsOpenToAPeer) {
  Buffer* const before = allocate_mapped(3 * kPage);
  Buffer* const freed = allocate_mapped(2 * kPage);
  Buffer* const absent = allocate(kPage);
  const DeviceAddress freed_at = freed->address();
  free(freed);
  EXPECT_FALSE(fake.accessible(before->address(), 3));
  ASSERT_TRUE(heap->open_to(3).ok());
  EXPECT_TRUE(fake.accessible(before->address() + 2 * kPage, 3));
  EXPECT_TRUE(fake.accessible(freed_at, 3)) << "its pages may be a new buffer's without a call of the driver";
  ASSERT_TRUE(heap->map(absent->block(), Wait::kNo).ok());
  EXPECT_TRUE(fake.accessible(absent->address(), 3));
  EXPECT_TRUE(fake.accessible(absent->address(), 0));
  EXPECT_FALSE(fake.accessible(absent->address(), 1));
}

TEST_F(OpenToPeers, StaleAddressesAreOpenToAPeerSinceTheirPagesMayComeHome) {
  Buffer* const buffer = allocate_mapped(2 * kPage);
  heap->give_up(buffer->block(), {0, 2}, buffer->block().uses);
  ASSERT_TRUE(heap->open_to(1).ok());
  ASSERT_TRUE(heap->map(buffer->block(), Wait::kNo).ok());
  EXPECT_TRUE(fake.accessible(buffer->address() + kPage, 1));
}

TEST_F(OpenToPeers, APeerThatTheDriverRefusesGetsNothingLater) {
  Buffer* const buffer = allocate_mapped(kPage);
  fake.fail("cuMemSetAccess", 1, CUDA_ERROR_INVALID_DEVICE);
  EXPECT_FALSE(heap->open_to(1).ok());
  Buffer* const later = allocate_mapped(kPage);
  EXPECT_FALSE(fake.accessible(buffer->address(), 1));
  EXPECT_FALSE(fake.accessible(later->address(), 1));
}

}  // namespace
}  // namespace thermocline
