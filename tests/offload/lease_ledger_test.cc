// SPDX-License-Identifier: Apache-2.0
// Leases that processes write down for each other, who are killed and stopped at any point.
#include "offload/sharing/lease_ledger.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <functional>
#include <random>
#include <thread>
#include <vector>

#include "tests/support/seeds.h"

namespace thermocline {
namespace {

constexpr Bytes kDevice = 640 * kMiB;
constexpr Bytes kReserve = kDevice / 64;

std::uint64_t now_ns() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(time.tv_nsec);
}

class LeaseLedgerTest : public testing::Test {
 protected:
  LeaseLedgerTest() : folder_(std::filesystem::temp_directory_path() / ("leases_" + std::to_string(getpid()))) {
    std::filesystem::create_directories(folder_);
  }
  ~LeaseLedgerTest() override { std::filesystem::remove_all(folder_); }

  static LeaseLedger::Wish wish(Bytes minimum) {
    return {.device = "d0", .device_bytes = kDevice, .minimum = minimum, .weight = 100};
  }
  std::unique_ptr<LeaseLedger> open(Bytes minimum, std::string* why) const {
    return LeaseLedger::open(folder_, wish(minimum), why);
  }
  std::unique_ptr<LeaseLedger> open(Bytes minimum = 0) const {
    std::string why;
    auto ledger = open(minimum, &why);
    EXPECT_NE(ledger, nullptr) << why;
    return ledger;
  }
  std::filesystem::path file() const { return folder_ / ("thermocline-device." + std::to_string(geteuid()) + ".d0"); }

  // A process that holds a lease until it is killed.
  pid_t holder(Bytes minimum, Bytes lease) const {
    int done[2];
    EXPECT_EQ(pipe(done), 0);
    const pid_t child = fork();
    if (child == 0) {
      const auto ledger = open(minimum);
      const bool raised = ledger != nullptr && ledger->raise(lease);
      if (write(done[1], &raised, 1) != 1) _exit(1);
      for (;;) pause();
    }
    bool raised = false;
    EXPECT_EQ(read(done[0], &raised, 1), 1);
    EXPECT_TRUE(raised);
    close(done[0]);
    close(done[1]);
    return child;
  }
  static void end(pid_t child) {
    kill(child, SIGKILL);
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
  }
  static int status_of(pid_t child) {
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    return status;
  }

