// SPDX-License-Identifier: Apache-2.0
#include "allocator/caching_heap.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <vector>

#include "tests/support/seeds.h"

namespace thermocline {
namespace {

using Leaving = CachingHeap::Leaving;
using Reserved = CachingHeap::Reserved;
using State = CachingHeap::State;

constexpr std::uint64_t kContext = 7, kOther = 8;

class CachingHeapTest : public testing::Test {
 protected:
  void TearDown() override { heap_.validate(); }

  Reserved reserve(Bytes bytes) {
    surplus_.clear();
    return heap_.reserve(bytes, &surplus_);
  }
  DeviceAddress make(Bytes bytes, std::uint64_t context = kContext, bool is_external = false) {
    EXPECT_EQ(reserve(bytes), Reserved::kYes);
    const DeviceAddress at{next_ += kMiB};
    heap_.allocated(at, {.bytes = bytes, .context = context, .is_external = is_external});
    return at;
  }
  void free_to_cache(DeviceAddress at) {
    heap_.wait_began(at);
    heap_.cache(at);
  }
  void free_to_driver(DeviceAddress at) { heap_.left(heap_.take_out(at)); }
  CachingHeap::Statistics now() const { return heap_.statistics(); }

  CachingHeap heap_{64 * kKiB};
  std::vector<Leaving> surplus_;
  std::uint64_t next_ = kGiB;
};

TEST_F(CachingHeapTest, AFreedBlockIsReusedForItsExactSizeInItsContext) {
  const DeviceAddress at = make(4000);
  free_to_cache(at);
  EXPECT_FALSE(heap_.reuse(4001, kContext).has_value());
  EXPECT_FALSE(heap_.reuse(3999, kContext).has_value());
  EXPECT_FALSE(heap_.reuse(4000, kOther).has_value());
  EXPECT_EQ(heap_.reuse(4000, kContext), at);
  EXPECT_FALSE(heap_.reuse(4000, kContext).has_value());
  EXPECT_EQ(now().creates, 1u);
  EXPECT_EQ(now().allocations, 2u);
  EXPECT_EQ(now().device_bytes, 4096u);
}

TEST_F(CachingHeapTest, ABlockIsNotReusedWhileItsUsersAreWaitedFor) {
  const DeviceAddress at = make(4096);
  heap_.wait_began(at);
  EXPECT_EQ(heap_.state_of(at), State::kWaited);
  EXPECT_FALSE(heap_.reuse(4096, kContext).has_value());
  EXPECT_TRUE(heap_.empty_cache().empty());
  EXPECT_EQ(reserve(61 * kKiB), Reserved::kNo);
  heap_.wait_failed(at);
  EXPECT_EQ(heap_.state_of(at), State::kLive);
  EXPECT_EQ(now().allocations, 1u);
  EXPECT_EQ(now().live_buffers, 1u);
  EXPECT_EQ(now().allocated_bytes, 4096u);
}

TEST_F(CachingHeapTest, TheBudgetRefusesWhatIsLive) {
  make(60 * kKiB);
  EXPECT_EQ(reserve(4 * kKiB + 1), Reserved::kNo);
  EXPECT_EQ(reserve(~Bytes{0}), Reserved::kNo);
  EXPECT_EQ(reserve(4 * kKiB), Reserved::kYes);
  EXPECT_EQ(reserve(1), Reserved::kNo) << "what the driver is being asked for counts";
  heap_.unreserve(4 * kKiB);
  EXPECT_EQ(reserve(1), Reserved::kYes);
  heap_.unreserve(1);
}

TEST_F(CachingHeapTest, ExternalMemoryCountsAndIsNotABuffer) {
  const DeviceAddress at = make(60 * kKiB, kContext, true);
  EXPECT_EQ(now().external_bytes, 60 * kKiB);
  EXPECT_EQ(now().live_bytes, 60 * kKiB);
  EXPECT_EQ(now().allocations, 0u);
  EXPECT_EQ(now().creates, 0u);
  EXPECT_EQ(reserve(5 * kKiB), Reserved::kNo);
  free_to_driver(at);
  EXPECT_EQ(now().device_bytes, 0u);
  EXPECT_EQ(now().destroyed_bytes, 0u);
}

TEST_F(CachingHeapTest, CachedBlocksLeaveForWhatTheBudgetLacks) {
  const DeviceAddress small = make(4 * kKiB), medium = make(16 * kKiB), large = make(32 * kKiB);
  for (const DeviceAddress at : {small, medium, large}) free_to_cache(at);
  // 12 KiB are free: the smallest that suffices for the rest.
  EXPECT_EQ(reserve(20 * kKiB), Reserved::kNotYet);
  ASSERT_EQ(surplus_.size(), 1u);
  EXPECT_EQ(surplus_[0].at, medium);
  // Until it has left, somebody else has to wait for it, or to give more.
  std::vector<Leaving> others;
  EXPECT_EQ(heap_.reserve(64 * kKiB, &others), Reserved::kNotYet);
  EXPECT_EQ(others.size(), 2u);
  std::vector<Leaving> none;
  EXPECT_EQ(heap_.reserve(64 * kKiB, &none), Reserved::kNotYet);
  EXPECT_TRUE(none.empty());
  EXPECT_TRUE(heap_.is_any_leaving());
  heap_.left(surplus_[0]);
  for (const Leaving& one : others) heap_.left(one);
  EXPECT_EQ(reserve(64 * kKiB), Reserved::kYes);
  heap_.unreserve(64 * kKiB);
  EXPECT_EQ(now().device_bytes, 0u);
  EXPECT_EQ(now().destroyed_bytes, 52 * kKiB);
}

TEST_F(CachingHeapTest, WhatIsRefusedInTheEndCostsNothingThatIsCached) {
  free_to_cache(make(8 * kKiB));
  make(32 * kKiB);
  EXPECT_EQ(reserve(20 * kKiB), Reserved::kYes);
  EXPECT_EQ(reserve(13 * kKiB), Reserved::kNo);
  EXPECT_TRUE(surplus_.empty());
  EXPECT_EQ(heap_.cached_bytes(), 8 * kKiB);
  heap_.unreserve(20 * kKiB);
}

TEST_F(CachingHeapTest, AFreeThatTheDriverRefusesLeavesTheBlockLive) {
  const DeviceAddress at = make(4 * kKiB);
  const Leaving leaving = heap_.take_out(at);
  EXPECT_EQ(heap_.state_of(at), State::kUnknown);
  EXPECT_EQ(now().device_bytes, 4 * kKiB) << "the driver has it only when it says so";
  heap_.put_back(leaving);
  EXPECT_EQ(heap_.state_of(at), State::kLive);
  EXPECT_EQ(now().allocations, 1u);
  EXPECT_EQ(now().live_bytes, 4 * kKiB);
}

TEST_F(CachingHeapTest, TheBlockThatAnAddressLiesInIsShared) {
  const DeviceAddress at = make(4000);
  heap_.share(at - 1);
  heap_.share(at + 4000);
  EXPECT_FALSE(heap_.block_at(at).is_shared);
  heap_.share(at + 3999);
  EXPECT_TRUE(heap_.block_at(at).is_shared);
}

TEST_F(CachingHeapTest, BlocksEndWithTheirContext) {
  const DeviceAddress live = make(4 * kKiB), cached = make(4 * kKiB), waited = make(4 * kKiB),
                      other = make(4 * kKiB, kOther);
  free_to_cache(cached);
  heap_.wait_began(waited);
  heap_.end_of_context(kContext);
  for (const DeviceAddress at : {live, cached, waited}) EXPECT_EQ(heap_.state_of(at), State::kUnknown);
  EXPECT_EQ(heap_.state_of(other), State::kLive);
  heap_.cache(waited);
  EXPECT_FALSE(heap_.reuse(4 * kKiB, kContext).has_value());
  EXPECT_EQ(now().device_bytes, 4 * kKiB);
}

TEST_F(CachingHeapTest, AnAddressThatTheDriverGivesAgainHasBeenFreedUnseen) {
  const DeviceAddress at = make(8 * kKiB, kContext, true);
  EXPECT_EQ(reserve(4 * kKiB), Reserved::kYes);
  heap_.allocated(at, {.bytes = 4 * kKiB, .context = kContext});
  EXPECT_EQ(now().external_bytes, 0u);
  EXPECT_EQ(now().device_bytes, 4 * kKiB);
}

TEST_F(CachingHeapTest, PeaksCanBeReset) {
  free_to_driver(make(8 * kKiB));
  make(4 * kKiB);
  EXPECT_EQ(now().peak_device_bytes, 8 * kKiB);
  heap_.reset_peaks();
  EXPECT_EQ(now().peak_device_bytes, 4 * kKiB);
  EXPECT_EQ(now().peak_live_bytes, 4 * kKiB);
  EXPECT_EQ(now().peak_live_buffers, 1u);
}

// Random programs of several threads, whose driver calls are under way while others are made. The model is what the
// driver has given and what the program holds.
class RandomProgram {
 public:
  explicit RandomProgram(std::uint64_t seed) : random_(seed), heap_(pick(4) == 0 ? 0 : (4 + pick(60)) * kKiB) {}

