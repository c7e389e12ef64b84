// SPDX-License-Identifier: Apache-2.0
// Which buffers a program may mean by an address: arrays that begin at 1 are passed by the address of the element before
// the first.
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "allocator/heap.h"
#include "tests/allocator/fake_driver.h"

namespace thermocline {
namespace {

constexpr Bytes kPage = FakeDriver::kPage;
// A buffer that leaves so much of its last page unused needs no guard: the next one may begin behind that.
constexpr Bytes kTail = Heap::kMostElement + 1;

class MeantByTest : public testing::Test {
 protected:
  void SetUp() override { make(KeepApart::kNone); }
  void make(KeepApart apart) {
    HeapOptions options;
    options.page_bytes = kPage;
    options.limit = 64 * kPage;
    options.apart = apart;
    heap = nullptr;
    ASSERT_TRUE(Heap::create(driver, clock, options, &heap).ok());
  }
  Buffer* allocate(Bytes bytes) {
    Buffer* buffer = nullptr;
    EXPECT_TRUE(heap->allocate(bytes, StreamIndex{}, &buffer).ok());
    return buffer;
  }

  FakeDriver fake;
  Driver driver{fake.table()};
  StreamClock clock{driver};
  std::unique_ptr<Heap> heap;
};

TEST_F(MeantByTest, AnAddressShortlyBeforeABufferMeansThatOne) {
  const auto of = [this](Buffer* within, Buffer* ended, Buffer* behind, DeviceAddress address) {
    EXPECT_EQ(heap->meant_by(address), (MeantBuffers{within, ended, behind}))
        << heap->range_begin().value - address.value;
  };
  Buffer* const first = allocate(2 * kPage - 1);
  Buffer* const next = allocate(2 * kPage - kTail);
  Buffer* const third = allocate(3 * kPage - kTail);
  ASSERT_EQ(next->block().end(), third->address());
  const DeviceAddress begin = heap->range_begin();
  EXPECT_GE(first->address(), begin + kPage) << "what is before it is in the reservation";
  for (Buffer* const buffer : {first, next, third}) {
    const DeviceAddress at = buffer->address();
    of(buffer, nullptr, nullptr, at);
    for (const Bytes before : {1, 8, 16}) {
      of(nullptr, nullptr, buffer, DeviceAddress{at.value - before});
      EXPECT_EQ(heap->block_meant_by(DeviceAddress{at.value - before}), &buffer->block());
    }
    // Farther away, unless it is in another one.
    const DeviceAddress far{at.value - 512};
    Buffer* const other = buffer == third ? next : nullptr;
    of(other, nullptr, other == nullptr ? buffer : nullptr, far);
    EXPECT_EQ(heap->block_meant_by(far), other == nullptr ? &buffer->block() : &other->block());
    EXPECT_EQ(heap->meant_by(DeviceAddress{at.value - 513}).behind, nullptr);
    // Whatever is in it, or one past its end, is its own.
    for (const DeviceAddress inside : {at, buffer->end() - 1, buffer->end()}) {
      of(buffer, nullptr, nullptr, inside);
      EXPECT_EQ(heap->block_meant_by(inside), &buffer->block());
    }
  }
  of(nullptr, nullptr, nullptr, begin);
  of(nullptr, nullptr, nullptr, begin + heap->range_bytes());
  of(nullptr, nullptr, nullptr, DeviceAddress{~std::uint64_t{0}});
  of(nullptr, nullptr, nullptr, DeviceAddress{});
}

TEST_F(MeantByTest, OfSmallBuffersAnElementBeforeMeansTheNeighbourToo) {
  const auto of = [this](DeviceAddress address) { return heap->meant_by(address); };
  Buffer *const a = allocate(512), *const b = allocate(400), *const c = allocate(512);
  ASSERT_EQ(a->end(), b->address());
  EXPECT_EQ(of(b->address()), (MeantBuffers{b, a, nullptr}));
  EXPECT_EQ(of(DeviceAddress{b->address().value - 8}), (MeantBuffers{a, nullptr, b}));
  EXPECT_EQ(of(DeviceAddress{b->address().value - 17}), (MeantBuffers{a, nullptr, nullptr}));
  EXPECT_EQ(of(b->end()), (MeantBuffers{b, nullptr, nullptr}));
  EXPECT_EQ(of(b->end() + 1), (MeantBuffers{nullptr, nullptr, c}));
  EXPECT_EQ(of(DeviceAddress{a->address().value - 8}), (MeantBuffers{nullptr, nullptr, a})) << "the slab begins there";
}

TEST_F(MeantByTest, NothingBeginsWhereAnotherOneEndsIfBuffersAreApart) {
  for (const KeepApart apart : {KeepApart::kNone, KeepApart::kMost}) {
    make(apart);
    std::vector<Buffer*> buffers;
    // On both sides of what is small, and the largest that shares a page.
    for (const Bytes bytes : {512, 512, 1024, 700, 512, 32 * 1024, 32 * 1024, 32 * 1024 - 512, 64 * 1024, 64 * 1024})
      buffers.push_back(allocate(bytes));
    buffers.push_back(allocate(kPage - 512));
    std::size_t adjacent = 0;
    for (const Buffer* const one : buffers) {
      const MeantBuffers meant = heap->meant_by(one->end());
      adjacent += meant.ended != nullptr || meant.within != one ? 1 : 0;
    }
    EXPECT_EQ(adjacent > 0, apart == KeepApart::kNone) << adjacent;
    heap->validate();
    for (Buffer* const one : buffers) heap->free(one);
    heap->validate();
  }
}

// Where a byte behind each would make one in a few of a page lose its place.
TEST_F(MeantByTest, AsManyLargeBuffersFitInAPageIfBuffersAreApart) {
  for (const KeepApart apart : {KeepApart::kNone, KeepApart::kMost}) {
    make(apart);
    for (const Bytes parts : {2, 3, 4, 7}) {
      std::vector<Buffer*> buffers;
      for (Bytes i = 0; i < parts; ++i) buffers.push_back(allocate(round_down(kPage / parts, Bytes{512})));
      for (const Buffer* const one : buffers) EXPECT_EQ(&one->block(), &buffers[0]->block()) << parts;
      heap->validate();
      for (Buffer* const one : buffers) heap->free(one);
    }
    std::vector<Buffer*> buffers;
    for (int i = 0; i < 8; ++i) buffers.push_back(allocate(kPage / 8));
    EXPECT_EQ(&buffers[0]->block() == &buffers[7]->block(), apart == KeepApart::kNone)
        << "a byte behind each costs one in eight";
    heap->validate();
  }
}

// Buffers of different sizes that fill a page together do so with a byte behind some of them, too.
TEST_F(MeantByTest, AByteWhereItIsCheapCostsNoPage) {
  const auto have_a_gap = [](const Buffer& one, const Buffer& next) { return one.end() < next.address(); };
  for (const KeepApart apart : {KeepApart::kNone, KeepApart::kWhereCheap}) {
    const bool are_apart = apart == KeepApart::kWhereCheap;
    const std::vector<std::vector<Bytes>> full_pages{
        std::vector<Bytes>(16, 128 * kKiB),
        {512 * kKiB, 512 * kKiB, 512 * kKiB, 512 * kKiB},
        {1 * kMiB, 192 * kKiB, 192 * kKiB, 192 * kKiB, 192 * kKiB, 192 * kKiB, 64 * kKiB}};
    for (const std::vector<Bytes>& sizes : full_pages) {
      make(apart);
      for (const Bytes bytes : sizes) allocate(bytes);
      EXPECT_EQ(heap->statistics().slabs, 1u) << sizes.size();
      heap->validate();
    }
    // Buffers so large that no other one fits beside them anyway.
    make(apart);
    const Buffer *const a = allocate(768 * kKiB), *const b = allocate(768 * kKiB);
    EXPECT_EQ(have_a_gap(*a, *b), are_apart);
    const Buffer *const c = allocate(512), *const d = allocate(512);
    EXPECT_EQ(have_a_gap(*c, *d), are_apart);
    heap->validate();
  }
}

}  // namespace
}  // namespace thermocline