  std::filesystem::path folder_;
};

TEST_F(LeaseLedgerTest, LeasesAndUnusedMinimumsTogetherStayWithinTheDevice) {
  const auto own = open(100 * kMiB);
  const pid_t other = holder(200 * kMiB, 250 * kMiB);
  const Bytes left = kDevice - 2 * kReserve - 250 * kMiB;
  EXPECT_FALSE(own->raise(left + 1));
  EXPECT_EQ(own->lease(), 0u);
  EXPECT_TRUE(own->raise(left));
  own->lower(100 * kMiB);
  EXPECT_EQ(own->lease(), 100 * kMiB);
  LeaseView view;
  ASSERT_TRUE(own->look(now_ns(), &view));
  EXPECT_EQ(view.capacity, kDevice - 2 * kReserve);
  ASSERT_EQ(view.sharers.size(), 2u);
  EXPECT_EQ(view.sharers[1 - view.self].lease, 250 * kMiB);
  EXPECT_EQ(view.sharers[1 - view.self].minimum, 200 * kMiB);
  end(other);
}

TEST_F(LeaseLedgerTest, WhatAKilledProcessHeldReturnsToTheOthers) {
  const auto own = open();
  const pid_t other = holder(0, 500 * kMiB);
  EXPECT_FALSE(own->raise(600 * kMiB));
  end(other);
  EXPECT_TRUE(own->raise(kDevice - kReserve));
}

TEST_F(LeaseLedgerTest, OneThatIsStoppedKeepsItsLeaseAndStopsNobody) {
  const pid_t other = holder(0, 500 * kMiB);
  kill(other, SIGSTOP);
  const auto own = open(100 * kMiB);
  ASSERT_NE(own, nullptr);
  EXPECT_FALSE(own->raise(200 * kMiB));
  EXPECT_TRUE(own->raise(100 * kMiB));
  end(other);
}

TEST_F(LeaseLedgerTest, MinimumsBeyondTheDeviceAreCut) {
  const auto own = open(400 * kMiB);
  const pid_t other = fork();
  if (other == 0) {
    const auto ledger = open(400 * kMiB);
    _exit(ledger != nullptr && ledger->minimum() == kDevice - 2 * kReserve - 400 * kMiB ? 0 : 1);
  }
  EXPECT_EQ(status_of(other), 0);
}

TEST_F(LeaseLedgerTest, AChildOfAForkChangesNothing) {
  const auto own = open();
  ASSERT_TRUE(own->raise(600 * kMiB));
  const pid_t child = fork();
  if (child == 0) {
    own->lower(0);
    own->~LeaseLedger();
    _exit(0);
  }
  EXPECT_EQ(status_of(child), 0);
  const pid_t other = fork();
  if (other == 0) {
    const auto ledger = open();
    _exit(ledger != nullptr && !ledger->raise(100 * kMiB) ? 0 : 1);
  }
  EXPECT_EQ(status_of(other), 0);
}

TEST_F(LeaseLedgerTest, AFileThatWasRemovedOrClosedIsNotWrittenTo) {
  const auto own = open();
  ASSERT_TRUE(own->raise(100 * kMiB));
  std::filesystem::remove(file());
  EXPECT_FALSE(own->raise(200 * kMiB));
  EXPECT_FALSE(own->is_there());
  EXPECT_EQ(own->lease(), 100 * kMiB);

  // The program closes what it does not know, and gets the number for a file of its own.
  const pid_t child = fork();
  if (child == 0) {
    const auto ledger = open();
    for (int i = 3; i < 100; ++i) close(i);
    const std::string path = folder_ / "own";
    for (int i = 0; i < 40; ++i) static_cast<void>(::open(path.c_str(), O_RDWR | O_CREAT, 0600));
    static_cast<void>(ledger->raise(100 * kMiB));
    ledger->tell(1, 1, 1);
    _exit(ledger->is_there() ? 1 : 0);
  }
  EXPECT_EQ(status_of(child), 0);
  EXPECT_EQ(std::filesystem::file_size(folder_ / "own"), 0u);
}

TEST_F(LeaseLedgerTest, FoldersThatDoNotServeAreSaid) {
  std::string why;
  EXPECT_EQ(LeaseLedger::open(folder_ / "none", wish(0), &why), nullptr);
  EXPECT_NE(why.find("No such file"), std::string::npos) << why;
  std::filesystem::create_directory(file());
  EXPECT_EQ(open(0, &why), nullptr);
  EXPECT_NE(why.find("d0"), std::string::npos) << why;
  // Then all find it in the other folder.
  const auto other = folder_ / "other";
  std::filesystem::create_directory(other);
  chmod(other.c_str(), 0700);
  EXPECT_NE(LeaseLedger::open(folder_, wish(0), &why, other), nullptr) << why;
  std::filesystem::remove(file());
  std::ofstream(file()) << "something else, of more than eight bytes";
  EXPECT_EQ(open(0, &why), nullptr);
  EXPECT_NE(why.find("no ledger"), std::string::npos) << why;
}

// Nobody removes it: it would keep all later processes from sharing the device.
TEST_F(LeaseLedgerTest, AFileOfTheVersionBeforeIsBegunAnewOnceNobodyUsesIt) {
  std::string old(4096, '\x5a');
  old.replace(0, 8, "THCMLDL1");
  std::ofstream(file(), std::ios::binary) << old;
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t user = fork();
  if (user == 0) {
    const int held = ::open(file().c_str(), O_RDWR | O_CLOEXEC);
    struct flock lock {};
    lock.l_type = F_WRLCK;
    lock.l_whence = SEEK_SET;
    lock.l_start = 256;
    lock.l_len = 1;
    const char told = fcntl(held, F_SETLK, &lock) == 0 ? 1 : 0;
    if (write(ready[1], &told, 1) != 1) _exit(1);
    for (;;) pause();
  }
  char told = 0;
  ASSERT_EQ(read(ready[0], &told, 1), 1);
  EXPECT_EQ(told, 1);
  close(ready[0]);
  close(ready[1]);
  std::string why;
  EXPECT_EQ(open(0, &why), nullptr);
  EXPECT_NE(why.find("no ledger of this version"), std::string::npos) << why;
  end(user);
  const auto own = open(50 * kMiB);
  ASSERT_NE(own, nullptr);
  EXPECT_TRUE(own->raise(100 * kMiB));
}

TEST_F(LeaseLedgerTest, ProcessesThatBeginAFileOfTheVersionBeforeTogetherAllShareIt) {
  constexpr int kAtOnce = 6;
  auto* const ready = static_cast<std::atomic<int>*>(
      mmap(nullptr, sizeof(std::atomic<int>), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(static_cast<void*>(ready), MAP_FAILED);
  for (int round = 0; round < 20; ++round) {
    std::string old(4096, '\x5a');
    old.replace(0, 8, "THCMLDL1");
    std::ofstream(file(), std::ios::binary) << old;
    *ready = 0;
    std::vector<pid_t> children;
    for (int i = 0; i < kAtOnce; ++i) {
      children.push_back(fork());
      if (children.back() != 0) continue;
      for (++*ready; *ready < kAtOnce;) std::this_thread::yield();
      std::string why;
      const auto ledger = open(0, &why);
      if (ledger == nullptr) std::fprintf(stderr, "%s\n", why.c_str());
      // Nobody ends before all have begun.
      for (++*ready; *ready < 2 * kAtOnce;) std::this_thread::yield();
      _exit(ledger == nullptr ? 1 : 0);
    }
    for (const pid_t child : children) EXPECT_EQ(status_of(child), 0);
    std::filesystem::remove(file());
  }
  munmap(ready, sizeof *ready);
}

TEST_F(LeaseLedgerTest, AFileThatIsCutShortHasNoMoreToGive) {
  const auto own = open();
  ASSERT_TRUE(own->raise(100 * kMiB));
  std::filesystem::resize_file(file(), 0);
  EXPECT_FALSE(own->raise(200 * kMiB));
  EXPECT_EQ(own->lease(), 100 * kMiB);
}

TEST_F(LeaseLedgerTest, PeopleSeeWhoHoldsWhat) {
  const pid_t other = holder(50 * kMiB, 300 * kMiB);
  const std::vector<SharedDevice> devices = shared_devices(folder_);
  ASSERT_EQ(devices.size(), 1u);
  EXPECT_EQ(devices[0].device, "d0");
  ASSERT_EQ(devices[0].processes.size(), 1u);
  EXPECT_EQ(devices[0].processes[0].pid, other);
  EXPECT_EQ(devices[0].processes[0].lease, 300 * kMiB);
  EXPECT_EQ(devices[0].processes[0].minimum, 50 * kMiB);
  EXPECT_FALSE(devices[0].processes[0].command.empty());
  end(other);
  EXPECT_TRUE(shared_devices(folder_).empty());
}

// Processes that want more and less all the time, under the policy. What each may use stands in memory that all share:
// it rises after the lease and falls before it.
class Crowd {
 public:
  static constexpr std::size_t kProcesses = 4;
  static constexpr Bytes kMinimum = 64 * kMiB;

  struct Shared {
    std::array<std::atomic<Bytes>, kProcesses> held;
    std::array<std::atomic<std::uint64_t>, kProcesses> looks;
    std::atomic<std::uint64_t> broken_promises;
  };

  Crowd(std::function<std::unique_ptr<LeaseLedger>()> open, std::uint64_t seed)
      : open_(std::move(open)),
        random_(seed),
        shared_(static_cast<Shared*>(
            mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))) {
    for (std::size_t i = 0; i < kProcesses; ++i) start(i);
  }
  ~Crowd() {
    for (const pid_t one : pids_) kill_and_wait(one);
    munmap(shared_, sizeof(Shared));
  }
  Crowd(const Crowd&) = delete;
  Crowd& operator=(const Crowd&) = delete;

  // At an arbitrary moment all are stopped and looked at; one is killed, and another stays stopped for a while.
  void round() {
    const timespec pause{0, static_cast<long>(random_() % 2'000'000)};
    nanosleep(&pause, nullptr);
    for (const pid_t one : pids_) stop(one);
    Bytes sum = 0;
    for (const auto& held : shared_->held) sum += held.load();
    // For those that have come since others raised their leases, nothing was reserved then.
    EXPECT_LE(sum, kDevice - kReserve);
    EXPECT_EQ(shared_->broken_promises.load(), 0u);
    const std::size_t killed = random_() % kProcesses, stopped = random_() % kProcesses;
    kill_and_wait(pids_[killed]);
    shared_->held[killed] = 0;
    for (std::size_t i = 0; i < kProcesses; ++i) {
      if (i != killed && i != stopped) kill(pids_[i], SIGCONT);
    }
    start(killed);
    for (std::size_t i = 0; i < kProcesses; ++i) {
      EXPECT_TRUE((i == stopped && i != killed) || goes_on(i)) << "beside one that is stopped";
    }
    if (stopped != killed) kill(pids_[stopped], SIGCONT);
  }

 private:
  static void kill_and_wait(pid_t child) {
    kill(child, SIGKILL);
    int status = 0;
    while (waitpid(child, &status, 0) == child && !WIFSIGNALED(status) && !WIFEXITED(status)) {
    }
  }
  static void stop(pid_t child) {
    kill(child, SIGSTOP);
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, WUNTRACED), child);
    EXPECT_TRUE(WIFSTOPPED(status)) << "it ended by itself";
  }