  void run(int steps) {
    for (int i = 0; i < steps && !testing::Test::HasFailure(); ++i) {
      step();
      heap_.validate();
      check();
    }
  }

 private:
  struct Made {
    Bytes bytes;
    std::uint64_t context;
    bool is_external;
  };

  std::uint64_t pick(std::uint64_t below) { return random_() % below; }

  template <class Map>
  auto any_of(Map& map) {
    return std::next(map.begin(), static_cast<std::ptrdiff_t>(pick(map.size())));
  }

  void step() {
    switch (pick(9)) {
      case 0:
      case 1:
      case 2:
        return allocate();
      case 3:
      case 4:
        return begin_free();
      case 5:
        return end_wait();
      case 6:
        return end_leaving();
      case 7:
        return answer();
      default:
        if (pick(20) == 0) return end_context();
        if (pick(8) == 0) leave(heap_.empty_cache());
    }
  }

  void allocate() {
    const Made made{1 + pick(6) * 700, 1 + pick(2), pick(4) == 0};
    if (!made.is_external) {
      if (const auto at = heap_.reuse(made.bytes, made.context); at.has_value()) {
        const auto cached = cached_.find(at->value);
        ASSERT_NE(cached, cached_.end()) << "only what is cached is reused";
        ASSERT_EQ(cached->second.bytes, made.bytes);
        ASSERT_EQ(cached->second.context, made.context);
        live_.insert(cached_.extract(cached));
        return;
      }
    }
    std::vector<Leaving> surplus;
    if (heap_.reserve(made.bytes, &surplus) == Reserved::kYes) asked_.push_back(made);
    leave(surplus);
  }

