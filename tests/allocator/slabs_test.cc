// SPDX-License-Identifier: Apache-2.0
// Which slabs small buffers share.
#include "allocator/slabs.h"

#include <algorithm>
#include <memory>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "allocator/heap.h"
#include "allocator/slabs_inline.h"
#include "tests/allocator/fake_driver.h"

namespace thermocline {
namespace {

constexpr Bytes kPage = FakeDriver::kPage;

class SlabsTest : public testing::Test {
 protected:
  FakeDriver fake;
  Driver driver{fake.table()};
  StreamClock clock{driver};
  std::unique_ptr<Heap> heap;
  StreamIndex a = clock.index_of(fake.create_stream());

  void SetUp() override {
    HeapOptions options;
    options.page_bytes = kPage;
    options.limit = Bytes{1} << 30;
    ASSERT_TRUE(Heap::create(driver, clock, options, &heap).ok());
  }
  void TearDown() override {
    heap->validate();
    heap.reset();
    for (const std::string& error : fake.errors()) ADD_FAILURE() << error;
  }

  Buffer* allocate(Bytes bytes) { return allocate_many(1, bytes).front(); }
  std::vector<Buffer*> allocate_many(int count, Bytes bytes) {
    std::vector<Buffer*> buffers(static_cast<std::size_t>(count));
    for (Buffer*& buffer : buffers) {
      EXPECT_TRUE(heap->allocate(bytes, a, &buffer).ok());
      EXPECT_TRUE(buffer->block().live_buffers() > 1 || heap->map(buffer->block(), Wait::kNo).ok());
    }
    heap->validate();
    return buffers;
  }
  static std::set<const Block*> slabs_of(const std::vector<Buffer*>& buffers) {
    std::set<const Block*> slabs;
    for (const Buffer* buffer : buffers) slabs.insert(&buffer->block());
    return slabs;
  }
};

TEST_F(SlabsTest, SlabsGrowWithWhatIsInThem) {
  Bytes largest = 0;
  for (int i = 0; i < 200; ++i) largest = std::max(largest, allocate(900 * kKiB)->block().bytes());
  EXPECT_EQ(largest, 8 * kMiB);
}

TEST_F(SlabsTest, SlabsOfSmallBuffersHaveAPage) {
  allocate_many(200, 900 * kKiB);
  for (const Block* slab : slabs_of(allocate_many(200, 30 * kKiB))) EXPECT_EQ(slab->bytes(), kPage);
}

TEST_F(SlabsTest, SmallAndLargerBuffersHaveSlabsOfTheirOwn) {
  Buffer* const small = allocate(32 * kKiB);
  Buffer* const larger = allocate(32 * kKiB + 1);
  EXPECT_NE(&small->block(), &larger->block());
  EXPECT_EQ(&allocate(1)->block(), &small->block());
  EXPECT_EQ(&allocate(kMiB)->block(), &larger->block());
}

TEST_F(SlabsTest, SmallBuffersAllocatedInARowLieInOneSlabAmongManyWithHoles) {
  const std::vector<Buffer*> buffers = allocate_many(4096, 4 * kKiB);
  ASSERT_EQ(heap->statistics().slabs, 8u);
  // A hole of 4 KiB after every third buffer: more than an eighth of all.
  for (std::size_t i = 0; i < buffers.size(); i += 3) heap->free(buffers[i]);
  heap->validate();
  EXPECT_LE(slabs_of(allocate_many(128, 4 * kKiB)).size(), 2u);
  allocate_many(600, 4 * kKiB);
  EXPECT_EQ(heap->statistics().slabs, 8u) << "holes are filled before there are more slabs";
}

TEST_F(SlabsTest, ASlabIsMadeRatherThanFewHolesFilled) {
  const std::vector<Buffer*> buffers = allocate_many(4096, 4 * kKiB);
  for (std::size_t i = 0; i < buffers.size(); i += 32) heap->free(buffers[i]);
  EXPECT_LE(slabs_of(allocate_many(128, 4 * kKiB)).size(), 2u);
  EXPECT_EQ(heap->statistics().slabs, 9u);
}

TEST_F(SlabsTest, AnEvictedSlabIsNotFilledWhereOthersHaveRoom) {
  const std::vector<Buffer*> buffers = allocate_many(2048, 4 * kKiB);
  for (std::size_t i = 0; i < buffers.size(); i += 3) heap->free(buffers[i]);
  std::set<const Block*> evicted;
  for (const std::size_t i : {1, 601, 1100}) {
    Block& block = buffers[i]->block();
    ASSERT_TRUE(heap->unmap(block).ok());
    evicted.insert(&block);
  }
  heap->validate();
  for (const Block* slab : slabs_of(allocate_many(100, 4 * kKiB))) EXPECT_FALSE(evicted.contains(slab));
  allocate_many(300, 4 * kKiB);
  EXPECT_EQ(heap->statistics().slabs, 4u) << "but their holes are filled before there are more slabs";
}

// Two heaps do the same, one at once wherever it can: what they hand out is alike, and so is what it waits for.
TEST_F(SlabsTest, WhatIsDoneAtOnceIsDoneAsOtherwise) {
  std::unique_ptr<Heap> other;
  HeapOptions options;
  options.page_bytes = kPage;
  options.limit = Bytes{1} << 30;
  ASSERT_TRUE(Heap::create(driver, clock, options, &other).ok());
  std::vector<StreamIndex> streams{a};
  for (int i = 0; i < 3; ++i) streams.push_back(clock.index_of(fake.create_stream()));
  const auto allocate_ordinarily = [&](Heap& in, Bytes bytes) {
    Buffer* buffer = in.allocate_in_mapped_slab(bytes, a);
    if (buffer != nullptr) return buffer;
    EXPECT_TRUE(in.allocate(bytes, a, &buffer).ok());
    EXPECT_TRUE(buffer->block().mapped() || in.map(buffer->block(), Wait::kNo).ok());
    return buffer;
  };
  std::mt19937_64 random(1);
  std::vector<std::pair<Buffer*, Buffer*>> live;
  int allocated_at_once = 0, freed_at_once = 0, refused = 0;
  for (int turn = 0; turn < 6'000; ++turn) {
    if (live.size() < 100 || random() % 2 == 0) {
      const Bytes bytes = (Bytes{256} << random() % 11) + random() % 700;
      Buffer* one = heap->allocate_at_once(bytes, a, [&](const Block&, const UseSet&) { return random() % 8 != 0; });
      ++(one != nullptr ? allocated_at_once : refused);
      if (one == nullptr) one = allocate_ordinarily(*heap, bytes);
      Buffer* const same = allocate_ordinarily(*other, bytes);
      ASSERT_EQ(one->address() - heap->range_begin(), same->address() - other->range_begin());
      ASSERT_EQ(one->former, same->former);
      // In the first half everything is used on one stream.
      if (const Use use{streams[turn < 3'000 ? 0 : random() % 4], Ordinal(turn) + 1}; random() % 4 == 0) {
        one->block().uses.add(use);
        same->block().uses.add(use);
      }
      live.emplace_back(one, same);
    } else {
      std::swap(live[random() % live.size()], live.back());
      const auto [one, same] = live.back();
      live.pop_back();
      std::uint64_t window = 0;
      const Block* const slab = heap->slab_of_several_at(one->address());
      if (slab != nullptr && Heap::begins_in(*slab, one->address(), &window) == one && Heap::can_free_at_once(*one)) {
        heap->free_at_once(one, window);
        ++freed_at_once;
      } else {
        heap->free(one);
      }
      other->free(same);
    }
    if (turn % 500 != 0) continue;
    heap->validate();
    other->validate();
  }
  EXPECT_GT(allocated_at_once, 1'000);
  EXPECT_GT(freed_at_once, 1'000);
  EXPECT_GT(refused, 100);
  other->validate();
}

}  // namespace
}  // namespace thermocline
