// SPDX-License-Identifier: Apache-2.0
#include "offload/pointers/references.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <vector>

#include "tests/allocator/fake_driver.h"

namespace thermocline {
namespace {

constexpr Bytes kPage = FakeDriver::kPage;

class ReferencesTest : public testing::Test {
 protected:
  void SetUp() override {
    HeapOptions options;
    options.page_bytes = kPage;
    options.limit = 320 * kPage;
    ASSERT_TRUE(Heap::create(driver, clock, options, &heap).ok());
    references = std::make_unique<References>(*heap);
  }
  void TearDown() override { references->validate(); }

  Buffer* allocate(Bytes bytes) {
    Buffer* buffer = nullptr;
    EXPECT_TRUE(heap->allocate(bytes, StreamIndex{}, &buffer).ok());
    return buffer;
  }
  void free(Buffer* buffer) {
    references->forget(*buffer);
    heap->free(buffer);
  }
  void put(DeviceAddress at, DeviceAddress target) {
    const HeldWord word{at, target.value};
    references->hold({&word, 1});
    references->validate();
  }
  // Written by a kernel that writes pointers.
  std::uint64_t write(const std::vector<DeviceAddress>& given) {
    std::vector<MemoryAccess> accesses;
    for (const DeviceAddress address : given) accesses.push_back({address});
    const std::uint64_t left_out = references->written_by_kernel(references->given(accesses));
    references->validate();
    return left_out;
  }
  // The buffers that a kernel with these arguments can reach.
  std::set<std::uint64_t> reached(const std::vector<DeviceAddress>& given) {
    std::vector<MemoryAccess> accesses;
    for (const DeviceAddress address : given) accesses.push_back({address});
    std::vector<DeviceAddress> out;
    references->follow(accesses, &out);
    std::set<std::uint64_t> buffers;
    for (const DeviceAddress address : out) {
      const MeantBuffers meant = heap->meant_by(address);
      for (const Buffer* const buffer : {meant.within, meant.behind}) {
        if (buffer != nullptr) buffers.insert(buffer->address().value);
      }
    }
    return buffers;
  }
  static std::set<std::uint64_t> of(const std::vector<Buffer*>& buffers) {
    std::set<std::uint64_t> all;
    for (const Buffer* buffer : buffers) all.insert(buffer->address().value);
    return all;
  }

