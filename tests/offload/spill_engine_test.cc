// SPDX-License-Identifier: Apache-2.0
// Engines whose live bytes exceed budget and host limit together, with a spill file.
#include <array>
#include <random>
#include <regex>
#include <thread>

#include "driver/locks.h"
#include "offload/spill/disk_file.h"
#include "tests/offload/engine_fixture.h"
#include "tests/offload/memory_file.h"
#include "tests/support/seeds.h"

namespace thermocline {
namespace {

constexpr Bytes kBuffer = kPage;
constexpr Bytes kBudget = 2 * kBuffer + kPage / 2;
constexpr Bytes kHost = 4 * kBuffer;
constexpr int kBuffers = 24;
constexpr Bytes kDisk = 3 * kBuffers * kBuffer;

// Instrumented, each run through real memory takes seconds: where few seeds are wanted, the mode that programs run in is
// tried, and few of the calls that may fail.
const bool kFew = percent_of_seeds() < 100;
const std::vector<bool> kWaitsWithoutLock = kFew ? std::vector<bool>{true} : std::vector<bool>{false, true};
int every(int calls) { return kFew ? 4 * calls : calls; }

int problems_reading = 0, problems_writing = 0;
void note_problem(const SpillProblem& problem) { ++(problem.reading ? problems_reading : problems_writing); }

class SpillEngineTest : public EngineTest {
 protected:
  EngineOptions with_file(std::shared_ptr<SpillFile> file, bool waits_without_lock = false) {
    EngineOptions options{.budget_bytes = kBudget, .host_limit_bytes = kHost};
    file_ = std::move(file);
    options.spill_limit_bytes = 2 * kBuffers * kBuffer;
    options.spill_problem = &note_problem;
    options.waits_without_lock = waits_without_lock;
    return options;
  }
  // Real memory, as a file needs it.
  void open(const EngineOptions& options, std::optional<std::uint64_t> seed = {}) {
    TearDown();
    std::string why;
    SimulatedDeviceOptions simulated;
    simulated.library = THERMOCLINE_SIMULATED_CUDA;
    simulated.memory_bytes = kGiB;
    simulated.check = true;
    simulated.tagged = false;
    simulated.seed = seed;
    device_ = SimulatedDevice::open(simulated, &why);
    ASSERT_NE(device_, nullptr) << why;
    problems_reading = problems_writing = 0;
    ASSERT_TRUE(Engine::create(device_->driver(), options, &engine_, std::exchange(file_, nullptr)).ok());
    engine_->set_report_handler([](const std::string& report) { last_report() = report; });
    locks_are_checked.store(options.waits_without_lock);
  }
  void TearDown() override {
    locks_are_checked.store(false);
    if (engine_ != nullptr) EngineTest::TearDown();
  }
  static std::string& last_report() {
    static std::string text;
    return text;
  }

