// SPDX-License-Identifier: Apache-2.0
// A launch counts as one that was examined before exactly if everything is the same on which a finding about it depends.
#include "hooks/relaunch/examined_launches.h"

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <optional>
#include <string>

#include "hooks/relaunch/kernel_codes.h"
#include "hooks/relaunch/known_launch.h"
#include "hooks/relaunch/launches.h"
#include "hooks/runtime/engines.h"
#include "offload/engine/engine.h"
#include "offload/policies.h"
#include "tests/allocator/fake_driver.h"

namespace thermocline {
namespace {

// Copies `n` numbers, and adds the seed to each.
std::string adding(const std::string& type) {
  return ".version 9.0\n.target sm_75\n.address_size 64\n.visible .entry k(\n"
         ".param .u64 k_param_0, .param .u64 k_param_1, .param .u32 k_param_2, .param .u32 k_param_3)\n{\n"
         ".reg .pred %p<2>; .reg .b32 %r<9>; .reg .b64 %rd<8>;\n"
         "ld.param.u64 %rd1, [k_param_0]; ld.param.u64 %rd2, [k_param_1];\n"
         "ld.param.u32 %r5, [k_param_2]; ld.param.u32 %r6, [k_param_3];\n"
         "mov.u32 %r3, %ctaid.x; mov.u32 %r4, %ntid.x; mov.u32 %r2, %tid.x; mad.lo.s32 %r1, %r3, %r4, %r2;\n"
         "setp.ge.s32 %p1, %r1, %r5; @%p1 bra $END;\n"
         "cvta.to.global.u64 %rd3, %rd1; mul.wide.s32 %rd4, %r1, 4; add.s64 %rd5, %rd3, %rd4;\n"
         "cvta.to.global.u64 %rd6, %rd2; add.s64 %rd7, %rd6, %rd4;\n"
         "ld.global." +
         type + " %r7, [%rd5];\nadd.s32 %r8, %r7, %r6;\nst.global." + type + " [%rd7], %r8;\n$END: ret;\n}\n";
}

class ExaminedLaunchesTest : public testing::Test {
 protected:
  static constexpr std::uint32_t kNumbers = 1 << 20;
  static constexpr Bytes kBytes = kNumbers * 4;

  struct Given {
    DeviceAddress from, to;
    std::uint32_t n = kNumbers, seed = 1;
    unsigned grid = kNumbers / 256, shared_bytes = 0;
    bool is_special = false;
  };

  void start(Recompute recompute) {
    fake_.allow_aliases = true;
    EngineOptions options;
    options.budget_bytes = 256 * kMiB;
    options.policy = kLearnedPolicy;
    options.recompute = recompute;
    options.relauncher = &launches();
    options.waits_without_lock = false;
    ASSERT_TRUE(Engine::create(driver_, options, &engine_).ok());
    active_ = {.engine = engine_.get(),
               .context = nullptr,
               .device = 0,
               .range = {engine_->range_begin(), engine_->range_bytes()}};
    engines_ = EngineSet().with(active_);
    load("u32");
    given_ = {.from = allocate(), .to = allocate()};
  }
  void TearDown() override {
    kernel_codes().change();
    if (engine_ != nullptr) engine_->validate();
  }

  void load(const std::string& type) {
    text_ = adding(type);
    kernel_codes().loaded(&module_, text_.c_str(), true);
    kernel_codes().found(function(), &module_, "k");
  }
  CUfunction function() { return reinterpret_cast<CUfunction>(&function_); }
  DeviceAddress allocate(Bytes bytes = kBytes) {
    DeviceAddress address;
    EXPECT_TRUE(engine_->allocate(bytes, StreamHandle{}, &address).ok());
    return address;
  }

  // The answer about the launch.
  RelaunchInfo look_at(Given given) {
    void* const parameters[] = {&given.from, &given.to, &given.n, &given.seed};
    const LaunchedKernel kernel{.function = function(),
                                .name = "k",
                                .layout = &layout_,
                                .grid = {given.grid, 1, 1},
                                .block = {256, 1, 1},
                                .shared_bytes = given.shared_bytes,
                                .is_special = given.is_special,
                                .arguments = {.parameters = parameters, .extra = nullptr}};
    AccessList accesses;
    EXPECT_TRUE(scan_arguments(&layout_, kernel.arguments, engines_.hull(), &accesses));
    const KnownLaunch known(engines_, kernel, 7, LaunchAskedBy::kEngine, &accesses);
    EXPECT_NE(known.info(), nullptr);
    if (known.info() == nullptr) return {};
    RelaunchInfo info = *known.info();
    info.uses = {};
    return info;
  }
  bool comes_again(const Given& given) { return look_at(given).same_as != 0; }

