// SPDX-License-Identifier: Apache-2.0
// A heap on the fake driver, with two streams; validated after each change, and checked for leaks at the end.
#pragma once

#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "allocator/heap.h"
#include "tests/allocator/fake_driver.h"

namespace thermocline {

class HeapFixture : public testing::Test {
 protected:
  static constexpr Bytes kPage = FakeDriver::kPage;
  // A buffer with this much unused memory in its last page needs no guard: the next buffer may begin right after it.
  static constexpr Bytes kTail = Heap::kMostElement + 1;

  FakeDriver fake;
  Driver driver{fake.table()};
  std::unique_ptr<StreamClock> clock = std::make_unique<StreamClock>(driver);
  std::unique_ptr<Heap> heap;
  StreamHandle handle_a = fake.create_stream();
  StreamHandle handle_b = fake.create_stream();
  StreamIndex a = clock->index_of(handle_a);
  StreamIndex b = clock->index_of(handle_b);

  void SetUp() override { make(64 * kPage); }

  void make(Bytes limit) {
    heap.reset();
    HeapOptions options;
    options.page_bytes = kPage;
    options.limit = limit;
    ASSERT_TRUE(Heap::create(driver, *clock, options, &heap).ok());
  }

  Buffer* allocate(Bytes bytes) {
    Buffer* buffer = nullptr;
    EXPECT_TRUE(heap->allocate(bytes, a, &buffer).ok());
    heap->validate();
    return buffer;
  }
  Buffer* allocate_mapped(Bytes bytes) {
    Buffer* const buffer = allocate(bytes);
    EXPECT_TRUE(heap->map(buffer->block(), Wait::kNo).ok());
    heap->validate();
    return buffer;
  }
  void free(Buffer* buffer) {
    heap->free(buffer);
    heap->validate();
  }
  void use(Buffer* buffer, StreamIndex stream) {
    EXPECT_TRUE(clock->wait_all(stream, buffer->former).ok());
    fake.submit(clock->handle_of(stream), buffer->number(), buffer->address(), buffer->requested());
    buffer->block().uses.add({stream, clock->advance(stream)});
  }

  void TearDown() override {
    fake.run_all();
    if (heap != nullptr) heap->validate();
    heap.reset();
    clock.reset();
    EXPECT_EQ(fake.pages(), 0u);
    EXPECT_EQ(fake.mappings(), 0u);
    EXPECT_EQ(fake.reservations(), 0u);
    for (const std::string& error : fake.errors()) ADD_FAILURE() << error;
  }
};

}  // namespace thermocline
