// SPDX-License-Identifier: Apache-2.0
#include "allocator/heap.h"

#include <vector>

#include <gtest/gtest.h>

#include "tests/allocator/heap_fixture.h"

namespace thermocline {
namespace {

class HeapTest : public HeapFixture {};

TEST_F(HeapTest, ALargeBufferOwnsWholePages) {
  Buffer* const buffer = allocate(3 * kPage + 1);
  EXPECT_EQ(buffer->block().pages(), 4u);
  EXPECT_FALSE(buffer->block().is_slab());
  EXPECT_EQ(buffer->address(), buffer->block().begin());
  EXPECT_EQ(buffer->block().contents_end(), 3 * kPage + 1);
  EXPECT_FALSE(buffer->block().mapped());
}

TEST_F(HeapTest, ABufferJustBelowAPageOwnsItWhereLittleIsWasted) {
  EXPECT_FALSE(allocate(kPage - kPage / 8)->block().is_slab());
  EXPECT_TRUE(allocate(kPage - kPage / 8 - 1)->block().is_slab());
}

TEST_F(HeapTest, SmallBuffersShareASlabInGranulesOf512Bytes) {
  Buffer* const first = allocate(1);
  Buffer* const second = allocate(513);
  Buffer* const third = allocate(100);
  EXPECT_EQ(&first->block(), &third->block());
  EXPECT_TRUE(first->block().is_slab());
  EXPECT_EQ(second->address() - first->address(), 512u);
  EXPECT_EQ(third->address() - second->address(), 1024u);
  EXPECT_EQ(first->block().live_buffers(), 3u);
  EXPECT_EQ(first->block().live_bytes(), 614u);
  EXPECT_EQ(first->block().contents_end(), 512u + 1024u + 100u);
  EXPECT_EQ(first->block().pages(), 1u) << "the first slab is small";
}

TEST_F(HeapTest, ZeroBytesAreRefused) {
  Buffer* buffer = nullptr;
  EXPECT_EQ(heap->allocate(0, a, &buffer), Status::invalid_value());
}

TEST_F(HeapTest, MappingPutsMemoryBehindEveryPage) {
  Buffer* const buffer = allocate_mapped(5 * kPage);
  for (Bytes offset = 0; offset < 5 * kPage; offset += kPage) {
    EXPECT_TRUE(fake.accessible(buffer->address() + offset));
    EXPECT_EQ(fake.page_behind(buffer->address() + offset),
              static_cast<std::uint64_t>(buffer->block().page_handles()[offset / kPage]));
  }
  EXPECT_EQ(fake.calls("cuMemSetAccess"), 1u) << "one call for the whole block";
  EXPECT_EQ(heap->created_bytes(), 5 * kPage);
}

TEST_F(HeapTest, FreedSpaceIsHandedOutAgainWithItsPagesAndItsUses) {
  Buffer* const first = allocate_mapped(5 * kPage);
  const DeviceAddress address = first->address();
  use(first, a);
  free(first);
  const std::uint64_t calls = fake.calls();
  Buffer* const second = allocate(5 * kPage);
  EXPECT_EQ(second->address(), address);
  EXPECT_TRUE(second->block().mapped());
  EXPECT_EQ(second->former.newest(a), 1u);
  EXPECT_EQ(second->block().uses.newest(a), 1u);
  EXPECT_EQ(fake.calls(), calls) << "no driver call";
}

TEST_F(HeapTest, FreedBlockIsNotUsedByAnotherStreamBeforeItsStreamFinishes) {
  Buffer* const first = allocate_mapped(5 * kPage);
  use(first, a);
  free(first);
  Buffer* const second = allocate(5 * kPage);
  use(second, b);
  EXPECT_FALSE(fake.step(handle_b));
  EXPECT_TRUE(fake.step(handle_a));
  EXPECT_TRUE(fake.step(handle_b));
}

TEST_F(HeapTest, AFreedPlaceInASlabKeepsItsUses) {
  Buffer* const first = allocate_mapped(5000);
  Buffer* const wall = allocate(1000);
  use(first, a);
  free(first);
  Buffer* const elsewhere = allocate(6000);
  EXPECT_EQ(&elsewhere->block(), &wall->block());
  EXPECT_TRUE(elsewhere->former.empty()) << "its place was never used";
  Buffer* const second = allocate(5000);
  EXPECT_EQ(&second->block(), &wall->block());
  EXPECT_EQ(second->former.newest(a), 1u);
  use(second, b);
  EXPECT_FALSE(fake.step(handle_b)) << "it waits for the former owner";
}

TEST_F(HeapTest, TheBestFitOfMappedSpaceIsSplitAndTheRestStaysMapped) {
  Buffer* const large = allocate_mapped(10 * kPage - kTail);
  Buffer* const wall = allocate_mapped(2 * kPage - kTail);
  Buffer* const small = allocate_mapped(4 * kPage - kTail);
  Buffer* const end = allocate_mapped(2 * kPage - kTail);
  const DeviceAddress where = small->address();
  free(large);
  free(small);
  Buffer* const again = allocate(3 * kPage - kTail);
  EXPECT_EQ(again->address(), where);
  EXPECT_TRUE(again->block().mapped());
  EXPECT_EQ(heap->statistics().free_mapped_bytes, 11 * kPage);
  free(again);
  free(wall);
  free(end);
  Buffer* const everything = allocate(18 * kPage - kTail);
  EXPECT_TRUE(everything->block().mapped()) << "neighbours have become one";
}

TEST_F(HeapTest, WhatDoesNotFitMappedSpaceGrowsOutOfIt) {
  Buffer* const first = allocate_mapped(6 * kPage);
  use(first, a);
  free(first);
  Buffer* const second = allocate(8 * kPage);
  EXPECT_FALSE(second->block().mapped());
  EXPECT_EQ(second->block().mapped_pages(), 6u);
  EXPECT_EQ(second->former.newest(a), 1u);
  ASSERT_TRUE(heap->map(second->block(), Wait::kNo).ok());
  EXPECT_EQ(heap->created_bytes(), 8 * kPage) << "two pages more, not eight";
}

TEST_F(HeapTest, WhatGrowsOutOfMappedSpaceTakesThePlaceThatHasMostOfIt) {
  Buffer* const left = allocate_mapped(4 * kPage);
  Buffer* const right = allocate_mapped(4 * kPage);
  allocate_mapped(kPage);
  free(allocate_mapped(5 * kPage));
  free(left);
  free(right);
  Buffer* const wanted = allocate(9 * kPage);
  EXPECT_EQ(wanted->block().mapped_pages(), 7u) << "of the two of 4, less a guard, rather than of the one of 5";
  ASSERT_TRUE(heap->map(wanted->block(), Wait::kNo).ok());
  EXPECT_EQ(heap->created_bytes(), (4 + 4 + 1 + 5 + 1) * kPage) << "the guard's page has served, too";
}

TEST_F(HeapTest, FreeingAPartlyMappedBlockKeepsItsParts) {
  free(allocate_mapped(6 * kPage));
  Buffer* const second = allocate(8 * kPage);
  free(second);
  EXPECT_EQ(heap->statistics().free_mapped_bytes, 6 * kPage);
  EXPECT_TRUE(allocate(6 * kPage)->block().mapped());
}

TEST_F(HeapTest, PagesAreHarvestedFromFreeSpaceWhenTheLimitIsReached) {
  make(10 * kPage);
  Buffer* const first = allocate_mapped(4 * kPage);
  Buffer* const wall = allocate_mapped(2 * kPage);
  Buffer* const second = allocate_mapped(4 * kPage);
  Buffer* const last = allocate(2 * kPage);
  EXPECT_TRUE(heap->map(last->block(), Wait::kNo).is_out_of_memory());
  free(first);
  free(second);
  Buffer* const large = allocate(8 * kPage);
  ASSERT_TRUE(heap->map(large->block(), Wait::kNo).ok());
  EXPECT_EQ(heap->created_bytes(), 10 * kPage);
  EXPECT_EQ(fake.calls("cuMemCreate"), 10u);
  EXPECT_TRUE(wall->block().mapped());
  heap->validate();
}

TEST_F(HeapTest, HarvestTakesWhatWasFreedFirstAndAccessesNothingThatIsInUse) {
  make(8 * kPage);
  // Adjacent, so that no chunk can be placed around what is freed.
  Buffer* const oldest = allocate_mapped(2 * kPage - kTail);
  Buffer* const wall1 = allocate_mapped(kPage - kTail);
  Buffer* const newer = allocate_mapped(2 * kPage - kTail);
  Buffer* const wall2 = allocate_mapped(3 * kPage - kTail);
  use(oldest, a);
  const DeviceAddress busy = oldest->address();
  const DeviceAddress idle = newer->address();
  free(oldest);
  free(newer);
  Buffer* const one = allocate(3 * kPage);
  EXPECT_TRUE(heap->map(one->block(), Wait::kNo).is_out_of_memory()) << "the rest is in use";
  EXPECT_EQ(fake.calls("cuMemUnmap"), 0u) << "nothing has changed";
  Buffer* const two = allocate(2 * kPage - kTail);
  EXPECT_TRUE(two->block().mapped());
  EXPECT_EQ(two->address(), busy) << "best fit, lowest address";
  free(two);
  ASSERT_TRUE(heap->map(one->block(), Wait::kYes).ok());
  EXPECT_EQ(fake.page_behind(idle), 0u) << "what had passed went first";
  EXPECT_EQ(clock->host_waits(), 1u);
  static_cast<void>(wall1);
  static_cast<void>(wall2);
}

TEST_F(HeapTest, OutOfMemoryLeavesEverythingAsItWas) {
  make(8 * kPage);
  Buffer* const live = allocate_mapped(6 * kPage);
  free(allocate_mapped(kPage));
  Buffer* const wanted = allocate(4 * kPage);
  const HeapStatistics before = heap->statistics();
  const std::uint64_t calls = fake.calls();
  EXPECT_TRUE(heap->map(wanted->block(), Wait::kYes).is_out_of_memory());
  heap->validate();
  EXPECT_EQ(fake.calls(), calls);
  EXPECT_EQ(heap->statistics().mapped_bytes, before.mapped_bytes);
  EXPECT_FALSE(wanted->block().mapped());
  EXPECT_TRUE(live->block().mapped());
}

TEST_F(HeapTest, UnmappedPagesServeAnotherBlock) {
  make(4 * kPage);
  Buffer* const first = allocate_mapped(4 * kPage);
  Buffer* const second = allocate(4 * kPage);
  use(first, a);
  fake.run_all();
  ASSERT_TRUE(heap->unmap(first->block()).ok());
  EXPECT_TRUE(first->block().uses.empty());
  EXPECT_EQ(fake.calls("cuMemUnmap"), 1u) << "one call for side-by-side mappings";
  ASSERT_TRUE(heap->map(second->block(), Wait::kNo).ok());
  EXPECT_FALSE(first->block().mapped());
  EXPECT_EQ(heap->created_bytes(), 4 * kPage);
  heap->validate();
}

TEST_F(HeapTest, AnEvictedSlabIsNotPreferredOverAMappedOne) {
  std::vector<Buffer*> buffers;
  for (int i = 0; i < 2; ++i) buffers.push_back(allocate_mapped(1500 * kKiB));
  ASSERT_NE(&buffers[0]->block(), &buffers[1]->block());
  ASSERT_TRUE(heap->unmap(buffers[0]->block()).ok());
  heap->validate();
  EXPECT_EQ(&allocate(300 * kKiB)->block(), &buffers[1]->block());
  EXPECT_EQ(&allocate(300 * kKiB)->block(), &buffers[0]->block()) << "rather than a new one";
}

TEST_F(HeapTest, AnEmptySlabsPagesServeLargeBuffersAtTheLimit) {
  make(kPage);
  Buffer* const small = allocate_mapped(1000);
  Buffer* const large = allocate(kPage);
  EXPECT_TRUE(heap->map(large->block(), Wait::kNo).is_out_of_memory());
  EXPECT_TRUE(heap->free(small)) << "the block went away";
  EXPECT_EQ(heap->statistics().slabs, 0u);
  EXPECT_TRUE(heap->map(large->block(), Wait::kNo).ok());
  EXPECT_EQ(fake.calls("cuMemCreate"), 1u);
}

TEST_F(HeapTest, SlabsLeaveNoHolesBetweenLargeBlocks) {
  Buffer* const first = allocate(3 * kPage - kTail);
  Buffer* const small = allocate(1000);
  Buffer* const second = allocate(3 * kPage - kTail);
  EXPECT_EQ(first->block().end(), second->block().begin());
  EXPECT_GT(small->address(), second->address());
}

TEST_F(HeapTest, FindAnswersForEveryByteAndOnePastTheEnd) {
  Buffer* const first = allocate(2 * kPage);
  Buffer* const second = allocate(2 * kPage - 100);
  Buffer* const third = allocate(1000);
  EXPECT_EQ(heap->find(first->address()), first);
  EXPECT_EQ(heap->find(first->end() - 1), first);
  EXPECT_LT(first->end(), second->address()) << "it fills its pages to the last byte: nothing begins where it ends";
  EXPECT_EQ(heap->find(first->end()), first);
  EXPECT_EQ(heap->block_at(first->end()), &first->block());
  EXPECT_EQ(heap->find(second->end()), second);
  EXPECT_EQ(heap->find(second->end() + 1), nullptr);
  EXPECT_EQ(heap->find(third->address()), third);
  free(second);
  EXPECT_EQ(heap->find(first->end()), first);
  EXPECT_EQ(heap->find(first->address() - 1), nullptr);
  EXPECT_EQ(heap->find(heap->range_begin() + heap->range_bytes()), nullptr);
  EXPECT_EQ(heap->find(DeviceAddress{}), nullptr);
  EXPECT_EQ(heap->find(DeviceAddress{~std::uint64_t{0}}), nullptr);
}

TEST_F(HeapTest, IndicesAreDenseAndSerialsAreNot) {
  Buffer* const first = allocate(kPage);
  Buffer* const second = allocate(kPage);
  const std::uint32_t index = first->block().index();
  const std::uint64_t serial = second->block().serial();
  free(first);
  Buffer* const third = allocate(kPage);
  EXPECT_EQ(third->block().index(), index);
  EXPECT_GT(third->block().serial(), serial);
  EXPECT_EQ(heap->block_of(index), &third->block());
  EXPECT_EQ(heap->block_at(third->address() + 5), &third->block());
}

TEST_F(HeapTest, BlocksAreVisitedInOrderOfAddress) {
  allocate(3 * kPage);
  free(allocate(2 * kPage));
  allocate(5 * kPage);
  allocate(10);
  DeviceAddress last;
  int count = 0;
  heap->for_each_block([&](Block& block) {
    EXPECT_GT(block.begin(), last);
    last = block.begin();
    ++count;
  });
  EXPECT_EQ(count, 3);
}

TEST_F(HeapTest, TrimGivesTheDriverWhatNobodyHolds) {
  Buffer* const live = allocate_mapped(3 * kPage);
  free(allocate_mapped(8 * kPage));
  ASSERT_TRUE(heap->trim(6 * kPage).ok());
  EXPECT_EQ(heap->created_bytes(), 6 * kPage);
  ASSERT_TRUE(heap->trim(0).ok());
  EXPECT_EQ(heap->created_bytes(), 3 * kPage);
  EXPECT_TRUE(live->block().mapped());
  heap->validate();
}

TEST_F(HeapTest, TheLimitFollowsUnlessLiveBlocksHoldMore) {
  allocate_mapped(3 * kPage);
  free(allocate_mapped(8 * kPage));
  EXPECT_TRUE(heap->set_limit(2 * kPage).is_out_of_memory());
  EXPECT_EQ(heap->limit(), 64 * kPage);
  EXPECT_EQ(heap->created_bytes(), 11 * kPage);
  ASSERT_TRUE(heap->set_limit(4 * kPage).ok());
  EXPECT_EQ(heap->created_bytes(), 4 * kPage);
  heap->validate();
}

TEST_F(HeapTest, TheDeviceMayHoldLessThanTheLimit) {
  fake.device_bytes = 6 * kPage;
  Buffer* const first = allocate_mapped(4 * kPage);
  free(allocate_mapped(2 * kPage));
  Buffer* const wall = allocate(kPage);
  ASSERT_TRUE(heap->map(wall->block(), Wait::kNo).ok());
  Buffer* const second = allocate(3 * kPage);
  EXPECT_TRUE(heap->map(second->block(), Wait::kNo).is_out_of_memory());
  heap->validate();
  free(first);
  ASSERT_TRUE(heap->map(second->block(), Wait::kNo).ok());
  heap->validate();
}

TEST_F(HeapTest, AFailureHalfWayThroughMappingIsUndone) {
  Buffer* const buffer = allocate(5 * kPage);
  fake.fail("cuMemMap", 3, CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_TRUE(heap->map(buffer->block(), Wait::kNo).is_out_of_memory());
  heap->validate();
  EXPECT_EQ(fake.mappings(), 0u);
  fake.fail("cuMemSetAccess", 1, CUDA_ERROR_UNKNOWN);
  EXPECT_EQ(heap->map(buffer->block(), Wait::kNo).code(), CUDA_ERROR_UNKNOWN);
  heap->validate();
  EXPECT_EQ(fake.mappings(), 0u);
  EXPECT_TRUE(heap->map(buffer->block(), Wait::kNo).ok());
  EXPECT_EQ(fake.calls("cuMemCreate"), 5u);
}

TEST_F(HeapTest, AFailedUnmapKeepsTheBlockMapped) {
  Buffer* const buffer = allocate_mapped(3 * kPage);
  fake.fail("cuMemUnmap", 1, CUDA_ERROR_UNKNOWN);
  EXPECT_EQ(heap->unmap(buffer->block()).code(), CUDA_ERROR_UNKNOWN);
  EXPECT_TRUE(buffer->block().mapped());
  heap->validate();
}

TEST_F(HeapTest, AFailedHarvestLosesNothing) {
  make(4 * kPage);
  Buffer* const first = allocate_mapped(2 * kPage - kTail);
  allocate_mapped(kPage - kTail);
  free(first);
  Buffer* const wanted = allocate(3 * kPage);
  fake.fail("cuMemUnmap", 1, CUDA_ERROR_UNKNOWN);
  EXPECT_EQ(heap->map(wanted->block(), Wait::kNo).code(), CUDA_ERROR_UNKNOWN);
  heap->validate();
  EXPECT_EQ(heap->statistics().free_mapped_bytes, 2 * kPage);
  EXPECT_TRUE(heap->map(wanted->block(), Wait::kNo).ok());
  heap->validate();
}

// Half of what the driver grants is left to the program.
TEST_F(HeapTest, AddressesAreHalvedUntilTheDriverGrantsThem) {
  heap.reset();
  fake.most_reserved = Bytes{3} << 36;
  make(64 * kPage);
  EXPECT_EQ(heap->range_bytes(), Bytes{1} << 36);
  EXPECT_EQ(fake.reservations(), 1u);
}

// Released in order to leave half: what the driver keeps would be lost until the process ends.
TEST_F(HeapTest, AddressesThatTheDriverDoesNotReleaseAreUsed) {
  heap.reset();
  fake.most_reserved = Bytes{3} << 36;
  fake.fail("cuMemAddressFree", 1, CUDA_ERROR_UNKNOWN);
  make(64 * kPage);
  EXPECT_EQ(heap->range_bytes(), Bytes{1} << 37);
  EXPECT_EQ(fake.reservations(), 1u);
  allocate_mapped(kPage);
  heap.reset();
  EXPECT_EQ(fake.reservations(), 0u);
}

TEST_F(HeapTest, ExhaustedAddressesAreOutOfMemory) {
  heap.reset();
  HeapOptions options;
  options.page_bytes = kPage;
  options.limit = 8 * kPage;
  options.reserve_bytes = 8 * kPage;
  ASSERT_TRUE(Heap::create(driver, *clock, options, &heap).ok());
  allocate(6 * kPage - kTail);
  Buffer* buffer = nullptr;
  EXPECT_TRUE(heap->allocate(3 * kPage, a, &buffer).is_out_of_memory());
  EXPECT_TRUE(heap->allocate(~Bytes{0}, a, &buffer).is_out_of_memory());
  heap->validate();
  allocate(2 * kPage - kTail);
}

TEST_F(HeapTest, ReservesWhatTheLimitNeedsWhereThatIsAllThereIs) {
  heap.reset();
  HeapOptions options;
  options.page_bytes = kPage;
  options.limit = 8 * kPage;
  options.reserve_bytes = 64 * kPage;
  fake.most_reserved = 10 * kPage;
  ASSERT_TRUE(Heap::create(driver, *clock, options, &heap).ok());
  EXPECT_EQ(heap->range_bytes(), 9 * kPage);
}

TEST_F(HeapTest, NoBlockBeginsWhereAFullOneEnds) {
  std::vector<Buffer*> held;
  for (int turn = 0; turn < 3; ++turn) {
    for (const Bytes pages : {1, 4, 2, 8, 3, 1}) held.push_back(allocate_mapped(pages * kPage));
    for (std::size_t i = 0; i < held.size(); i += 2) free(held[i]);
    std::vector<Buffer*> kept;
    for (std::size_t i = 1; i < held.size(); i += 2) kept.push_back(held[i]);
    held = kept;
    for (const Buffer* one : held) {
      EXPECT_EQ(heap->block_at(one->end()), &one->block());
      for (const Buffer* other : held) EXPECT_NE(one->end(), other->address());
    }
    heap->validate();
  }
}

TEST_F(HeapTest, OnePastTheEndOfAFullSlabBelongsToIt) {
  Buffer* const first = allocate(kMiB);
  Buffer* const last = allocate(kMiB);
  ASSERT_EQ(&first->block(), &last->block());
  ASSERT_EQ(last->end(), last->block().end()) << "full to the last byte";
  Buffer* const next = allocate(kMiB);
  ASSERT_TRUE(next->block().is_slab());
  EXPECT_NE(next->address(), last->end());
  EXPECT_EQ(heap->find(last->end()), last);
  EXPECT_EQ(heap->block_at(last->end()), &last->block());
  free(last);
  EXPECT_EQ(heap->block_at(first->block().end()), &first->block()) << "as long as the slab lives";
  const DeviceAddress end = first->block().end();
  free(first);
  EXPECT_EQ(heap->block_at(end), nullptr);
}

TEST_F(HeapTest, ABlockAndItsGuardFitAgainWhereTheyWere) {
  Buffer* const first = allocate_mapped(4 * kPage);
  allocate_mapped(4 * kPage);
  const DeviceAddress where = first->address();
  free(first);
  EXPECT_EQ(heap->block_at(where + 4 * kPage), nullptr);
  Buffer* const again = allocate(4 * kPage);
  EXPECT_EQ(again->address(), where);
  EXPECT_TRUE(again->block().mapped());
  EXPECT_EQ(heap->statistics().free_mapped_bytes, 0u) << "no page stands behind the guard";
}

TEST_F(HeapTest, APageBehindAGuardServesBeforeMoreAreCreated) {
  free(allocate_mapped(10 * kPage));
  Buffer* const small = allocate(3 * kPage);
  Buffer* const rest = allocate(6 * kPage);
  EXPECT_TRUE(small->block().mapped() && rest->block().mapped());
  EXPECT_NE(fake.page_behind(small->end()), 0u);
  EXPECT_EQ(heap->statistics().free_mapped_bytes, kPage) << "that of the guard between them";
  EXPECT_EQ(heap->available_bytes(Wait::kNo), (64 - 9) * kPage);
  allocate_mapped(2 * kPage);
  EXPECT_EQ(fake.page_behind(small->end()), 0u);
  EXPECT_EQ(heap->created_bytes(), 11 * kPage);
  EXPECT_EQ(heap->block_at(small->end()), &small->block()) << "it is a guard still";
}

TEST_F(HeapTest, APageBehindAGuardStaysWhileItsFormerOwnerRuns) {
  Buffer* const former = allocate_mapped(10 * kPage);
  use(former, a);
  free(former);
  Buffer* const small = allocate(3 * kPage);
  allocate(6 * kPage);
  allocate_mapped(2 * kPage);
  EXPECT_NE(fake.page_behind(small->end()), 0u);
  EXPECT_EQ(heap->created_bytes(), 12 * kPage);
  fake.run_all();
  allocate_mapped(2 * kPage);
  EXPECT_EQ(fake.page_behind(small->end()), 0u);
  EXPECT_EQ(heap->created_bytes(), 13 * kPage);
}

TEST_F(HeapTest, TrimTakesWhatStandsBehindGuards) {
  free(allocate_mapped(10 * kPage));
  Buffer* const small = allocate(3 * kPage);
  ASSERT_TRUE(heap->trim(0).ok());
  EXPECT_EQ(heap->created_bytes(), 3 * kPage);
  EXPECT_EQ(heap->block_at(small->end()), &small->block());
  EXPECT_TRUE(small->block().mapped());
}

TEST_F(HeapTest, ASteadyProgramMakesNoDriverCalls) {
  const auto program = [this] {
    std::vector<Buffer*> held;
    for (Bytes bytes : {3 * kMiB, 20 * kMiB, Bytes{900}, 7 * kMiB, Bytes{70000}, 12 * kMiB}) {
      Buffer* const buffer = allocate(bytes);
      ASSERT_TRUE(heap->map(buffer->block(), Wait::kNo).ok());
      use(buffer, a);
      held.push_back(buffer);
    }
    while (!held.empty()) {
      heap->free(held.back());
      held.pop_back();
    }
  };
  for (int i = 0; i < 3; ++i) program();
  const std::uint64_t calls = fake.calls();
  for (int i = 0; i < 10; ++i) program();
  EXPECT_EQ(fake.calls(), calls);
}

TEST_F(HeapTest, PeaksRememberTheMost) {
  free(allocate_mapped(5 * kPage));
  free(allocate(100));
  EXPECT_EQ(heap->live_bytes(), 0u);
  EXPECT_EQ(heap->peak_live_bytes(), 5 * kPage);
  EXPECT_EQ(heap->peak_mapped_bytes(), 5 * kPage);
}

}  // namespace
}  // namespace thermocline