  std::vector<DeviceAddress> allocate_all(int count = kBuffers) {
    std::vector<DeviceAddress> all;
    for (int i = 0; i < count; ++i) all.push_back(allocate(kBuffer));
    return all;
  }
  // The same for the same `seed`, wherever the buffers are: reads, writes and both, of one buffer or two.
  void run(const std::vector<DeviceAddress>& all, std::uint32_t seed, int operations = 100) {
    std::mt19937 random(seed);
    for (const DeviceAddress one : all) ASSERT_TRUE(perform({{one, kBuffer}}, Access::kWrite).ok());
    for (int i = 0; i < operations; ++i) {
      const DeviceAddress a = all[random() % all.size()], b = all[random() % all.size()];
      const Access access = std::array{Access::kRead, Access::kWrite, Access::kUnknown}[random() % 3];
      Operands operands{{a, kBuffer}};
      if (a.value != b.value && random() % 2 == 0) operands.emplace_back(b, kBuffer);
      ASSERT_TRUE(perform(operands, access).ok()) << "operation " << i;
    }
    for (const DeviceAddress one : all) ASSERT_TRUE(perform({{one, kBuffer}}, Access::kRead).ok());
  }
  // Once more, if the disk failed.
  Status perform(const Operands& operands, Access access) {
    const Status status = operate(operands, access);
    return tries_again_ && status == Status::operating_system() ? operate(operands, access) : status;
  }
  bool tries_again_ = false;
  std::shared_ptr<SpillFile> file_;  // of the next engine
  std::uint64_t expected(std::uint32_t seed) {
    open({});
    const auto all = allocate_all();
    run(all, seed);
    return checksum();
  }
};

TEST_F(SpillEngineTest, WhatExceedsDeviceAndHostTogetherRunsWithAFileAndGivesTheSame) {
  const std::uint64_t same = expected(1);
  for (const PolicyEntry* const policy : {kLearnedPolicy, kReactivePolicy, kLruPolicy}) {
    if (kFew && policy != kLearnedPolicy) continue;
    for (const bool waits_without_lock : kWaitsWithoutLock) {
      for (const Safety safety : {Safety::kStrict, Safety::kTrusting}) {
        EngineOptions options = with_file(std::make_shared<MemoryFile>(kDisk), waits_without_lock);
        options.policy = policy;
        options.safety = safety;
        open(options);
        const auto all = allocate_all();
        run(all, 1);
        EXPECT_EQ(checksum(), same) << policy->name << (waits_without_lock ? ", without the lock" : "")
                                    << (safety == Safety::kTrusting ? ", trusting" : "");
        const EngineStatistics now = engine_->statistics();
        EXPECT_GT(now.spill_written_bytes, 0u);
        EXPECT_GT(now.spill_read_bytes, 0u);
        EXPECT_GT(now.spilled_bytes, 0u);
        EXPECT_LE(now.peak_host_bytes, kHost);
        EXPECT_EQ(now.out_of_memory, 0u);
        for (const DeviceAddress one : all) ASSERT_TRUE(engine_->free(one, std::nullopt).ok());
        EXPECT_TRUE(device_->driver().synchronize_context().ok());
        ASSERT_TRUE(engine_->trim().ok());
        EXPECT_EQ(engine_->statistics().spilled_bytes, 0u);
      }
    }
  }
}

TEST_F(SpillEngineTest, WithoutAFileItIsRefused) {
  open({.budget_bytes = kBudget, .host_limit_bytes = kHost});
  DeviceAddress address;
  int granted = 0;
  while (granted < kBuffers && engine_->allocate(kBuffer, std::nullopt, &address).ok()) ++granted;
  EXPECT_EQ(granted, 4) << "as many as the host holds";
  EXPECT_NE(last_report().find("host_spill = "), std::string::npos) << last_report();
}

TEST_F(SpillEngineTest, AnyOrderOfTheDeviceGivesTheSame) {
  const std::uint64_t same = expected(2);
  for (const std::uint64_t seed : test_seeds(6)) {
    open(with_file(std::make_shared<MemoryFile>(kDisk), seed % 2 == 1), seed);
    const auto all = allocate_all();
    run(all, 2);
    EXPECT_EQ(checksum(), same) << "order " << seed;
  }
}

// A copy that can not be written stays on the host. What is refused then is refused before anything is submitted.
TEST_F(SpillEngineTest, AWriteThatFailsLosesNothing) {
  const std::uint64_t same = expected(3);
  for (const bool waits_without_lock : kWaitsWithoutLock) {
    for (int nth = 1; nth <= 40; nth += every(5)) {
      auto file = std::make_shared<MemoryFile>(kDisk);
      open(with_file(file, waits_without_lock));
      const auto all = allocate_all();
      file->fail_write_at = nth;
      run(all, 3);
      EXPECT_EQ(checksum(), same) << "write " << nth;
      EXPECT_EQ(problems_reading, 0);
      EXPECT_EQ(problems_writing, file->writes >= nth ? 1 : 0);
      EXPECT_EQ(engine_->statistics().failed_spill_writes, static_cast<unsigned>(problems_writing));
    }
  }
}

// The disk says that it is full, although it promised room: operations are refused, and none of what was done is lost.
TEST_F(SpillEngineTest, ADiskThatIsFullAfterAllRefusesAndLosesNothing) {
  for (const bool waits_without_lock : kWaitsWithoutLock) {
    auto file = std::make_shared<MemoryFile>(kDisk);
    file->error = ENOSPC;
    open(with_file(file, waits_without_lock));
    const auto all = allocate_all();
    for (const DeviceAddress one : all) ASSERT_TRUE(operate({{one, kBuffer}}, Access::kWrite).ok());
    file->fail_all_from = file->writes + 3;
    std::vector<bool> done;
    const auto attempt = [&](const std::vector<DeviceAddress>& buffers, bool repeats) {
      std::mt19937 random(4);
      for (std::size_t i = 0; i < 200; ++i) {
        const DeviceAddress one = buffers[random() % buffers.size()];
        if (repeats && !done[i]) continue;
        const Status status = operate({{one, kBuffer}});
        EXPECT_TRUE(status.ok() || status.is_out_of_memory()) << status.code();
        if (!repeats) done.push_back(status.ok());
      }
    };
    attempt(all, false);
    EXPECT_GT(std::ranges::count(done, false), 0);
    EXPECT_GT(std::ranges::count(done, true), 10);
    EXPECT_GT(engine_->statistics().spill_full, 0u);
    EXPECT_EQ(engine_->statistics().failed_spill_writes, 0u);
    const std::uint64_t found = checksum();
    open({});
    const auto again = allocate_all();
    for (const DeviceAddress one : again) ASSERT_TRUE(operate({{one, kBuffer}}, Access::kWrite).ok());
    attempt(again, true);
    EXPECT_EQ(checksum(), found);
  }
}

TEST_F(SpillEngineTest, AReadThatFailsFailsTheOperationAndIsTriedAgain) {
  const std::uint64_t same = expected(5);
  for (const bool waits_without_lock : kWaitsWithoutLock) {
    for (int nth = 1; nth <= 30; nth += every(6)) {
      auto file = std::make_shared<MemoryFile>(kDisk);
      open(with_file(file, waits_without_lock));
      const auto all = allocate_all();
      file->fail_read_at = nth;
      tries_again_ = true;
      run(all, 5);
      tries_again_ = false;
      EXPECT_EQ(checksum(), same) << "read " << nth;
      EXPECT_EQ(problems_reading, 1);
      EXPECT_EQ(engine_->statistics().failed_spill_reads, 1u);
    }
  }
}

TEST_F(SpillEngineTest, WhatComesBackOtherThanItWentIsNeverUsed) {
  for (const bool waits_without_lock : kWaitsWithoutLock) {
    auto file = std::make_shared<MemoryFile>(kDisk);
    open(with_file(file, waits_without_lock));
    const auto all = allocate_all();
    for (const DeviceAddress one : all) ASSERT_TRUE(operate({{one, kBuffer}}, Access::kWrite).ok());
    ASSERT_GT(engine_->statistics().spilled_bytes, 0u);
    file->corrupts = true;
    int failed = 0;
    for (const DeviceAddress one : all) {
      const Status status = operate({{one, kBuffer}}, Access::kRead);
      if (status.ok()) continue;
      EXPECT_EQ(status, Status::operating_system());
      ++failed;
      EXPECT_EQ(operate({{one, kBuffer}}, Access::kRead), Status::operating_system()) << "not by asking again either";
      engine_->validate();
    }
    EXPECT_GT(failed, 0);
    EXPECT_GE(problems_reading, 2 * failed);
    file->corrupts = false;
    for (const DeviceAddress one : all) EXPECT_TRUE(operate({{one, kBuffer}}, Access::kRead).ok()) << "it was the wire";
  }
}

TEST_F(SpillEngineTest, WhatIsOverwrittenOrFreedNeedNotBeRead) {
  auto file = std::make_shared<MemoryFile>(kDisk);
  open(with_file(file));
  const auto all = allocate_all();
  for (const DeviceAddress one : all) ASSERT_TRUE(operate({{one, kBuffer}}, Access::kWrite).ok());
  ASSERT_GT(engine_->statistics().spilled_bytes, 8 * kBuffer);
  const int reads = file->reads;
  for (const DeviceAddress one : all)
    ASSERT_TRUE(submit({{one, kBuffer}}, Access::kWrite, {.kind = 7, .overwrites = true}, std::nan("")).ok());
  EXPECT_EQ(file->reads, reads);
  for (const DeviceAddress one : all) ASSERT_TRUE(engine_->free(one, std::nullopt).ok());
  EXPECT_EQ(file->reads, reads);
  engine_->validate();
}

// Written once, however often it is read.
TEST_F(SpillEngineTest, WhatIsOnlyReadIsNotWrittenAgain) {
  auto file = std::make_shared<MemoryFile>(kDisk);
  EngineOptions options = with_file(file);
  options.policy = kLruPolicy;
  open(options);
  const auto all = allocate_all(12);
  for (const DeviceAddress one : all) ASSERT_TRUE(operate({{one, kBuffer}}, Access::kWrite).ok());
  for (int round = 0; round < 2; ++round) {
    for (const DeviceAddress one : all) ASSERT_TRUE(operate({{one, kBuffer}}, Access::kRead).ok());
  }
  const int writes = file->writes;
  for (int round = 0; round < 4; ++round) {
    for (const DeviceAddress one : all) ASSERT_TRUE(operate({{one, kBuffer}}, Access::kRead).ok());
  }
  EXPECT_LE(file->writes - writes, 12) << "at most what was never there before";
}

TEST_F(SpillEngineTest, OthersHaveTheLockWhileAnOperationWaitsForTheFile) {
  auto file = std::make_shared<MemoryFile>(kDisk);
  open(with_file(file, true));
  const auto all = allocate_all();
  for (const DeviceAddress one : all) ASSERT_TRUE(operate({{one, kBuffer}}, Access::kWrite).ok());
  const auto spilled = std::ranges::find_if(all, [this](DeviceAddress one) { return !engine_->find(one)->resident; });
  ASSERT_NE(spilled, all.end());
  file->hold();
  std::thread other([&] {
    // While the operation below waits, or before it begins: the lock is free.
    for (int i = 0; i < 50; ++i) engine_->validate();
    file->release();
  });
  for (const DeviceAddress one : all) ASSERT_TRUE(operate({{one, kBuffer}}, Access::kRead).ok());
  other.join();
}

TEST_F(SpillEngineTest, ASleepingProgramGoesToTheFileAndComesBack) {
  const std::uint64_t same = expected(6);
  for (const bool waits_without_lock : kWaitsWithoutLock) {
    EngineOptions options = with_file(std::make_shared<MemoryFile>(kDisk), waits_without_lock);
    options.budget_bytes = 12 * kBuffer;
    open(options);
    const auto all = allocate_all();
    run(all, 6);
    SleepReport report;
    ASSERT_TRUE(engine_->sleep({.waits = true}, &report).ok());
    EXPECT_EQ(report.no_host_bytes, 0u);
    EXPECT_EQ(report.device_bytes, 0u);
    engine_->validate();
    ASSERT_TRUE(engine_->wake({}, &report).ok());
    engine_->validate();
    EXPECT_GT(engine_->statistics().device_bytes, 8 * kBuffer) << "as much as fits is back";
    EXPECT_EQ(checksum(), same);
  }
}

// Contents in the file pass through host memory: contents on the host return to the device to make room for them.
TEST_F(SpillEngineTest, WithHostAndFileFullAndRoomOnTheDeviceAllComesBack) {
  for (const auto& [waits_without_lock, wakes] :
       {std::pair{false, false}, std::pair{false, true}, std::pair{true, false}, std::pair{true, true}}) {
    EngineOptions options = with_file(std::make_shared<MemoryFile>(kDisk), waits_without_lock);
    options.policy = kLruPolicy;
    options.budget_bytes = 12 * kBuffer;
    options.spill_limit_bytes = 2 * kBuffer;
    open(options);
    const auto all = allocate_all(10);
    for (const DeviceAddress one : all) ASSERT_TRUE(operate({{one, kBuffer}}, Access::kWrite).ok());
    SleepReport report;
    ASSERT_TRUE(engine_->sleep({.waits = true}, &report).ok());
    EXPECT_EQ(engine_->statistics().spilled_bytes, 2 * kBuffer);
    EXPECT_EQ(report.no_host_bytes, 4 * kBuffer) << "four are on the host and two in the file";
    if (wakes) {
      ASSERT_TRUE(engine_->wake({}, &report).ok());
      EXPECT_EQ(report.asleep_bytes, 0u);
      engine_->validate();
    }
    for (const DeviceAddress one : all) EXPECT_TRUE(operate({{one, kBuffer}}, Access::kRead).ok());
  }
}

// A copy that is dropped from the host for others may belong to a unit that was chosen for eviction.
TEST_F(SpillEngineTest, WhatIsChosenToLeaveAndAccessedGivesUpItsCopy) {
  EngineOptions options = with_file(std::make_shared<MemoryFile>(kDisk));
  options.host_limit_bytes = 3 * kBuffer;
  options.budget_bytes = 4 * kBuffer;
  options.spill_limit_bytes = kBuffer;
  open(options);
  const auto all = allocate_all(4);
  for (int round = 0; round < 4; ++round) {
    for (const DeviceAddress one : all) {
      ASSERT_TRUE(operate({{one, kBuffer}}).ok());
      static_cast<void>(engine_->evict(one));
      engine_->validate();
    }
    ASSERT_TRUE(operate({{all[0], kBuffer}, {all[1], kBuffer}, {all[2], kBuffer}}, Access::kRead).ok());
  }
}

TEST_F(SpillEngineTest, TheAdviceOfAReportWorks) {
  open({.budget_bytes = kBudget, .host_limit_bytes = kHost});
  DeviceAddress address;
  while (engine_->allocate(kBuffer, std::nullopt, &address).ok()) {
  }
  std::smatch found;
  const std::string report = last_report();
  ASSERT_TRUE(std::regex_search(report, found, std::regex("host_spill = .* with ([0-9]+)MiB free"))) << report;
  EngineOptions options = with_file(std::make_shared<MemoryFile>(kDisk));
  options.spill_limit_bytes = spill_limit_for(std::stoull(found[1]) * kMiB);
  open(options);
  run(allocate_all(5), 1);
  EXPECT_EQ(engine_->statistics().out_of_memory, 0u);
  // And the one of an engine whose file is too small.
  while (engine_->allocate(kBuffer, std::nullopt, &address).ok()) {
  }
  const std::string next = last_report();
  ASSERT_TRUE(std::regex_search(next, found, std::regex("host_spill_limit = \"([0-9]+)MiB\""))) << next;
  const auto live = static_cast<int>(engine_->statistics().live_buffers);
  options.spill_limit_bytes = std::stoull(found[1]) * kMiB;
  file_ = std::make_shared<MemoryFile>(kDisk);
  open(options);
  run(allocate_all(live + 1), 1);
  EXPECT_EQ(engine_->statistics().out_of_memory, 0u);
}

TEST_F(SpillEngineTest, AHostLimitThroughWhichNothingPassesIsSaid) {
  EngineOptions options = with_file(std::make_shared<MemoryFile>(kDisk));
  options.host_limit_bytes = 2 * kBuffer;
  open(options);
  DeviceAddress address;
  while (engine_->allocate(kBuffer, std::nullopt, &address).ok()) {
  }
  std::smatch found;
  const std::string report = last_report();
  ASSERT_TRUE(std::regex_search(report, found, std::regex("host_limit = \"([0-9]+)MiB\""))) << report;
  const auto live = static_cast<int>(engine_->statistics().live_buffers);
  options.host_limit_bytes = std::stoull(found[1]) * kMiB;
  EXPECT_EQ(options.host_limit_bytes, 3 * kBuffer);
  file_ = std::make_shared<MemoryFile>(kDisk);
  open(options);
  run(allocate_all(live + 1), 1);
}

TEST_F(SpillEngineTest, ADiskWithoutRoomRefusesTheAllocationAndNotTheLaunch) {
  EngineOptions options = with_file(std::make_shared<MemoryFile>(8 * kBuffer));
  open(options);
  DeviceAddress address;
  std::vector<DeviceAddress> all;
  while (engine_->allocate(kBuffer, std::nullopt, &address).ok()) all.push_back(address);
  EXPECT_LT(all.size(), 12u);
  EXPECT_GE(all.size(), 4u);
  EXPECT_NE(last_report().find("disk"), std::string::npos) << last_report();
  run(all, 1);
}

}  // namespace
}  // namespace thermocline