  FakeDriver fake;
  Driver driver{fake.table()};
  StreamClock clock{driver};
  std::unique_ptr<Heap> heap;
  std::unique_ptr<References> references;
};

// Addresses of arrays that begin at 1; also if a table is found by such an address, and if one is copied.
TEST_F(ReferencesTest, AWordShortlyBeforeABufferLeadsToIt) {
  Buffer *const table = allocate(64), *const target = allocate(2 * kPage), *const copy = allocate(64);
  Buffer *const small = allocate(512), *const behind = allocate(512);
  const auto before = [](const Buffer* buffer, Bytes bytes) { return DeviceAddress{buffer->address().value - bytes}; };
  put(table->address(), before(target, 4));
  put(table->address() + 8, before(behind, 8));
  EXPECT_EQ(reached({table->address()}), of({target, small, behind}));
  EXPECT_EQ(reached({before(table, 8)}), of({target, small, behind}));
  references->copied({copy->address(), 64}, {table->address(), 64}, true);
  EXPECT_EQ(reached({copy->address()}), of({target, small, behind}));
  references->forget(*table);
  EXPECT_EQ(write({copy->address(), before(target, 4)}), 0U);
  EXPECT_EQ(reached({copy->address()}), of({target, small, behind}));
}

// Two words for one buffer, of which one may mean its neighbor, too.
TEST_F(ReferencesTest, WhatAWordMayMeanBesidesIsNotMergedAway) {
  Buffer *const table = allocate(2 * kPage), *const a = allocate(512), *const b = allocate(512);
  for (const bool again : {false, true}) {
    put(table->address(), again ? DeviceAddress{b->address().value - 8} : a->address());
    put(table->address() + 8, again ? a->address() : DeviceAddress{b->address().value - 8});
    EXPECT_EQ(reached({table->address()}), of({a, b}));
    for (std::size_t i = 2; i < 3 * References::kMostRuns; ++i) put(table->address() + i * 600, a->address());
    EXPECT_EQ(reached({table->address()}), of({a, b})) << "collapsed";
    references->forget(*table);
  }
}

// Addresses that are forgotten at the same time do not hide new ones.
TEST_F(ReferencesTest, NewAddressesAreCountedWhateverElseIsForgotten) {
  Buffer *const table = allocate(64), *const a = allocate(512), *b = allocate(512), *const c = allocate(512);
  write({table->address(), a->address(), b->address()});
  std::uint64_t additions = references->additions();
  write({table->address(), a->address(), b->address()});
  EXPECT_EQ(references->additions(), additions) << "nothing new";
  const std::uint64_t runs = references->runs();
  references->forget(*b);
  heap->free(b);
  write({table->address(), a->address(), c->address()});
  EXPECT_GT(references->additions(), additions);
  additions = references->additions();
  write({table->address(), a->address(), c->address()});
  EXPECT_EQ(references->additions(), additions);
  EXPECT_LE(references->runs(), runs + 2);
}

// An address that is known to be in one place may have been stored elsewhere, too.
TEST_F(ReferencesTest, AWordFoundInOnePlaceDoesNotStandForTheWholeTable) {
  Buffer *const table = allocate(64), *const a = allocate(512), *const b = allocate(512);
  for (const bool is_led : {false, true}) {
    const HeldWord word{table->address(), is_led ? b->address().value : b->address().value - 8};
    references->found({&word, 1});
    write({table->address(), b->address()});
    references->overwritten(table->address(), 8);
    EXPECT_TRUE(reached({table->address()}).contains(b->address().value)) << is_led;
    references->forget(*table);
  }
  // Nor for what a kernel may have stored that is found to store addresses.
  const HeldWord word{table->address(), a->address().value};
  const std::array<MemoryAccess, 2> accesses{MemoryAccess{table->address()}, MemoryAccess{a->address()}};
  static_cast<void>(references->written_by_kernel(references->given(accesses), 7));
  references->found({&word, 1});
  references->confirm(7);
  references->overwritten(table->address(), 8);
  EXPECT_TRUE(reached({table->address()}).contains(a->address().value));
}

TEST_F(ReferencesTest, AWordFoundShortlyBeforeABufferIsNotReplacedByItsNeighbour) {
  Buffer *const table = allocate(64), *const a = allocate(512), *const b = allocate(512);
  const HeldWord word{table->address(), b->address().value - 8};
  references->found({&word, 1});
  EXPECT_EQ(reached({table->address()}), of({a, b}));
  write({table->address(), a->address()});
  EXPECT_EQ(reached({table->address()}), of({table, a, b}));
  references->confirm(1);
  EXPECT_EQ(reached({table->address()}), of({table, a, b}));
}

TEST_F(ReferencesTest, AWordLeadsFromItsBufferToTheOneItNames) {
  Buffer *table = allocate(64), *target = allocate(kPage), *other = allocate(kPage);
  put(table->address() + 8, target->address() + 100);
  EXPECT_EQ(reached({table->address()}), of({target}));
  EXPECT_EQ(reached({table->address() + 40}), of({target})) << "whatever address in it was given";
  EXPECT_EQ(reached({other->address()}), of({}));
}

TEST_F(ReferencesTest, WordsThatNameNoBufferAreLeftOut) {
  Buffer* table = allocate(64);
  put(table->address(), heap->range_begin() + 40 * kPage);
  put(table->address(), DeviceAddress{12});
  EXPECT_TRUE(references->empty());
}

TEST_F(ReferencesTest, ChainsAndCirclesAreFollowed) {
  Buffer *a = allocate(64), *b = allocate(64), *c = allocate(kPage);
  put(a->address(), b->address());
  put(b->address(), c->address());
  put(b->address() + 8, a->address());
  EXPECT_EQ(reached({a->address()}), of({a, b, c}));
}

TEST_F(ReferencesTest, AWordStaysUntilItIsWrittenOver) {
  Buffer *table = allocate(64), *first = allocate(kPage), *second = allocate(kPage);
  put(table->address(), first->address());
  put(table->address() + 32, second->address());
  references->overwritten(table->address() + 8, 24);
  EXPECT_EQ(reached({table->address()}), of({first, second}));
  references->overwritten(table->address(), 8);
  EXPECT_EQ(reached({table->address()}), of({second}));
  references->overwritten(table->address(), 64);
  EXPECT_TRUE(references->empty());
}

TEST_F(ReferencesTest, ATableWrittenOverInTheMiddleKeepsBothEnds) {
  Buffer *table = allocate(256), *target = allocate(kPage);
  for (Bytes at = 0; at < 256; at += 8) put(table->address() + at, target->address() + at);
  EXPECT_EQ(references->runs(), 1u);
  references->overwritten(table->address() + 8, 200);
  references->overwritten(table->address(), 8);
  EXPECT_EQ(reached({table->address()}), of({target})) << "the last words are there";
  references->overwritten(table->address() + 8, 248);
  EXPECT_TRUE(references->empty());
}

TEST_F(ReferencesTest, FreedTablesAreForgotten) {
  Buffer *table = allocate(64), *target = allocate(kPage);
  put(table->address(), target->address());
  free(table);
  EXPECT_TRUE(references->empty());
}

TEST_F(ReferencesTest, AnAddressThatIsHandedOutAgainIsLedToAgain) {
  Buffer *table = allocate(64), *target = allocate(kPage);
  const DeviceAddress address = target->address();
  put(table->address(), address);
  free(target);
  EXPECT_EQ(reached({table->address()}), of({}));
  target = allocate(kPage);
  ASSERT_EQ(target->address(), address);
  EXPECT_EQ(reached({table->address()}), of({target}));
}

TEST_F(ReferencesTest, SmallBuffersLeadToAllThatAKernelWasGivenThatWritesTables) {
  Buffer *table = allocate(64), *nested = allocate(64), *a = allocate(kPage), *b = allocate(kPage);
  put(nested->address() + 8, b->address());
  write({table->address() + 16, nested->address(), a->address() + 100});
  EXPECT_EQ(reached({table->address()}), of({nested, a, b, table}));
  references->overwritten(nested->address(), 64);
  EXPECT_EQ(reached({table->address()}), of({nested, a, b})) << "it may have been copied";
  EXPECT_EQ(reached({nested->address()}), of({}));
  EXPECT_EQ(reached({a->address()}), of({})) << "large ones are no tables";
}

TEST_F(ReferencesTest, TablesOfKernelsStayUntilAllOfThemIsWrittenOver) {
  Buffer *table = allocate(64), *target = allocate(kPage);
  write({table->address(), target->end()});
  references->overwritten(table->address() + 8, 48);
  EXPECT_EQ(reached({table->address()}), of({target}));
  references->overwritten(table->address(), 64);
  EXPECT_TRUE(references->empty());
  write({table->address(), target->address()});
  free(table);
  EXPECT_TRUE(references->empty());
}

TEST_F(ReferencesTest, CopiesOfTablesOfKernelsLeadToTheSame) {
  Buffer *table = allocate(64), *target = allocate(kPage), *copy = allocate(4096);
  write({table->address(), target->address()});
  references->copied({copy->address() + 64, 64}, {table->address(), 64}, true);
  references->overwritten(table->address(), 64);
  EXPECT_EQ(reached({copy->address()}), of({target}));
}

TEST_F(ReferencesTest, TheOldestTargetsOfAKernelsTableAreLeftOutAndCounted) {
  Buffer *table = allocate(64), *freed = allocate(kPage);
  write({table->address(), freed->address()});
  free(freed);
  std::vector<Buffer*> targets;
  for (std::size_t i = 0; i < References::kMostWritten; ++i) {
    targets.push_back(allocate(kPage));
    EXPECT_EQ(write({table->address(), targets.back()->address()}), 0u) << "what was freed is not in the way";
  }
  EXPECT_EQ(write({table->address(), targets.front()->address()}), 0u) << "it is known, and the newest now";
  Buffer* const one_more = allocate(kPage);
  EXPECT_EQ(write({table->address(), one_more->address()}), 1u);
  targets.erase(targets.begin() + 1);
  targets.push_back(one_more);
  EXPECT_EQ(reached({table->address()}), of(targets));
  const MemoryAccess access{table->address()};
  std::vector<DeviceAddress> out;
  EXPECT_TRUE(references->follow({&access, 1}, &out).anywhere) << "the one that is not remembered";
  references->overwritten(table->address(), 64);
  references->overwritten(table->address() + 64, table->requested() - 64);
  EXPECT_FALSE(references->follow({&access, 1}, &out).anywhere);
}

TEST_F(ReferencesTest, CopiesTakeWordsAlong) {
  Buffer *table = allocate(64), *copy = allocate(4096), *target = allocate(kPage), *old = allocate(kPage);
  put(table->address() + 16, target->address());
  put(copy->address() + 1024, old->address());
  references->copied({copy->address() + 1000, 48}, {table->address(), 48}, true);
  EXPECT_EQ(reached({copy->address()}), of({target})) << "what was there is written over";
  references->overwritten(table->address(), 64);
  references->overwritten(copy->address() + 1016, 8);
  EXPECT_TRUE(references->empty()) << "they stand where they were copied to";
}

TEST_F(ReferencesTest, InexactCopiesLeaveWhatWasThere) {
  Buffer *table = allocate(64), *copy = allocate(4096), *target = allocate(kPage), *old = allocate(kPage);
  put(table->address(), target->address());
  put(copy->address(), old->address());
  references->copied({copy->address(), 4096}, {table->address(), 64}, false);
  EXPECT_EQ(reached({copy->address()}), of({old, target}));
}

// A copy of a graph may have run or not: what it replaced is followed, until the memory was read.
TEST_F(ReferencesTest, WhatAGraphsCopyReplacesIsFollowedUntilItIsRead) {
  Buffer *table = allocate(64), *old = allocate(kPage), *stays = allocate(kPage), *next = allocate(kPage);
  put(table->address(), old->address());
  put(table->address() + 8, stays->address());
  const AddressRange range{table->address(), 16};
  references->will_be_overwritten(range);
  put(table->address(), stays->address());
  put(table->address() + 8, next->address());
  references->told_what_overwrites(range);
  references->validate();
  EXPECT_EQ(reached({table->address()}), of({old, stays, next}));
  const MemoryAccess access{table->address()};
  std::vector<DeviceAddress> out;
  std::vector<AddressRange> unread;
  EXPECT_FALSE(references->follow_read({&access, 1}, {}, &out, &unread));
  ASSERT_EQ(unread.size(), 1u);
  // It has not run yet.
  const HeldWord stood{table->address(), old->address().value};
  references->now_hold(unread[0], {&stood, 1}, true);
  EXPECT_EQ(reached({table->address()}), of({old, stays, next}));
  const HeldWord stands{table->address(), stays->address().value};
  references->now_hold(range, {&stands, 1}, false);
  EXPECT_EQ(reached({table->address()}), of({stays}));
}

TEST_F(ReferencesTest, WhatAGraphUploadsAgainAndAgainIsCertain) {
  Buffer *table = allocate(4096), *a = allocate(kPage), *b = allocate(kPage);
  const AddressRange range{table->address(), 4096};
  for (int launch = 0; launch < 3; ++launch) {
    references->will_be_overwritten(range);
    for (Bytes at = 0; at < 4096; at += 512) put(table->address() + at, (at % 1024 == 0 ? a : b)->address());
    references->told_what_overwrites(range);
  }
  const MemoryAccess access{table->address()};
  std::vector<DeviceAddress> out;
  EXPECT_FALSE(references->follow({&access, 1}, &out).by_tables);
  references->overwritten(table->address(), 4096);
  EXPECT_TRUE(references->empty());
}

TEST_F(ReferencesTest, WhatIsStoredOutsideIsFollowedByEveryKernel) {
  Buffer *target = allocate(kPage), *other = allocate(kPage);
  const DeviceAddress global{4096};
  put(global, target->address());
  EXPECT_TRUE(references->any_outside());
  EXPECT_EQ(reached({}), of({target}));
  EXPECT_EQ(reached({other->address()}), of({target}));
  references->copied({other->address(), 8}, {global, 8}, true);
  references->overwritten(global, 8);
  EXPECT_FALSE(references->any_outside());
  EXPECT_EQ(reached({other->address()}), of({target}));
}

TEST_F(ReferencesTest, OnePastTheEndMeansBothNeighbours) {
  Buffer *a = allocate(512), *b = allocate(512), *of_a = allocate(kPage), *of_b = allocate(kPage);
  if (b->address() < a->address()) std::swap(a, b);
  ASSERT_EQ(a->end(), b->address());
  put(a->address(), of_a->address());
  put(b->address(), of_b->address());
  EXPECT_EQ(reached({a->end()}), of({of_a, of_b}));
}

TEST_F(ReferencesTest, LongTablesTakeLittle) {
  Buffer* table = allocate(kPage);
  std::vector<Buffer*> targets;
  for (int i = 0; i < 20; ++i) targets.push_back(allocate(kPage));
  std::vector<HeldWord> words;
  std::mt19937_64 random(1);
  for (Bytes at = 0; at < kPage; at += 8) {
    const Buffer* target = targets[random() % targets.size()];
    words.push_back({table->address() + at, (target->address() + random() % kPage).value});
  }
  references->hold(words);
  references->validate();
  EXPECT_LE(references->runs(), References::kMostRuns);
  EXPECT_EQ(reached({table->address()}), of(targets));
}

// Every pointer that is really stored is in the map, and pointers that no longer exist are not kept forever.
TEST_F(ReferencesTest, NoWordIsLostInRandomPrograms) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    std::mt19937_64 random(seed);
    std::vector<Buffer*> buffers;
    for (int i = 0; i < 12; ++i) buffers.push_back(allocate(i % 2 == 0 ? 4096 : kPage));
    std::map<std::uint64_t, std::uint64_t> memory;  // by address: the word that is really there
    const auto place = [&] {
      const Buffer& buffer = *buffers[random() % buffers.size()];
      return buffer.address() + random() % 480 * 8;
    };
    const auto clear = [&](DeviceAddress at, Bytes bytes) {
      memory.erase(memory.lower_bound(at.value), memory.lower_bound(at.value + bytes));
    };
    for (int step = 0; step < 400; ++step) {
      const DeviceAddress at = place(), from = place();
      const Bytes bytes = 8 * (1 + random() % 30);
      const auto copy = [&] {
        std::map<std::uint64_t, std::uint64_t> there(memory.lower_bound(from.value),
                                                     memory.lower_bound(from.value + bytes));
        clear(at, bytes);
        for (const auto& [word, value] : there) memory[word - from.value + at.value] = value;
      };
      switch (random() % 5) {
        case 0:
        case 1: {
          clear(at, 8);
          references->overwritten(at, 8);
          memory[at.value] = place().value;
          put(at, DeviceAddress{memory[at.value]});
          break;
        }
        case 2:
          clear(at, bytes);
          references->overwritten(at, bytes);
          break;
        case 3:
          references->will_be_overwritten({at, bytes});
          references->copied({at, bytes}, {from, bytes}, false);
          references->told_what_overwrites({at, bytes});
          if (random() % 2 == 0) copy();
          break;
        default:
          copy();
          references->copied({at, bytes}, {from, bytes}, true);
      }
      references->validate();
      const Buffer& start = *buffers[random() % buffers.size()];
      std::set<std::uint64_t> expected;
      for (auto it = memory.lower_bound(start.address().value); it != memory.end() && it->first < start.end().value;
           ++it) {
        expected.insert(heap->find(DeviceAddress{it->second})->address().value);
      }
      const std::set<std::uint64_t> found = reached({start.address()});
      ASSERT_TRUE(std::includes(found.begin(), found.end(), expected.begin(), expected.end())) << "seed " << seed;
    }
    for (Buffer* buffer : buffers) references->overwritten(buffer->address(), buffer->requested());
    EXPECT_TRUE(references->empty());
    for (Buffer* buffer : buffers) free(buffer);
  }
}

}  // namespace
}  // namespace thermocline