  void answer() {
    if (asked_.empty()) return;
    const Made made = asked_.back();
    asked_.pop_back();
    if (pick(5) == 0) return heap_.unreserve(made.bytes);
    const std::uint64_t at = next_ += kMiB;
    heap_.allocated(DeviceAddress{at}, {.bytes = made.bytes, .context = made.context, .is_external = made.is_external});
    live_.emplace(at, made);
  }

  void begin_free() {
    if (live_.empty()) return;
    const auto one = any_of(live_);
    const DeviceAddress at{one->first};
    ASSERT_EQ(heap_.state_of(at), State::kLive);
    if (!one->second.is_external && pick(3) != 0) {
      heap_.wait_began(at);
      waited_.insert(live_.extract(one));
      return;
    }
    const Leaving leaving = heap_.take_out(at);
    if (pick(6) == 0) return heap_.put_back(leaving);
    live_.erase(one);
    leaving_.push_back(leaving);
  }

  void end_wait() {
    if (waited_.empty()) return;
    const auto one = any_of(waited_);
    const bool fails = pick(5) == 0;
    fails ? heap_.wait_failed(DeviceAddress{one->first}) : heap_.cache(DeviceAddress{one->first});
    (fails ? live_ : cached_).insert(waited_.extract(one));
  }

  void leave(const std::vector<Leaving>& blocks) {
    for (const Leaving& one : blocks) {
      ASSERT_EQ(cached_.erase(one.at.value), 1u) << "only what is cached leaves";
      leaving_.push_back(one);
    }
  }

  void end_leaving() {
    if (leaving_.empty()) return;
    heap_.left(leaving_.back());
    leaving_.pop_back();
  }

  void end_context() {
    const std::uint64_t context = 1 + pick(2);
    heap_.end_of_context(context);
    for (auto* const blocks : {&live_, &waited_, &cached_}) {
      std::erase_if(*blocks, [&](const auto& one) { return one.second.context == context; });
    }
  }

  void check() {
    Bytes live = 0, device = 0, reserved = 0;
    for (const auto& [at, made] : live_) live += made.bytes;
    for (const auto* const blocks : {&live_, &waited_, &cached_}) {
      for (const auto& [at, made] : *blocks) device += CachingHeap::counted(made.bytes);
    }
    for (const Leaving& one : leaving_) device += CachingHeap::counted(one.block.bytes);
    for (const Made& made : asked_) reserved += CachingHeap::counted(made.bytes);
    ASSERT_EQ(heap_.statistics().live_bytes, live);
    ASSERT_EQ(heap_.statistics().device_bytes, device);
    ASSERT_TRUE(heap_.budget() == 0 || device + reserved <= heap_.budget());
  }

  std::mt19937_64 random_;
  CachingHeap heap_;
  std::map<std::uint64_t, Made> live_, waited_, cached_;
  std::vector<Made> asked_;
  std::vector<Leaving> leaving_;
  std::uint64_t next_ = kGiB;
};

TEST(CachingHeapModel, RandomProgramsAgreeWithTheModel) {
  for (const std::uint64_t seed : test_seeds(300)) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomProgram(seed).run(400);
    if (testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace thermocline
