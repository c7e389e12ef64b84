// SPDX-License-Identifier: Apache-2.0
// Rehearsals, and digests of what is dropped and made again, on the simulated device with real memory. The kernels are
// copies, in the program and when they run again, so that a test decides whether they give the same.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "driver/page_size.h"
#include "driver/table.h"
#include "offload/engine/engine.h"
#include "offload/kernel_trial.h"
#include "offload/relauncher.h"
#include "tests/offload/fake_driver.h"
#include "trace/simulated_device.h"

namespace thermocline {
namespace {

constexpr Bytes kSize = 4 * kDefaultPageBytes + 48, kHalf = 2 * kDefaultPageBytes;
constexpr StreamHandle kStream{};

// Plans of all engines that counted on a kernel are out of date once it is refused.
TEST(KernelTrial, EachRefusalCountsOnceForTheProcess) {
  const std::uint64_t before = KernelTrial::refusals();
  KernelTrial trial("kernel");
  EXPECT_TRUE(trial.give_up());
  EXPECT_FALSE(trial.give_up());
  EXPECT_EQ(KernelTrial::refusals(), before + 1);
  EXPECT_TRUE(trial.differed());
  EXPECT_FALSE(trial.differed());
  EXPECT_EQ(KernelTrial::refusals(), before + 2);
}

class VerificationTest : public testing::Test, private Relauncher {
 protected:
  void start(Safety safety = Safety::kStrict, Bytes budget = 24 * kDefaultPageBytes,
             void (*change)(DriverTable*) = nullptr) {
    std::string why;
    SimulatedDeviceOptions simulated;
    simulated.library = THERMOCLINE_SIMULATED_CUDA;
    simulated.check = true;
    simulated.tagged = false;
    device_ = SimulatedDevice::open(simulated, &why);
    ASSERT_NE(device_, nullptr) << why;
    table_ = device_->driver().table();
    watch_launches(&table_);
    if (change != nullptr) change(&table_);
    driver_ = std::make_unique<Driver>(table_);
    const EngineOptions options{
        .budget_bytes = budget, .safety = safety, .recompute = Recompute::kAuto, .relauncher = this};
    ASSERT_TRUE(Engine::create(*driver_, options, &engine_).ok());
    engine_->set_report_handler([](const std::string&) {});
    ASSERT_TRUE(driver_->allocate_host(kSize, &pinned_).ok());
    std::memset(pinned_, 1, kSize);
    from_ = allocate();
    to_ = allocate();
    other_ = allocate();
    std::memset(pinned_, 5, kSize);
    for (const DeviceAddress at : {from_, to_, other_}) upload(at);
  }
  void TearDown() override {
    EXPECT_TRUE(driver_->synchronize_context().ok());
    engine_->validate();
    engine_.reset();
    EXPECT_TRUE(driver_->free_host(pinned_).ok());
    SimulatedStatistics statistics{};
    statistics.size = sizeof statistics;
    device_->control().statistics(&statistics);
    EXPECT_EQ(statistics.races, 0u);
  }

  DeviceAddress allocate() {
    DeviceAddress address;
    EXPECT_TRUE(engine_->allocate(kSize, std::nullopt, &address).ok());
    return address;
  }
  void synchronize() {
    ASSERT_TRUE(driver_->synchronize_context().ok());
    engine_->synchronized_all();
  }
  // Described, so that nothing else is accessed.
  void submit(std::span<const MemoryAccess> accesses, const RelaunchInfo& relaunch, const auto& run) {
    Operation operation = engine_->begin(kStream, accesses, {.kind = 8, .nanoseconds = 1000, .relaunch = &relaunch});
    ASSERT_TRUE(operation.status().ok());
    ASSERT_TRUE(run().ok());
    operation.commit();
    engine_->validate();
  }
  void upload(DeviceAddress at) {
    const std::array accesses{MemoryAccess{at, kSize, Access::kWrite}};
    const std::array uses{OperandUse{.writes = true}};
    submit(accesses, {.uses = uses}, [&] { return driver_->copy_to_device(at, pinned_, kSize, kStream); });
    synchronize();
  }
  unsigned char read(DeviceAddress at, Bytes offset = 0) {
    const std::array accesses{MemoryAccess{at, kSize, Access::kRead}};
    const std::array uses{OperandUse{.reads = true}};
    submit(accesses, {.uses = uses}, [&] { return driver_->copy_to_host(pinned_, at + offset, kHalf, kStream); });
    synchronize();
    return *static_cast<unsigned char*>(pinned_);
  }
  // A launch: all of one buffer from the other.
  void make() {
    const std::array accesses{MemoryAccess{from_, kSize, Access::kRead}, MemoryAccess{to_, kSize, Access::kUnknown}};
    const std::array uses{OperandUse{.reads = true}, OperandUse{.writes = true}};
    submit(accesses, {.id = 1, .may_run_again = true, .uses = uses, .trial = &trial_},
           [&] { return driver_->copy_on_device(to_, from_, kSize, kStream); });
  }
  // In place: the second half from the first.
  void update() {
    const std::array accesses{MemoryAccess{to_, kSize, Access::kUnknown}};
    const std::array uses{OperandUse{.reads = true, .writes = true}};
    submit(accesses, {.id = 2, .may_run_again = true, .uses = uses, .trial = &trial_},
           [&] { return driver_->copy_on_device(to_ + kHalf, to_, kHalf, kStream); });
  }
  void promote() {
    for (unsigned i = 0; i < KernelTrial::kEqualRehearsals + 2 && !trial_.is_promoted(); ++i) {
      make();
      synchronize();
    }
    read(other_);
    ASSERT_TRUE(trial_.is_promoted());
  }
  EngineStatistics statistics() const { return engine_->statistics(); }

