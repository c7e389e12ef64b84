// SPDX-License-Identifier: Apache-2.0
// The caches in front of the lock, with buffers of a heap.
#include "allocator/thread_cache.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <thread>

#include "allocator/heap.h"
#include "tests/allocator/fake_driver.h"

namespace thermocline {
namespace {

constexpr StreamHandle kStream{0x10};

class ThreadCacheTest : public testing::Test {
 protected:
  void SetUp() override {
    HeapOptions options;
    options.limit = Bytes{1} << 36;
    options.reserve_bytes = Bytes{1} << 38;
    ASSERT_TRUE(Heap::create(driver_, clock_, options, &heap_).ok());
  }
  Buffer& allocate(Bytes bytes) {
    Buffer* buffer = nullptr;
    EXPECT_TRUE(heap_->allocate(bytes, StreamIndex{}, &buffer).ok());
    return *buffer;
  }
  std::vector<Buffer*> reclaim(Reclaim what = Reclaim::kCached) {
    std::vector<Buffer*> all;
    caches_.reclaim(what, [&all](Buffer& buffer, bool) { all.push_back(&buffer); });
    caches_.validate();
    return all;
  }
  int note_changes() {
    int changes = 0;
    caches_.note_changes([&changes](Buffer&, bool) { ++changes; });
    caches_.validate();
    return changes;
  }

