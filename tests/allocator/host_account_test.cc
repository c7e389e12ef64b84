// SPDX-License-Identifier: Apache-2.0
// One limit of host memory for the pools of several devices.
#include "allocator/host_account.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "allocator/host_ledger.h"
#include "allocator/host_pool.h"
#include "tests/allocator/fake_driver.h"

namespace thermocline {
namespace {

TEST(HostAccount, GrantsNoMoreThanTheLimitToAllHoldersTogether) {
  HostAccount account(100);
  EXPECT_TRUE(account.change(0, 60));
  EXPECT_FALSE(account.change(0, 41));
  EXPECT_TRUE(account.change(0, 40));
  EXPECT_EQ(account.left_for(60), 60u);
  EXPECT_EQ(account.left_for(40), 40u);
  EXPECT_FALSE(account.change(60, 61));
  EXPECT_TRUE(account.change(60, 10));
  EXPECT_EQ(account.left_for(40), 90u);
  EXPECT_FALSE(account.change(40, ~Bytes{0})) << "nothing overflows";
  EXPECT_TRUE(account.change(40, 90));
  EXPECT_TRUE(account.change(90, 0));
  EXPECT_EQ(account.held(), 10u);
}

// Several threads, each with holders of its own, find the limit kept at every moment.
TEST(HostAccount, KeepsTheLimitWhenAllAskAtOnce) {
  constexpr Bytes kLimit = 1000;
  HostAccount account(kLimit);
  std::atomic<Bytes> granted{0};
  std::atomic<bool> exceeded{false};
  std::vector<std::thread> threads;
  for (unsigned seed = 1; seed <= 4; ++seed) {
    threads.emplace_back([&, seed] {
      std::mt19937 random(seed);
      Bytes own = 0;
      for (int i = 0; i < 20'000; ++i) {
        const Bytes wanted = random() % 600;
        // Counts no more than is had: what is given up is taken off before, what is had is added after.
        if (wanted < own) granted -= own - wanted;
        const bool done = account.change(own, wanted);
        if (wanted < own && !done) exceeded = true;
        if (wanted > own && done) exceeded = exceeded || (granted += wanted - own) > kLimit;
        if (done) own = wanted;
      }
      granted -= own;
      if (!account.change(own, 0)) exceeded = true;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_FALSE(exceeded);
  EXPECT_EQ(account.held(), 0u);
}

class PoolsOfDevices : public testing::Test {
 protected:
  static constexpr Bytes kLimit = 64 * kMiB;
  std::unique_ptr<HostPool> make() {
    std::unique_ptr<HostPool> pool;
    EXPECT_TRUE(HostPool::create(driver, kLimit, 16 * kMiB, &pool, -1, {.of_devices = &account}).ok());
    return pool;
  }
  void TearDown() override {
    EXPECT_EQ(account.held(), 0u);
    EXPECT_EQ(account.pinned(), 0u);
    EXPECT_EQ(fake.host_taken(), 0u);
    for (const std::string& error : fake.errors()) ADD_FAILURE() << error;
  }

  FakeDriver fake;
  Driver driver{fake.table()};
  HostAccount account{kLimit};
};

TEST_F(PoolsOfDevices, TakeTogetherNoMoreThanTheLimit) {
  const auto first = make(), second = make();
  std::vector<void*> held;
  while (void* const at = first->allocate_whole(8 * kMiB)) held.push_back(at);
  EXPECT_EQ(held.size(), 8u);
  EXPECT_EQ(second->allocate_whole(4 * kKiB), nullptr);
  first->free(held.back());
  first->trim();
  // The rest of the limit is less than a step.
  void* const at = second->allocate_whole(4 * kKiB);
  EXPECT_NE(at, nullptr);
  EXPECT_LE(first->taken_bytes() + second->taken_bytes(), kLimit);
  EXPECT_EQ(first->pinned_by_all(), first->taken_bytes() + second->taken_bytes());
  EXPECT_EQ(second->pinned_by_all(), first->pinned_by_all());
  first->validate();
  second->validate();
  held.pop_back();
  for (void* const one : held) first->free(one);
  second->free(at);
}

TEST_F(PoolsOfDevices, LeaveWhatIsClaimedToTheOneThatHasClaimedIt) {
  const auto first = make(), second = make();
  EXPECT_TRUE(first->claim(48 * kMiB));
  EXPECT_FALSE(second->claim(17 * kMiB));
  EXPECT_TRUE(second->claim(16 * kMiB));
  EXPECT_EQ(second->allocate_whole(17 * kMiB), nullptr);
  void* const at = first->allocate_whole(48 * kMiB);
  EXPECT_NE(at, nullptr) << "a claim is kept";
  EXPECT_EQ(account.held(), kLimit);
  first->free(at);
  first->trim();
  EXPECT_FALSE(second->claim(17 * kMiB)) << "also while nothing is taken";
  EXPECT_TRUE(first->claim(0));
  EXPECT_TRUE(second->claim(kLimit));
}

// Both limits, or neither, have an increase.
TEST_F(PoolsOfDevices, AreRefusedByEitherLimit) {
  std::string why;
  const std::string folder = testing::TempDir();
  const auto ledger = HostLedger::open(folder, 32 * kMiB, &why, "account-" + std::to_string(getpid()));
  ASSERT_NE(ledger, nullptr) << why;
  const SharedHostLimits both{.of_devices = &account, .of_processes = ledger.get()};
  EXPECT_FALSE(both.change(0, 33 * kMiB));
  EXPECT_EQ(account.held(), 0u);
  EXPECT_TRUE(both.change(0, 20 * kMiB));
  EXPECT_TRUE(account.change(0, 40 * kMiB));
  EXPECT_FALSE(both.change(20 * kMiB, 25 * kMiB));
  EXPECT_EQ(ledger->held(), 20 * kMiB);
  EXPECT_TRUE(both.change(20 * kMiB, 0));
  EXPECT_TRUE(account.change(40 * kMiB, 0));
  EXPECT_EQ(ledger->held(), 0u);
  unlink((folder + "/thermocline-host." + std::to_string(geteuid()) + ".account-" + std::to_string(getpid())).c_str());
}

}  // namespace
}  // namespace thermocline