  FakeDriver fake_;
  Driver driver_{fake_.table()};
  std::unique_ptr<Engine> engine_;
  ActiveEngine active_;
  EngineSet engines_;
  const ParameterLayout layout_ = {{0, 8}, {8, 8}, {16, 4}, {20, 4}};
  std::string text_;
  char module_ = 0, function_ = 0;
  Given given_;
};

TEST_F(ExaminedLaunchesTest, WithAnotherSeedItIsTheSameAndRunsAgainWithItsOwn) {
  start(Recompute::kAuto);
  const RelaunchInfo first = look_at(given_);
  EXPECT_EQ(first.same_as, 0u);
  EXPECT_TRUE(first.may_run_again);
  const RelaunchInfo second = look_at(given_);
  EXPECT_NE(second.same_as, 0u);
  EXPECT_TRUE(second.may_run_again);
  EXPECT_EQ(second.id, first.id) << "one copy of its parameters is enough";
  Given other = given_;
  other.seed = 2;
  const RelaunchInfo third = look_at(other);
  EXPECT_EQ(third.same_as, second.same_as);
  EXPECT_NE(third.id, second.id);
}

TEST_F(ExaminedLaunchesTest, WithAnotherSizeShapeOrAttributeItIsAnother) {
  start(Recompute::kAuto);
  std::array<Given, 4> others{given_, given_, given_, given_};
  others[0].n = kNumbers - 1;
  others[1].grid *= 2;
  others[2].shared_bytes = 16;
  others[3].is_special = true;
  for (const Given& other : others) {
    look_at(given_);
    ASSERT_TRUE(comes_again(given_));
    EXPECT_FALSE(comes_again(other)) << &other - others.data();
  }
}

TEST_F(ExaminedLaunchesTest, OnceAnyBufferComesOrGoesItIsExaminedAgain) {
  start(Recompute::kAuto);
  const DeviceAddress other = allocate(3 * kMiB);
  EXPECT_FALSE(comes_again(given_));
  ASSERT_TRUE(comes_again(given_));
  ASSERT_TRUE(engine_->free(other, StreamHandle{}).ok());
  EXPECT_FALSE(comes_again(given_)) << "it could have been one that ends where another begins";
  ASSERT_TRUE(comes_again(given_));
  allocate(5 * kMiB);
  EXPECT_FALSE(comes_again(given_));
  ASSERT_TRUE(comes_again(given_));
  // A larger buffer where one of them was.
  ASSERT_TRUE(engine_->free(given_.to, StreamHandle{}).ok());
  given_.to = allocate(2 * kBytes);
  EXPECT_FALSE(comes_again(given_));
}

TEST_F(ExaminedLaunchesTest, OtherCodeOfTheSameHandleIsExamined) {
  start(Recompute::kAuto);
  look_at(given_);
  const RelaunchInfo before = look_at(given_);
  ASSERT_NE(before.same_as, 0u);
  kernel_codes().change();
  launches().forget_functions();
  kernel_codes().unloaded(&module_);
  load("b32");
  const RelaunchInfo after = look_at(given_);
  EXPECT_EQ(after.same_as, 0u);
  EXPECT_NE(after.trial, before.trial);
  EXPECT_TRUE(launches().stays(after.id));
}

// Its buffers may have changed since, and nothing would tell.
TEST_F(ExaminedLaunchesTest, WhereTheEngineNotesNoPlacementsNothingIsKept) {
  start(Recompute::kOff);
  ASSERT_EQ(engine_->placement(), 0u);
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(comes_again(given_));
  ASSERT_TRUE(engine_->free(given_.to, StreamHandle{}).ok());
  given_.to = allocate(2 * kBytes);
  EXPECT_FALSE(comes_again(given_));
}

// Another module was unloaded while the launch was looked up.
TEST_F(ExaminedLaunchesTest, AnIdThatWasForgottenIsNotGivenOutAgain) {
  start(Recompute::kAuto);
  look_at(given_);
  const std::uint64_t before = look_at(given_).id;
  EXPECT_TRUE(launches().stays(before));
  launches().forget_functions();
  EXPECT_FALSE(launches().stays(before));
  const RelaunchInfo after = look_at(given_);
  EXPECT_NE(after.same_as, 0u);
  EXPECT_NE(after.id, before);
  EXPECT_TRUE(launches().stays(after.id));
}

}  // namespace
}  // namespace thermocline