  void start(std::size_t at) {
    const std::uint64_t seed = random_();
    pids_[at] = fork();
    if (pids_[at] == 0) want(at, seed);
  }

  [[noreturn]] void want(std::size_t at, std::uint64_t seed) {
    std::mt19937_64 random(seed);
    const auto ledger = open_();
    if (ledger == nullptr) _exit(1);
    bool had_minimum = false;
    for (;; ++shared_->looks[at]) {
      const bool is_active = random() % 4 != 0;
      if (random() % 8 == 0) {
        const Bytes demand = random() % kDevice;
        ledger->tell(demand, 0, is_active ? now_ns() + 50'000'000 : 0);
      }
      LeaseView view;
      if (!ledger->look(now_ns(), &view)) continue;
      const Bytes next = next_lease(view.capacity, view.sharers, view.self);
      if (next > ledger->lease()) {
        static_cast<void>(ledger->raise(next));
        shared_->held[at] = ledger->lease();
      } else {
        shared_->held[at] = next;
        ledger->lower(next);
      }
      had_minimum |= ledger->lease() >= ledger->minimum();
      if (had_minimum && ledger->lease() < ledger->minimum()) ++shared_->broken_promises;
    }
  }

  bool goes_on(std::size_t at) const {
    const std::uint64_t before = shared_->looks[at].load();
    for (int i = 0; i < 10'000; ++i) {
      if (shared_->looks[at].load() > before) return true;
      const timespec pause{0, 1'000'000};
      nanosleep(&pause, nullptr);
    }
    return false;
  }

  std::function<std::unique_ptr<LeaseLedger>()> open_;
  std::mt19937_64 random_;
  Shared* const shared_;
  std::array<pid_t, kProcesses> pids_{};
};

// THERMOCLINE_TEST_SEEDS=2500 kills a thousand.
TEST_F(LeaseLedgerTest, NothingLeaksWhereverProcessesAreKilledOrStopped) {
  {
    Crowd crowd([this] { return open(Crowd::kMinimum); }, 1);
    for (std::uint64_t i = 0; i < scaled_seeds(40) && !HasFailure(); ++i) crowd.round();
  }
  const auto own = open();
  EXPECT_TRUE(own->raise(kDevice - kReserve));
}

}  // namespace
}  // namespace thermocline