  KernelTrial trial_{"copy"};
  bool differs_ = false;  // when it runs again
  bool writes_less_ = false;
  std::vector<RerunMismatch> told_;
  std::vector<DeviceAddress> ran_into_;
  DeviceAddress from_, to_, other_;
  void* pinned_ = nullptr;
  std::unique_ptr<SimulatedDevice> device_;
  DriverTable table_;
  std::unique_ptr<Driver> driver_;
  std::unique_ptr<Engine> engine_;

 private:
  Status relaunch(std::uint64_t id, StreamHandle stream, std::span<const DeviceAddress> at) override {
    ran_into_.push_back(at.back());
    if (id == 2) return driver_->copy_on_device(at[0] + kHalf, at[0], kHalf, stream);
    if (differs_) return driver_->copy_on_device(at[1], other_, kSize, stream);
    return driver_->copy_on_device(at[1], at[0], writes_less_ ? kHalf : kSize, stream);
  }
  void came_out_different(const RerunMismatch& mismatch) override { told_.push_back(mismatch); }
};

TEST_F(VerificationTest, WhatAKernelOnTrialMadeIsNotDropped) {
  start();
  for (unsigned i = 0; i < 2 * KernelTrial::kEqualRehearsals; ++i) {
    make();
    if (trial_.is_promoted()) break;
    EXPECT_FALSE(engine_->drop(to_).ok());
    synchronize();
  }
  EXPECT_TRUE(trial_.is_promoted());
  EXPECT_TRUE(engine_->drop(to_).ok());
  const EngineStatistics s = statistics();
  EXPECT_EQ(s.rehearsed_launches, KernelTrial::kEqualRehearsals);
  EXPECT_EQ(s.verified_results, KernelTrial::kEqualRehearsals);
  EXPECT_EQ(s.promoted_kernels, 1u);
  EXPECT_EQ(s.demoted_kernels + s.mismatched_results, 0u);
  EXPECT_EQ(s.recomputed_operations, 0u);
  EXPECT_EQ(trial_.reruns(), 0u);
  for (const DeviceAddress into : ran_into_) EXPECT_NE(into, to_);
}

TEST_F(VerificationTest, AKernelWhoseRehearsalDiffersNeverRunsAgain) {
  start();
  std::memset(pinned_, 9, kSize);
  upload(other_);
  differs_ = true;
  for (int i = 0; i < 6; ++i) {
    make();
    EXPECT_FALSE(engine_->drop(to_).ok());
    synchronize();
  }
  EXPECT_EQ(trial_.state(), KernelTrial::State::kDemoted);
  ASSERT_EQ(told_.size(), 1u) << "once of each kernel";
  EXPECT_EQ(told_[0].kernel, &trial_);
  EXPECT_FALSE(told_[0].in_use);
  EXPECT_EQ(statistics().demoted_kernels, 1u);
  EXPECT_EQ(read(to_), 5) << "the program has its own";
  const std::size_t runs = ran_into_.size();
  make();
  EXPECT_EQ(ran_into_.size(), runs);
}

// Scratch memory holds what others left there.
TEST_F(VerificationTest, AKernelThatLeavesSomeOfItsOutputIsFound) {
  start();
  writes_less_ = true;
  for (int i = 0; i < 4; ++i) {
    make();
    synchronize();
  }
  read(other_);
  EXPECT_EQ(trial_.state(), KernelTrial::State::kDemoted);
}

TEST_F(VerificationTest, WhatIsUpdatedInPlaceIsUpdatedOnce) {
  start();
  for (unsigned char value = 10; value < 16; ++value) {
    std::memset(pinned_, value, kSize);
    upload(to_);
    update();
    EXPECT_EQ(read(to_, kHalf), value);
  }
  EXPECT_TRUE(trial_.is_promoted());
  for (const DeviceAddress into : ran_into_) EXPECT_NE(into, to_);
  EXPECT_TRUE(told_.empty());
}

TEST_F(VerificationTest, WhatIsMadeAgainIsComparedWithWhatWasDropped) {
  start();
  promote();
  make();
  ASSERT_TRUE(engine_->drop(to_).ok());
  EXPECT_EQ(read(to_), 5);
  read(other_);
  EXPECT_EQ(statistics().verified_results, KernelTrial::kEqualRehearsals + 1);
  EXPECT_EQ(trial_.reruns(), 1u);
  EXPECT_TRUE(told_.empty());
}

TEST_F(VerificationTest, ADifferenceInUseIsReported) {
  start();
  promote();
  std::memset(pinned_, 9, kSize);
  upload(other_);
  make();
  ASSERT_TRUE(engine_->drop(to_).ok());
  differs_ = true;
  EXPECT_EQ(read(to_), 9);
  read(other_);
  ASSERT_EQ(told_.size(), 1u);
  EXPECT_TRUE(told_[0].in_use);
  EXPECT_EQ(told_[0].bytes, kSize);
  EXPECT_EQ(told_[0].kernel, &trial_);
  EXPECT_EQ(trial_.state(), KernelTrial::State::kDemoted);
  EXPECT_EQ(statistics().mismatched_results, 1u);
  EXPECT_EQ(statistics().demoted_kernels, 1u);
  make();
  EXPECT_FALSE(engine_->drop(to_).ok());
}

// Whatever made it is the only one that can make it again.
TEST_F(VerificationTest, WhatWasDroppedBeforeItsKernelWasDemotedIsMadeAgain) {
  start();
  promote();
  make();
  ASSERT_TRUE(engine_->drop(to_).ok());
  EXPECT_TRUE(trial_.differed());
  EXPECT_EQ(read(to_), 5);
  EXPECT_EQ(statistics().recomputed_operations, 1u);
}

TEST_F(VerificationTest, TrustingComparesNothingInUse) {
  start(Safety::kTrusting);
  promote();
  const std::uint64_t digests = statistics().digests;
  make();
  ASSERT_TRUE(engine_->drop(to_).ok());
  EXPECT_EQ(read(to_), 5);
  EXPECT_EQ(statistics().digests, digests);
  EXPECT_EQ(statistics().recomputed_operations, 1u);
}

TEST_F(VerificationTest, WhatIsOverwrittenIsNotCompared) {
  start();
  promote();
  make();
  ASSERT_TRUE(engine_->drop(to_).ok());
  std::memset(pinned_, 7, kSize);
  upload(to_);
  make();
  ASSERT_TRUE(engine_->drop(to_).ok());
  ASSERT_TRUE(engine_->free(to_, kStream).ok());
  read(other_);
  EXPECT_EQ(statistics().verified_results, KernelTrial::kEqualRehearsals);
  EXPECT_EQ(statistics().unverified_results, 0u);
  EXPECT_EQ(statistics().mismatched_results, 0u);
}

TEST_F(VerificationTest, WithoutDigestsNothingIsDropped) {
  start(Safety::kTrusting, 24 * kDefaultPageBytes, refuse_modules);
  for (int i = 0; i < 6; ++i) {
    make();
    EXPECT_FALSE(engine_->drop(to_).ok());
    synchronize();
  }
  EXPECT_EQ(trial_.state(), KernelTrial::State::kGivenUp);
  EXPECT_TRUE(ran_into_.empty());
  EXPECT_EQ(statistics().digests_unavailable, 1u);
}

// What is updated in place and the scratch memory for it are more than the budget. The program's operation runs even so.
TEST_F(VerificationTest, WhereThereIsNoRoomNothingIsRehearsed) {
  start(Safety::kStrict, 8 * kDefaultPageBytes);
  for (unsigned i = 0; i < (KernelTrial::kMostInVain + 1) * (KernelTrial::kLargestGap + 1); ++i) {
    update();
    EXPECT_EQ(read(to_), 5);
  }
  EXPECT_EQ(trial_.state(), KernelTrial::State::kGivenUp);
  EXPECT_TRUE(ran_into_.empty());
  EXPECT_EQ(statistics().rehearsed_launches, KernelTrial::kMostInVain);
  EXPECT_EQ(statistics().out_of_memory, 0u);
}

// A launch that returns success, and nothing has run: its records are missing.
TEST_F(VerificationTest, ALostDigestProvesNothing) {
  start();
  promote();
  make();
  ASSERT_TRUE(engine_->drop(to_).ok());
  launches.lost_from = launches.made;
  EXPECT_EQ(read(to_), 5);
  read(other_);
  EXPECT_EQ(statistics().unverified_results, 1u);
  EXPECT_TRUE(trial_.is_promoted());
  EXPECT_TRUE(told_.empty());
}

TEST_F(VerificationTest, WhileEverythingFitsNothingIsRehearsed) {
  start(Safety::kStrict, 64 * kDefaultPageBytes);
  for (int i = 0; i < 6; ++i) {
    make();
    synchronize();
  }
  EXPECT_EQ(statistics().rehearsed_launches, 0u);
  EXPECT_EQ(launches.made, 0u);
}

}  // namespace
}  // namespace thermocline
