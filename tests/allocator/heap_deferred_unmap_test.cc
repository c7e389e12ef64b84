// SPDX-License-Identifier: Apache-2.0
#include "allocator/heap.h"

#include <vector>

#include <gtest/gtest.h>

#include "tests/allocator/heap_fixture.h"

namespace thermocline {
namespace {

class HeapDeferredUnmapTest : public HeapFixture {
 protected:
  // The stream waits for a value; the fake driver's streams do so until they are told to run.
  void block(StreamIndex stream) {
    Buffer* const word = allocate_mapped(kPage - 1);
    clock->about_to_block();
    use(word, stream);
    clock->may_block(stream);
  }
  // Assigns the buffer's present pages to its addresses.
  void settle(Buffer* buffer) {
    const Block& block = buffer->block();
    for (std::uint64_t page = 0; page < block.pages(); ++page) {
      heap->assigned_pages().add(heap->page_of(block.begin()) + page, 0, 1, block.page_handles()[page]);
    }
  }
  void give_up(Buffer* buffer) {
    heap->give_up(buffer->block(), {0, buffer->block().pages()}, buffer->block().uses);
    heap->validate();
  }
};

TEST_F(HeapDeferredUnmapTest, FreedPagesServeOthersWhileTheyAreStillInUse) {
  make(8 * kPage);
  fake.allow_aliases = true;
  Buffer* const former = allocate_mapped(6 * kPage - kTail);
  use(former, a);
  const DeviceAddress at = former->address();
  const std::uint64_t page = fake.page_behind(at);
  Buffer* const wall = allocate_mapped(kPage - kTail);
  free(former);
  Buffer* const large = allocate(7 * kPage - kTail);
  EXPECT_TRUE(heap->map(large->block(), Wait::kNo).is_out_of_memory());
  ASSERT_TRUE(heap->map(large->block(), Wait::kBehind).ok());
  heap->validate();
  EXPECT_EQ(clock->host_waits(), 0u) << "nobody waits";
  EXPECT_EQ(fake.calls("cuMemUnmap"), 0u) << "the old addresses lead there until their users have passed";
  EXPECT_EQ(fake.page_behind(at), page);
  EXPECT_EQ(heap->created_bytes(), 8 * kPage);
  EXPECT_NE(large->block().uses.newest(a), 0u) << "the new user is told behind what it has to run";
  EXPECT_TRUE(clock->wait_all(b, large->block().uses).ok());
  use(large, b);
  static_cast<void>(wall);
}

TEST_F(HeapDeferredUnmapTest, FreedPagesServeBeforeMoreAreCreatedThanWhatLives) {
  make(640 * kPage);
  fake.allow_aliases = true;
  Buffer* const former = allocate_mapped(100 * kPage - kTail);
  use(former, a);
  Buffer* const wall = allocate_mapped(kPage - kTail);
  free(former);
  Buffer* const larger = allocate(120 * kPage - kTail);
  ASSERT_TRUE(heap->map(larger->block(), Wait::kBehindNewest).ok());
  heap->validate();
  EXPECT_EQ(clock->host_waits(), 0u);
  EXPECT_LE(heap->created_bytes(), 125 * kPage) << "few more than the 121 that live";
  EXPECT_NE(larger->block().uses.newest(a), 0u) << "the new user is told behind what it has to run";
  EXPECT_TRUE(clock->wait_all(b, larger->block().uses).ok());
  use(larger, b);
  static_cast<void>(wall);
}

TEST_F(HeapDeferredUnmapTest, WhatMakesNobodyWaitServesFirst) {
  make(640 * kPage);
  fake.allow_aliases = true;
  Buffer* const of_a = allocate_mapped(100 * kPage - kTail);
  Buffer* const wall = allocate_mapped(kPage - kTail);
  Buffer* const of_b = allocate_mapped(100 * kPage - kTail);
  Buffer* const other_wall = allocate_mapped(kPage - kTail);
  use(of_a, a);
  use(of_b, b);
  free(of_a);
  free(of_b);
  Buffer* const larger = allocate(101 * kPage - kTail);
  heap->expect_user(a);
  ASSERT_TRUE(heap->map(larger->block(), Wait::kBehindNewest).ok());
  EXPECT_LE(heap->created_bytes(), 208 * kPage);
  EXPECT_EQ(larger->block().uses.newest(b), 0u) << "what was freed last would make it wait for another stream";
  use(larger, a);
  static_cast<void>(wall);
  static_cast<void>(other_wall);
}

TEST_F(HeapDeferredUnmapTest, PagesAreCreatedRatherThanTakenFromBehindWhatMayNeverEnd) {
  make(640 * kPage);
  fake.allow_aliases = true;
  Buffer* const former = allocate_mapped(100 * kPage - kTail);
  clock->about_to_block();
  use(former, b);
  clock->may_block(b);
  Buffer* const wall = allocate_mapped(kPage - kTail);
  free(former);
  Buffer* const larger = allocate(120 * kPage - kTail);
  ASSERT_TRUE(heap->map(larger->block(), Wait::kBehindNewest).ok());
  EXPECT_EQ(larger->block().uses.newest(b), 0u);
  use(larger, a);
  static_cast<void>(wall);
}

// Calls of the driver's mapping functions.
constexpr const char* kMappingCalls[] = {"cuMemMap", "cuMemSetAccess", "cuMemUnmap"};

TEST_F(HeapDeferredUnmapTest, NothingIsMappedWhileAStreamIsBlockedWhereMappingWaits) {
  Buffer* const there = allocate_mapped(4 * kPage);
  Buffer* const wanted = allocate(4 * kPage);
  block(b);
  heap->mapping_waits(WaitingCalls::kAll);
  std::uint64_t before = 0, after = 0;
  for (const char* call : kMappingCalls) before += fake.calls(call);
  for (const Wait wait : {Wait::kNo, Wait::kBehind, Wait::kYes}) {
    EXPECT_EQ(heap->map(wanted->block(), wait), Status::not_ready());
  }
  EXPECT_EQ(heap->unmap(there->block()), Status::not_ready());
  EXPECT_EQ(heap->open_to(1), Status::not_ready());
  heap->validate();
  for (const char* call : kMappingCalls) after += fake.calls(call);
  EXPECT_EQ(before, after);
  EXPECT_TRUE(there->block().mapped());
  EXPECT_TRUE(heap->map(there->block(), Wait::kNo).ok()) << "it has all of its pages";
  fake.run_all();
  EXPECT_TRUE(heap->map(wanted->block(), Wait::kNo).ok());
  EXPECT_TRUE(heap->unmap(there->block()).ok());
  heap->validate();
}

TEST_F(HeapDeferredUnmapTest, PagesAreMappedWhileAStreamIsBlockedWhereOnlyUnmappingWaits) {
  Buffer* const there = allocate_mapped(4 * kPage);
  Buffer* const wanted = allocate(4 * kPage);
  block(b);
  heap->mapping_waits(WaitingCalls::kUnmap);
  EXPECT_TRUE(heap->map(wanted->block(), Wait::kNo).ok());
  EXPECT_EQ(heap->unmap(there->block()), Status::not_ready());
  EXPECT_EQ(heap->trim(0), Status()) << "nothing is free";
  free(there);
  EXPECT_EQ(heap->trim(0), Status::not_ready());
  heap->validate();
  EXPECT_EQ(fake.calls("cuMemUnmap"), 0u);
  fake.run_all();
  EXPECT_TRUE(heap->trim(0).ok());
  EXPECT_EQ(heap->created_bytes(), 5 * kPage);
}

// Addresses that were given up may have to be mapped again after their own mapping is gone.
TEST_F(HeapDeferredUnmapTest, StaleAddressesStayWhileAStreamIsBlockedWhereUnmappingWaits) {
  make(9 * kPage);
  fake.allow_aliases = true;
  Buffer* const first = allocate_mapped(4 * kPage);
  Buffer* const second = allocate(8 * kPage);
  heap->give_up(first->block(), {0, 4}, {});
  ASSERT_TRUE(heap->map(second->block(), Wait::kBehind).ok());
  heap->give_up(second->block(), {0, 8}, {});
  block(b);
  heap->mapping_waits(WaitingCalls::kUnmap);
  EXPECT_EQ(heap->map(first->block(), Wait::kBehind), Status::not_ready()) << "the pages are another's";
  EXPECT_TRUE(heap->map(second->block(), Wait::kBehind).ok()) << "its addresses still lead to its own pages";
  heap->validate();
  EXPECT_EQ(fake.calls("cuMemUnmap"), 0u);
  fake.run_all();
}

TEST_F(HeapDeferredUnmapTest, AddressesStillMappedAreHandedOutOnlyAfterTheyWereUnmapped) {
  make(8 * kPage);
  fake.allow_aliases = true;
  for (int turn = 0; turn < 40; ++turn) {
    Buffer* const former = allocate(6 * kPage - kTail);
    ASSERT_TRUE(heap->map(former->block(), Wait::kBehind).ok());
    EXPECT_TRUE(clock->wait_all(a, former->block().uses).ok());
    use(former, a);
    free(former);
    Buffer* const other = allocate(7 * kPage - kTail);
    ASSERT_TRUE(heap->map(other->block(), Wait::kBehindNewest).ok());
    EXPECT_TRUE(clock->wait_all(b, other->block().uses).ok());
    use(other, b);
    free(other);
    heap->validate();
    if (turn % 3 == 0) fake.run_all();
  }
  EXPECT_LE(heap->created_bytes(), 8 * kPage);
  EXPECT_EQ(clock->host_waits(), 0u);
}

TEST_F(HeapDeferredUnmapTest, PagesAreNotDestroyedWhileAddressesStillMappedLeadToThem) {
  make(8 * kPage);
  fake.allow_aliases = true;
  Buffer* const former = allocate_mapped(6 * kPage - kTail);
  Buffer* const wall = allocate_mapped(kPage - kTail);
  use(former, a);
  free(former);
  Buffer* const large = allocate(7 * kPage - kTail);
  ASSERT_TRUE(heap->map(large->block(), Wait::kBehind).ok());
  EXPECT_TRUE(clock->synchronize(large->block().uses).ok());
  free(large);
  free(wall);
  ASSERT_TRUE(heap->trim(0, Wait::kYes).ok());
  heap->validate();
  EXPECT_EQ(heap->created_bytes(), 0u);
  EXPECT_EQ(fake.mappings(), 0u);
}

TEST_F(HeapDeferredUnmapTest, WhatWasFreedLongAgoIsTakenFromBesideWhatWasFreedJustNow) {
  make(6 * kPage);
  Buffer* const left = allocate_mapped(2 * kPage - kTail);
  Buffer* const right = allocate_mapped(2 * kPage - kTail);
  Buffer* const wall = allocate_mapped(2 * kPage - kTail);
  free(left);  // never used, so nothing is pending
  use(right, a);
  free(right);  // now one free chunk, half of it with pending uses
  Buffer* const one = allocate(5 * kPage - kTail);
  EXPECT_EQ(heap->available_bytes(Wait::kNo), 2 * kPage);
  UseSet behind;
  ASSERT_TRUE(heap->map(one->block(), {0, 2}, Wait::kNo, &behind).ok());
  EXPECT_TRUE(behind.empty());
  heap->validate();
  static_cast<void>(wall);
}

TEST_F(HeapDeferredUnmapTest, PartsOfABlockAreMappedAndUnmappedOnTheirOwn) {
  Buffer* const buffer = allocate(6 * kPage - kTail);
  Block& block = buffer->block();
  UseSet behind;
  ASSERT_TRUE(heap->map(block, {2, 2}, Wait::kNo, &behind).ok());
  heap->validate();
  EXPECT_EQ(block.mapped_pages(), 2u);
  EXPECT_FALSE(fake.accessible(block.begin() + kPage));
  EXPECT_TRUE(fake.accessible(block.begin() + 2 * kPage));
  EXPECT_FALSE(fake.accessible(block.begin() + 4 * kPage));
  ASSERT_TRUE(heap->map(block, Wait::kNo).ok());
  EXPECT_TRUE(block.mapped());
  ASSERT_TRUE(heap->unmap(block, {0, 3}).ok());
  heap->validate();
  EXPECT_EQ(block.mapped_pages(), 3u);
  free(buffer);
}

TEST_F(HeapDeferredUnmapTest, AnAddressGetsBackThePageItLeadsToWithoutACall) {
  make(8 * kPage);
  fake.allow_aliases = true;
  Buffer* const buffer = allocate_mapped(3 * kPage - kTail);
  const std::uint64_t page = fake.page_behind(buffer->address());
  use(buffer, a);
  give_up(buffer);
  heap->validate();
  const std::uint64_t calls = heap->mapping_calls();
  bool untouched = false;
  UseSet behind;
  ASSERT_TRUE(heap->map(buffer->block(), {0, 3}, Wait::kBehind, &behind, &untouched).ok());
  heap->validate();
  EXPECT_TRUE(untouched) << "its contents are what they were";
  EXPECT_EQ(heap->mapping_calls(), calls);
  EXPECT_EQ(fake.page_behind(buffer->address()), page);
  EXPECT_NE(behind.newest(a), 0u);
}

TEST_F(HeapDeferredUnmapTest, WhatAnotherHasHadMeanwhileIsNotUntouched) {
  make(3 * kPage);
  fake.allow_aliases = true;
  Buffer* const buffer = allocate_mapped(3 * kPage - kTail);
  use(buffer, a);
  settle(buffer);
  give_up(buffer);
  Buffer* const other = allocate(2 * kPage - kTail);
  ASSERT_TRUE(heap->map(other->block(), Wait::kBehind).ok());
  give_up(other);
  const std::uint64_t calls = heap->mapping_calls();
  bool untouched = true;
  UseSet behind;
  ASSERT_TRUE(heap->map(buffer->block(), {0, 3}, Wait::kBehind, &behind, &untouched).ok());
  heap->validate();
  EXPECT_FALSE(untouched);
  EXPECT_EQ(heap->mapping_calls(), calls) << "its addresses lead to its assigned pages all the same";
}

TEST_F(HeapDeferredUnmapTest, TrimmingGivesHomesBackToo) {
  make(8 * kPage);
  fake.allow_aliases = true;
  Buffer* const buffer = allocate_mapped(3 * kPage - kTail);
  use(buffer, a);
  settle(buffer);
  give_up(buffer);
  fake.run_all();
  ASSERT_TRUE(heap->trim(0).ok());
  EXPECT_EQ(heap->created_bytes(), 0u);
  heap->validate();
}

TEST_F(HeapDeferredUnmapTest, AVacantBlockKeepsItsAddressesAndNothingElse) {
  make(8 * kPage);
  fake.allow_aliases = true;
  Buffer* const former = allocate_mapped(3 * kPage);
  const DeviceAddress at = former->address();
  use(former, a);
  Block& vacant = heap->vacate(former);
  heap->validate();
  EXPECT_EQ(heap->live_bytes(), 0u);
  EXPECT_EQ(heap->block_at(at), nullptr);
  EXPECT_EQ(heap->find(at), nullptr);
  EXPECT_EQ(heap->free_bytes(), 8 * kPage);
  Buffer* const other = allocate_mapped(3 * kPage);
  EXPECT_NE(other->address(), at);
  free(other);
  Buffer* next = nullptr;
  ASSERT_TRUE(heap->allocate(3 * kPage, b, &next, &vacant).ok());
  heap->validate();
  EXPECT_EQ(next->address(), at);
  EXPECT_NE(next->former.newest(a), 0u) << "its first use waits for its predecessor's";
  EXPECT_EQ(heap->find(at + 3 * kPage), next) << "the guard is still there";
  heap->dissolve(heap->vacate(next));
  heap->validate();
}

}  // namespace
}  // namespace thermocline