  FakeDriver fake_;
  Driver driver_{fake_.table()};
  StreamClock clock_{driver_};
  std::unique_ptr<Heap> heap_;
  ThreadCaches caches_;
  DeviceAddress address_;
};

TEST_F(ThreadCacheTest, WhatWasFreedComesBackForTheSameSizeAndStream) {
  Buffer& buffer = allocate(1000);
  EXPECT_EQ(caches_.remember(buffer, kStream), nullptr);
  EXPECT_FALSE(caches_.take(caches_.mine(), 1000, kStream, &address_));
  ASSERT_TRUE(caches_.put(buffer.address(), kStream));
  EXPECT_TRUE(ThreadCache::is_cached(buffer));
  EXPECT_FALSE(caches_.take(caches_.mine(), 1001, kStream, &address_));
  EXPECT_FALSE(caches_.take(caches_.mine(), 1000, StreamHandle{0x20}, &address_));
  EXPECT_FALSE(caches_.take(caches_.mine(), 1000, std::nullopt, &address_));
  ASSERT_TRUE(caches_.take(caches_.mine(), 1000, kStream, &address_));
  EXPECT_EQ(address_, buffer.address());
  EXPECT_FALSE(ThreadCache::is_cached(buffer));
  EXPECT_EQ(caches_.totals().takes, 1U);
  EXPECT_EQ(caches_.totals().puts, 1U);
}

TEST_F(ThreadCacheTest, ParksNeitherTwiceNorOnAnotherStreamNorWhatItDoesNotKnow) {
  Buffer& buffer = allocate(1000);
  EXPECT_FALSE(caches_.put(buffer.address(), kStream));
  caches_.remember(buffer, kStream);
  EXPECT_FALSE(caches_.put(buffer.address(), std::nullopt));
  EXPECT_FALSE(caches_.put(buffer.address() + 1, kStream));
  EXPECT_TRUE(caches_.put(buffer.address(), kStream));
  EXPECT_FALSE(caches_.put(buffer.address(), kStream));
  EXPECT_FALSE(ThreadCache::withdraw(buffer));
  EXPECT_EQ(reclaim(), std::vector<Buffer*>{&buffer});
  EXPECT_TRUE(ThreadCache::withdraw(buffer));
}

TEST_F(ThreadCacheTest, EachChangeOfOwnerIsHeardOfOnce) {
  Buffer& buffer = allocate(3 * kMiB);
  caches_.remember(buffer, kStream);
  EXPECT_EQ(note_changes(), 0);
  caches_.put(buffer.address(), kStream);
  EXPECT_EQ(note_changes(), 1);
  EXPECT_EQ(caches_.cached_bytes(), 3 * kMiB);
  EXPECT_EQ(caches_.cached_block_bytes(), 4 * kMiB);
  // The same buffer for the same owner: the only change is that it is live.
  caches_.take(caches_.mine(), 3 * kMiB, kStream, &address_);
  EXPECT_EQ(note_changes(), 0);
  EXPECT_EQ(caches_.cached_bytes(), 0U);
  caches_.put(buffer.address(), kStream);
  caches_.take(caches_.mine(), 3 * kMiB, kStream, &address_);
  EXPECT_EQ(note_changes(), 1);
  EXPECT_EQ(note_changes(), 0);
}

// The owner thread does not wait for the holder of the lock.
TEST_F(ThreadCacheTest, WhatTheOwnerDoesMeanwhileIsNotedTheNextTime) {
  std::vector<Buffer*> all;
  for (Bytes bytes = 1000; bytes < 1040; bytes += 8) {
    all.push_back(&allocate(bytes));
    caches_.remember(*all.back(), kStream);
  }
  // At whichever buffer the change happens, some of the others come after it in the slots.
  for (const Buffer* first : all) {
    ASSERT_TRUE(caches_.put(first->address(), kStream));
    std::set<const Buffer*> noted;
    const auto listen = [&](Buffer& buffer, bool) {
      EXPECT_TRUE(noted.insert(&buffer).second);
      for (const Buffer* other : all) caches_.put(other->address(), kStream);
    };
    caches_.note_changes(listen);
    caches_.note_changes(listen);
    EXPECT_EQ(noted.size(), all.size());
    EXPECT_EQ(note_changes(), 0);
    EXPECT_EQ(caches_.cached_bytes(), Bytes{1000 + 1008 + 1016 + 1024 + 1032});
    for (const Buffer* buffer : all) EXPECT_TRUE(caches_.take(caches_.mine(), buffer->requested(), kStream, &address_));
    EXPECT_EQ(note_changes(), 0);
  }
}

TEST_F(ThreadCacheTest, WhatIsForgottenIsNotCached) {
  Buffer& out = allocate(1000);
  Buffer& cached = allocate(2000);
  caches_.remember(out, kStream);
  caches_.remember(cached, kStream);
  caches_.put(cached.address(), kStream);
  EXPECT_EQ(reclaim(Reclaim::kForget), std::vector<Buffer*>{&cached});
  EXPECT_FALSE(caches_.put(out.address(), kStream));
}

TEST_F(ThreadCacheTest, HoldsNoMoreThanItsSlots) {
  std::size_t displaced = 0;
  for (unsigned i = 0; i < 4 * ThreadCache::kSlots; ++i) {
    Buffer& buffer = allocate(512 * (1 + i));
    if (Buffer* other = caches_.remember(buffer, kStream); other != nullptr) {
      ++displaced;
      EXPECT_TRUE(ThreadCache::withdraw(*other));
      heap_->free(other);
    }
    ASSERT_TRUE(caches_.put(buffer.address(), kStream));
    caches_.validate();
  }
  const std::vector<Buffer*> rest = reclaim();
  EXPECT_LE(rest.size(), ThreadCache::kSlots);
  EXPECT_EQ(rest.size() + displaced, 4 * ThreadCache::kSlots);
}

TEST_F(ThreadCacheTest, EndedThreadsLeaveWhatTheyCached) {
  Buffer& buffer = allocate(1000);
  Buffer& out = allocate(1000);
  std::thread([&] {
    caches_.remember(buffer, kStream);
    caches_.remember(out, kStream);
    caches_.put(buffer.address(), kStream);
  }).join();
  EXPECT_FALSE(caches_.take(caches_.mine(), 1000, kStream, &address_));
  EXPECT_EQ(reclaim(), std::vector<Buffer*>{&buffer});
  EXPECT_TRUE(ThreadCache::withdraw(out));
  EXPECT_EQ(caches_.totals().puts, 1U);
}

TEST_F(ThreadCacheTest, OnlySoManyThreadsHaveOne) {
  std::atomic<bool> end{false};
  std::mutex mutex;
  std::vector<std::thread> threads;
  std::atomic<std::size_t> cached{0}, tried{0};
  for (std::size_t i = 0; i < ThreadCaches::kMost + 4; ++i) {
    threads.emplace_back([&] {
      {
        const std::lock_guard lock(mutex);
        Buffer& buffer = allocate(1000);
        caches_.remember(buffer, kStream);
        if (caches_.put(buffer.address(), kStream)) ++cached;
      }
      ++tried;
      while (!end) std::this_thread::yield();
    });
  }
  while (tried < threads.size()) std::this_thread::yield();
  EXPECT_EQ(cached, ThreadCaches::kMost);
  {
    const std::lock_guard lock(mutex);
    EXPECT_FALSE(caches_.may_join());
  }
  end = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(caches_.may_join());
  EXPECT_EQ(reclaim().size(), ThreadCaches::kMost);
}

TEST_F(ThreadCacheTest, AThreadThatGoesToOtherCachesLeavesTheFirst) {
  ThreadCaches others;
  Buffer& first = allocate(1000);
  Buffer& second = allocate(1000);
  caches_.remember(first, kStream);
  others.remember(second, kStream);
  EXPECT_FALSE(caches_.put(first.address(), kStream));
  EXPECT_TRUE(others.put(second.address(), kStream));
  EXPECT_FALSE(caches_.take(caches_.mine(), 1000, kStream, &address_));
  others.reclaim(Reclaim::kCached, [](Buffer&, bool) {});
}

// Threads that begin where others have ended have the addresses of those.
TEST_F(ThreadCacheTest, AThreadFindsItsOwnWhereverOthersHaveBeen) {
  ASSERT_TRUE(caches_.has_entries()) << "otherwise nothing is tested";
  for (int i = 0; i < 100; ++i) {
    std::thread([&] {
      EXPECT_EQ(caches_.mine(), nullptr);
      Buffer& buffer = allocate(1000);
      caches_.remember(buffer, kStream);
      EXPECT_TRUE(caches_.put(buffer.address(), kStream));
    }).join();
    EXPECT_EQ(reclaim().size(), 1u);
  }
}

TEST_F(ThreadCacheTest, WhatAnotherThreadFreesIsNotRememberedForAWhile) {
  EXPECT_FALSE(caches_.has_asked_for(1000));
  EXPECT_TRUE(caches_.has_asked_for(1000));
  Buffer& buffer = allocate(1000);
  caches_.remember(buffer, kStream);
  EXPECT_TRUE(caches_.withdraw(buffer));
  EXPECT_TRUE(caches_.has_asked_for(1000)) << "its own thread has freed it";
  caches_.remember(buffer, kStream);
  std::thread([&] { EXPECT_TRUE(caches_.withdraw(buffer)); }).join();
  for (std::uint32_t i = 0; i < ThreadCache::kSkipped; ++i) EXPECT_FALSE(caches_.has_asked_for(1000));
  EXPECT_TRUE(caches_.has_asked_for(1000));
}

// A buffer that was taken back before its thread asked for it again cost more than it saved: the size counts as asked for
// less and less often, until one has been taken.
TEST_F(ThreadCacheTest, WhatIsCachedInVainIsNotRememberedForAWhile) {
  const auto skipped = [this] {
    std::uint32_t times = 0;
    while (!caches_.has_asked_for(1000)) ++times;
    return times;
  };
  const auto take_back = [this] {
    const std::vector<Buffer*> all = reclaim();
    ASSERT_EQ(all.size(), 1U);
    heap_->free(all.front());
  };
  EXPECT_EQ(skipped(), 1U) << "it had not been asked for";
  for (std::uint32_t times = 1; times < 4 * ThreadCache::kSkipped; times = 2 * times + 1) {
    Buffer& buffer = allocate(1000);
    caches_.remember(buffer, kStream);
    ASSERT_TRUE(caches_.put(buffer.address(), kStream));
    take_back();
    EXPECT_EQ(skipped(), std::min(times, ThreadCache::kSkipped));
  }
  Buffer& buffer = allocate(1000);
  caches_.remember(buffer, kStream);
  ASSERT_TRUE(caches_.put(buffer.address(), kStream));
  ASSERT_TRUE(caches_.take(caches_.mine(), 1000, kStream, &address_));
  ASSERT_TRUE(caches_.put(buffer.address(), kStream));
  take_back();
  EXPECT_EQ(skipped(), 0U) << "it had been taken";
}

// Threads put and take while another one notes changes and reclaims: no buffer ever has two owners, and none is lost.
TEST_F(ThreadCacheTest, NoBufferHasTwoOwners) {
  constexpr int kThreads = 3;
  std::mutex lock;
  std::map<std::uint64_t, std::atomic<int>> owners;
  std::set<Buffer*> all;
  const auto own = [&](DeviceAddress address) { EXPECT_EQ(owners.at(address.value).fetch_add(1), 0); };
  const auto disown = [&](DeviceAddress address) { EXPECT_EQ(owners.at(address.value).fetch_sub(1), 1); };
  std::vector<Buffer*> spare;
  for (int i = 0; i < 64; ++i) {
    spare.push_back(&allocate(1000));
    owners[spare.back()->address().value] = 0;
  }
  const auto free_all = [&](Reclaim what) {
    caches_.note_changes([](Buffer&, bool) {});
    caches_.reclaim(what, [&](Buffer& buffer, bool) { spare.push_back(&buffer); });
  };
  std::atomic<int> running{kThreads};
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      std::mt19937 random(static_cast<unsigned>(i));
      std::vector<DeviceAddress> held;
      for (int turn = 0; turn < 4000; ++turn) {
        if (random() % 2 == 0 && held.size() < 8) {
          DeviceAddress address;
          if (!caches_.take(caches_.mine(), 1000, kStream, &address)) {
            const std::lock_guard guard(lock);
            if (caches_.may_join()) free_all(Reclaim::kCached);
            if (spare.empty()) free_all(Reclaim::kCached);
            if (spare.empty()) continue;
            Buffer* const buffer = spare.back();
            spare.pop_back();
            address = buffer->address();
            if (Buffer* other = caches_.remember(*buffer, kStream); other != nullptr) spare.push_back(other);
          }
          own(address);
          held.push_back(address);
        } else if (!held.empty()) {
          const DeviceAddress address = held.back();
          held.pop_back();
          disown(address);
          if (caches_.put(address, kStream)) continue;
          const std::lock_guard guard(lock);
          Buffer* const buffer = heap_->find(address);
          EXPECT_TRUE(ThreadCache::withdraw(*buffer));
          spare.push_back(buffer);
        }
      }
      for (const DeviceAddress address : held) {
        disown(address);
        const std::lock_guard guard(lock);
        EXPECT_TRUE(ThreadCache::withdraw(*heap_->find(address)));
        spare.push_back(heap_->find(address));
      }
      --running;
    });
  }
  for (unsigned turn = 0; running > 0; ++turn) {
    const std::lock_guard guard(lock);
    free_all(turn % 5 == 0 ? Reclaim::kForget : Reclaim::kCached);
  }
  for (std::thread& thread : threads) thread.join();
  free_all(Reclaim::kForget);
  EXPECT_EQ(std::set<Buffer*>(spare.begin(), spare.end()).size(), 64U);
  EXPECT_EQ(spare.size(), 64U);
}

// More than have a number of their own in the table of threads (thread_cache.h). The last test, because those that come
// later in this process have no entries there.
TEST_F(ThreadCacheTest, ThereMayBeAnyNumberOfThem) {
  Buffer& first = allocate(1000);
  Buffer& last = allocate(1000);
  caches_.remember(first, kStream);
  for (int i = 0; i < 1 << 16; ++i) ThreadCaches();
  ThreadCaches late;
  EXPECT_EQ(late.mine(), nullptr);
  late.remember(last, kStream);
  EXPECT_NE(late.mine(), nullptr);
  EXPECT_EQ(caches_.mine(), nullptr);
  EXPECT_TRUE(late.put(last.address(), kStream));
  EXPECT_FALSE(caches_.put(first.address(), kStream));
  late.reclaim(Reclaim::kCached, [](Buffer&, bool) {});
}

}  // namespace
}  // namespace thermocline
