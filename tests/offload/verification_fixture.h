// SPDX-License-Identifier: Apache-2.0
// An engine on the simulated device with real memory, and launches that may run again. The kernels are copies, in the
// program and when they run again, so that a test decides whether they give the same.
#pragma once

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

inline constexpr Bytes kSize = 4 * kDefaultPageBytes + 48, kHalf = 2 * kDefaultPageBytes;
inline constexpr StreamHandle kStream{};

class VerificationTest : public testing::Test, private Relauncher {
 protected:
  void start(Safety safety = Safety::kStrict, Bytes budget = 24 * kDefaultPageBytes,
             void (*change)(DriverTable*) = nullptr, bool annotate = false) {
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
    const EngineOptions options{.budget_bytes = budget,
                                .safety = safety,
                                .annotate = annotate,
                                .recompute = Recompute::kAuto,
                                .relauncher = this};
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
  // One launch with two outputs, all of both from the other buffer.
  void make_two(DeviceAddress second) {
    const std::array accesses{MemoryAccess{from_, kSize, Access::kRead}, MemoryAccess{to_, kSize, Access::kUnknown},
                              MemoryAccess{second, kSize, Access::kUnknown}};
    const std::array uses{OperandUse{.reads = true}, OperandUse{.writes = true}, OperandUse{.writes = true}};
    submit(accesses, {.id = 3, .may_run_again = true, .uses = uses, .trial = &trial_}, [&] {
      const Status first = driver_->copy_on_device(to_, from_, kSize, kStream);
      return first.ok() ? driver_->copy_on_device(second, from_, kSize, kStream) : first;
    });
  }
  // By another kernel, from what the first one has made.
  void make_next(DeviceAddress next) {
    const std::array accesses{MemoryAccess{to_, kSize, Access::kRead}, MemoryAccess{next, kSize, Access::kUnknown}};
    const std::array uses{OperandUse{.reads = true}, OperandUse{.writes = true}};
    submit(accesses, {.id = 4, .may_run_again = true, .uses = uses, .trial = &next_trial_},
           [&] { return driver_->copy_on_device(next, to_, kSize, kStream); });
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

  KernelTrial trial_{"copy"}, next_trial_{"next"};
  bool differs_ = false;  // when it runs again
  bool second_differs_ = false;
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
    if (id == 3) {
      const Status first = driver_->copy_on_device(at[1], at[0], kSize, stream);
      return first.ok() ? driver_->copy_on_device(at[2], second_differs_ ? other_ : at[0], kSize, stream) : first;
    }
    if (differs_) return driver_->copy_on_device(at[1], other_, kSize, stream);
    return driver_->copy_on_device(at[1], at[0], writes_less_ ? kHalf : kSize, stream);
  }
  void came_out_different(const RerunMismatch& mismatch) noexcept override { told_.push_back(mismatch); }
};

}  // namespace thermocline
