// SPDX-License-Identifier: Apache-2.0
// The limit shared between processes: exact while they live, and released however they end.
#include "allocator/host_ledger.h"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include <gtest/gtest.h>

#include "allocator/host_pool.h"
#include "tests/allocator/fake_driver.h"
#include "tests/allocator/ledger_peer.h"

namespace thermocline {
namespace {

constexpr Bytes kLimit = 100;

class HostLedgerTest : public testing::Test {
 protected:
  HostLedgerTest() : folder_(std::filesystem::temp_directory_path() / ("ledger_" + std::to_string(getpid()))) {
    std::filesystem::create_directories(folder_);
  }
  ~HostLedgerTest() override { std::filesystem::remove_all(folder_); }
  std::filesystem::path file() const { return folder_ / ("thermocline-host." + std::to_string(geteuid())); }

  std::unique_ptr<HostLedger> open(Bytes limit = kLimit) {
    std::string why;
    std::unique_ptr<HostLedger> ledger = HostLedger::open(folder_, limit, &why);
    EXPECT_NE(ledger, nullptr) << why;
    return ledger;
  }

  std::filesystem::path folder_;
};

TEST_F(HostLedgerTest, AllTogetherHoldNoMoreThanTheLimit) {
  Peer first(folder_, kLimit), second(folder_, kLimit);
  EXPECT_TRUE(first.hold(60));
  EXPECT_FALSE(second.hold(41));
  EXPECT_TRUE(second.hold(40));
  EXPECT_FALSE(first.hold(61));
  const auto third = open();
  EXPECT_EQ(third->held_by_all(), 100u);
  EXPECT_FALSE(third->hold(1));
  EXPECT_TRUE(first.hold(10));
  EXPECT_TRUE(third->hold(50));
  EXPECT_EQ(third->held(), 50u);
  EXPECT_EQ(third->held_by_all(), 100u);
}

TEST_F(HostLedgerTest, WhatIsRefusedChangesNothing) {
  const auto ledger = open();
  EXPECT_TRUE(ledger->hold(70));
  EXPECT_FALSE(ledger->hold(101));
  EXPECT_FALSE(ledger->hold(~Bytes{0}));
  EXPECT_EQ(ledger->held(), 70u);
  Peer other(folder_, kLimit);
  EXPECT_FALSE(other.hold(31));
  EXPECT_TRUE(other.hold(30));
}

TEST_F(HostLedgerTest, EachKeepsToItsOwnLimit) {
  Peer generous(folder_, 200);
  const auto ledger = open(100);
  EXPECT_TRUE(generous.hold(150));
  EXPECT_FALSE(ledger->hold(1));
  EXPECT_TRUE(generous.hold(40));
  EXPECT_TRUE(ledger->hold(60));
}

TEST_F(HostLedgerTest, WhatAKilledProcessHeldIsGivenBackByThoseThatRemain) {
  const auto ledger = open();
  Peer killed(folder_, kLimit);
  EXPECT_TRUE(killed.hold(80));
  EXPECT_FALSE(ledger->hold(21));
  killed.kill();
  EXPECT_EQ(ledger->held_by_all(), 0u);
  EXPECT_TRUE(ledger->hold(100));
}

TEST_F(HostLedgerTest, WhatAProcessThatEndsHeldIsGivenBack) {
  const auto ledger = open();
  {
    Peer ended(folder_, kLimit);
    EXPECT_TRUE(ended.hold(100));
    EXPECT_FALSE(ledger->hold(1));
  }
  EXPECT_TRUE(ledger->hold(100));
}

TEST_F(HostLedgerTest, EntriesOfTheDeadAreUsedAgain) {
  for (std::size_t i = 0; i < HostLedger::kEntries + 20; ++i) {
    Peer killed(folder_, kLimit);
    ASSERT_TRUE(killed.hold(100)) << i;
    killed.kill();
  }
  EXPECT_EQ(std::filesystem::file_size(file()), 4096u);
}

TEST_F(HostLedgerTest, AChildOfAForkGivesNothingBack) {
  const auto ledger = open();
  EXPECT_TRUE(ledger->hold(90));
  const pid_t child = fork();
  if (child == 0) {
    ledger->~HostLedger();
    _exit(0);
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  Peer other(folder_, kLimit);
  EXPECT_FALSE(other.hold(11));
  EXPECT_TRUE(other.hold(10));
}

// More processes than cores, each increasing and decreasing its share a thousand times; after each grant the total is
// checked.
TEST_F(HostLedgerTest, NeverMoreThanTheLimitHoweverManyAskAtOnce) {
  std::vector<pid_t> children;
  for (unsigned seed = 1; seed <= 6; ++seed) {
    children.push_back(fork());
    if (children.back() != 0) continue;
    std::string why;
    const auto ledger = HostLedger::open(folder_, kLimit, &why);
    bool right = ledger != nullptr;
    unsigned number = seed, grants = 0;
    for (int turn = 0; right && turn < 1000; ++turn) {
      number = number * 1664525 + 1013904223;
      grants += ledger->hold((number >> 16) % 60) ? 1 : 0;
      right = ledger->held_by_all() <= kLimit;
    }
    _exit(right && grants > 0 ? 0 : 1);
  }
  for (const pid_t child : children) {
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(open()->held_by_all(), 0u);
}

TEST_F(HostLedgerTest, AFileThatIsNoneIsLeftAlone) {
  std::ofstream(file()) << std::string(5000, 'x');
  std::string why;
  EXPECT_EQ(HostLedger::open(folder_, kLimit, &why), nullptr);
  EXPECT_NE(why.find("no ledger of this version"), std::string::npos) << why;
  std::filesystem::remove(file());
  std::filesystem::create_symlink(folder_ / "elsewhere", file());
  EXPECT_EQ(HostLedger::open(folder_, kLimit, &why), nullptr);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "elsewhere"));
  EXPECT_EQ(HostLedger::open(folder_ / "nowhere", kLimit, &why), nullptr);
  EXPECT_NE(why.find("No such file"), std::string::npos) << why;
}

TEST_F(HostLedgerTest, IsTheOwnersAlone) {
  const auto old_mask = umask(0);
  const auto ledger = open();
  umask(old_mask);
  EXPECT_EQ(std::filesystem::status(file()).permissions(),
            std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
}

// Together with a process that holds 40 MiB of 100.
class SharingPoolTest : public HostLedgerTest {
 protected:
  SharingPoolTest() {
    EXPECT_TRUE(HostPool::create(driver, 0, 16 * kMiB, &pool, -1, {.of_processes = ledger.get()}).ok());
  }
  void TearDown() override {
    pool->validate();
    pool.reset();
    EXPECT_EQ(ledger->held(), 0u);
    EXPECT_EQ(fake.host_taken(), 0u);
    for (const std::string& error : fake.errors()) ADD_FAILURE() << error;
  }

  FakeDriver fake;
  Driver driver{fake.table()};
  std::unique_ptr<HostLedger> ledger = open(100 * kMiB);
  Peer other{folder_, 100 * kMiB};
  std::unique_ptr<HostPool> pool;
};

TEST_F(SharingPoolTest, APoolTakesWhatOthersLeave) {
  ASSERT_TRUE(other.hold(40 * kMiB));
  std::vector<void*> held;
  while (void* const at = pool->allocate(4 * kMiB)) held.push_back(at);
  EXPECT_EQ(held.size(), 15u);
  EXPECT_EQ(pool->taken_bytes(), 60 * kMiB);
  EXPECT_EQ(ledger->held(), 60 * kMiB);
  EXPECT_FALSE(other.hold(41 * kMiB));
  ASSERT_TRUE(other.hold(30 * kMiB));
  held.push_back(pool->allocate(4 * kMiB));
  EXPECT_NE(held.back(), nullptr) << "what another gives back can be had";
  pool->validate();
  for (void* at : held) pool->free(at);
  EXPECT_EQ(ledger->held(), pool->taken_bytes()) << "steps are kept";
  pool->trim();
  EXPECT_EQ(ledger->held(), 0u);
}

// One for each device of a process: the limit is of all of them together.
TEST_F(SharingPoolTest, PoolsOfSeveralDevicesKeepOneLimit) {
  ASSERT_TRUE(other.hold(40 * kMiB));
  std::unique_ptr<HostPool> second;
  ASSERT_TRUE(HostPool::create(driver, 0, 16 * kMiB, &second, -1, {.of_processes = ledger.get()}).ok());
  EXPECT_TRUE(pool->claim(40 * kMiB));
  EXPECT_FALSE(second->claim(21 * kMiB));
  EXPECT_TRUE(second->claim(20 * kMiB));
  EXPECT_EQ(ledger->held(), 60 * kMiB);
  EXPECT_FALSE(other.hold(41 * kMiB));
  EXPECT_TRUE(pool->claim(10 * kMiB));
  EXPECT_EQ(ledger->held(), 30 * kMiB);
  void* const taken = second->allocate(40 * kMiB);
  EXPECT_NE(taken, nullptr);
  second->free(taken);
  second->validate();
  second.reset();
  EXPECT_EQ(ledger->held(), 10 * kMiB) << "what one gives back the other keeps";
}

TEST_F(SharingPoolTest, WhatIsClaimedIsLeftToIt) {
  EXPECT_TRUE(pool->claim(70 * kMiB));
  EXPECT_FALSE(other.hold(31 * kMiB));
  ASSERT_TRUE(other.hold(30 * kMiB));
  EXPECT_FALSE(pool->claim(71 * kMiB));
  void* const at = pool->allocate(70 * kMiB);
  ASSERT_NE(at, nullptr);
  EXPECT_EQ(ledger->held(), 70 * kMiB) << "it was claimed";
  EXPECT_EQ(pool->allocate(kMiB), nullptr);
  pool->free(at);
  pool->trim();
  EXPECT_EQ(ledger->held(), 70 * kMiB) << "it still is";
  EXPECT_TRUE(pool->claim(0));
  EXPECT_TRUE(other.hold(100 * kMiB));
}

TEST_F(SharingPoolTest, WhatTheDriverRefusesIsNotHeld) {
  // A registration is tried in smaller and smaller sizes, twice.
  for (std::uint64_t n = 1; n <= 2; ++n) fake.fail("cuMemHostAlloc", n, CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(pool->allocate(16 * kMiB), nullptr);
  EXPECT_EQ(ledger->held(), 0u);
}

// Everybody may write to the folder, and files there are never removed by a process they are not meant for.
TEST_F(HostLedgerTest, ANameThatAnotherTookIsPassedOverByAll) {
  const std::string own = folder_ / "own";
  std::filesystem::create_directories(own);
  std::filesystem::permissions(own, std::filesystem::perms::owner_all);
  const std::filesystem::path victim = folder_ / "victim";
  std::ofstream(victim) << std::string(100, '\0');
  const auto squats = {+[](const char* name, const char* other) { return symlink(other, name); },
                       +[](const char* name, const char* other) { return link(other, name); },
                       +[](const char* name, const char*) { return mkfifo(name, 0600); },
                       +[](const char* name, const char*) { return mkdir(name, 0700); },
                       +[](const char* name, const char*) {
                         std::ofstream(name) << "";
                         return geteuid() == 0 ? chown(name, 54321, 54321) : symlink("/nowhere", name);
                       }};
  for (const auto squat : squats) {
    ASSERT_EQ(squat(file().c_str(), victim.c_str()) | 0, 0);
    std::string why;
    EXPECT_EQ(HostLedger::open(folder_, kLimit, &why), nullptr);
    EXPECT_NE(why.find(file().string() + ": it is no ledger of this user"), std::string::npos) << why;
    const auto ledger = HostLedger::open(folder_, kLimit, &why, "", own);
    ASSERT_NE(ledger, nullptr) << why;
    EXPECT_TRUE(ledger->hold(60));
    EXPECT_EQ(ledger->held_by_all(), 60u);
    std::filesystem::remove(file());
  }
  // A folder to which others have access is rejected too.
  std::filesystem::permissions(own, std::filesystem::perms::all);
  std::filesystem::create_symlink(victim, file());
  std::string why;
  EXPECT_EQ(HostLedger::open(folder_, kLimit, &why, "", own), nullptr);
  std::ifstream in(victim);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(in), {}), std::string(100, '\0'));
}

}  // namespace
}  // namespace thermocline
