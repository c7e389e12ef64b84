// SPDX-License-Identifier: Apache-2.0
// The table of kernels has a row for each kernel of the program, however often its code is loaded.
#include "hooks/relaunch/kernel_codes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>

namespace thermocline {
namespace {

std::string copying(const std::string& condition) {
  return ".version 9.0\n.target sm_75\n.address_size 64\n.visible .entry k(\n"
         ".param .u64 k_param_0, .param .u64 k_param_1)\n{\n"
         ".reg .pred %p<2>; .reg .f32 %f<2>; .reg .b32 %r<5>; .reg .b64 %rd<8>;\n"
         "ld.param.u64 %rd1, [k_param_0]; ld.param.u64 %rd2, [k_param_1];\n"
         "mov.u32 %r3, %ctaid.x; mov.u32 %r4, %ntid.x; mov.u32 %r2, %tid.x; mad.lo.s32 %r1, %r3, %r4, %r2;\n"
         "setp." +
         condition +
         ".s32 %p1, %r1, 9; @%p1 bra $END;\n"
         "cvta.to.global.u64 %rd3, %rd1; mul.wide.s32 %rd4, %r1, 4; add.s64 %rd5, %rd3, %rd4;\n"
         "cvta.to.global.u64 %rd6, %rd2; add.s64 %rd7, %rd6, %rd4;\n"
         "ld.global.f32 %f1, [%rd5];\nst.global.f32 [%rd7], %f1;\n$END: ret;\n}\n";
}

class KernelCodesTest : public testing::Test {
 protected:
  // As the driver does: handles of what is loaded, and functions found in it.
  const KernelKnowledge& launch(int handle, int function, const std::string& text) {
    codes_.loaded(&handles_[handle], text.c_str(), true);
    codes_.found(&functions_[function], &handles_[handle], "k");
    const KernelKnowledge& known = codes_.knowledge_of(&functions_[function], "k");
    ++known.launches[static_cast<int>(LaunchVerdict::kMayRunAgain)];
    return known;
  }

  KernelCodes codes_;
  char handles_[4] = {}, functions_[4] = {};
};

TEST_F(KernelCodesTest, CodeThatIsLoadedAgainAfterAResetHasOneRow) {
  const KernelKnowledge& first = launch(0, 0, copying("ge"));
  EXPECT_FALSE(first.unknown) << first.unknown.text();
  for (std::uint32_t i = 0; i < KernelTrial::kEqualRehearsals; ++i)
    first.trial->rehearsal_ended(KernelTrial::Outcome::kEqual);
  first.trial->was_equal();
  codes_.forget_functions();
  codes_.unloaded(&handles_[0]);
  const std::string elsewhere = copying("ge");
  const KernelKnowledge& second = launch(1, 1, elsewhere);
  ASSERT_EQ(codes_.verdicts().size(), 1u);
  EXPECT_EQ(codes_.verdicts()[0].all_launches(), 2u);
  EXPECT_EQ(codes_.verdicts()[0].rehearsed, KernelTrial::kEqualRehearsals);
  EXPECT_EQ(codes_.verdicts()[0].verified, 1u);
  EXPECT_EQ(codes_.verdicts()[0].state, KernelTrial::State::kPromoted) << "the first code was";
  second.trial->differed();
  EXPECT_EQ(codes_.verdicts()[0].state, KernelTrial::State::kDemoted);
  EXPECT_TRUE(first.trial->is_promoted());
}

TEST_F(KernelCodesTest, KernelsOfOneNameWithOtherCodeAreApart) {
  const KernelKnowledge& first = launch(0, 0, copying("ge"));
  const KernelKnowledge& second = launch(1, 1, copying("gt"));
  EXPECT_NE(&first, &second);
  EXPECT_EQ(codes_.verdicts().size(), 2u);
}

// As before the first allocation, when the settings have not been read.
TEST_F(KernelCodesTest, CodeThatIsLoadedBeforeAnybodyAsksIsReadWhenItIsLaunched) {
  auto text = std::make_unique<std::string>(copying("ge"));
  codes_.loaded(&handles_[0], text->c_str(), false);
  codes_.found(&functions_[0], &handles_[0], "k");
  std::ranges::fill(*text, 'x');
  text.reset();
  EXPECT_FALSE(codes_.knowledge_of(&functions_[0], "k").unknown);
  codes_.unloaded(&handles_[0]);
  EXPECT_TRUE(codes_.knowledge_of(&functions_[0], "k").unknown);
}

TEST_F(KernelCodesTest, MachineCodeThatIsLoadedBeforeAnybodyAsksHasNoPtx) {
  const unsigned char image[] = {0x7f, 'E', 'L', 'F'};
  codes_.loaded(&handles_[0], image, false);
  codes_.found(&functions_[0], &handles_[0], "k");
  EXPECT_EQ(codes_.knowledge_of(&functions_[0], "k").unknown.why, RerunRefusal::Why::kNoPtx);
}

TEST_F(KernelCodesTest, ACopyOfCodeWhoseHandleComesAgainIsGone) {
  // Two of these are as much as is copied in all.
  const std::string large = copying("ge") + std::string((std::size_t{128} << 20) - copying("ge").size() - 8, ' ');
  for (int i = 0; i < 2; ++i) codes_.loaded(&handles_[0], large.c_str(), false);
  codes_.loaded(&handles_[0], copying("ge").c_str(), false);
  codes_.found(&functions_[0], &handles_[0], "k");
  EXPECT_FALSE(codes_.knowledge_of(&functions_[0], "k").unknown);
}

TEST_F(KernelCodesTest, OnceNobodyWantsToKnowNothingIsKept) {
  codes_.loaded(&handles_[0], copying("ge").c_str(), false);
  codes_.found(&functions_[0], &handles_[0], "k");
  codes_.forget_images();
  EXPECT_EQ(codes_.knowledge_of(&functions_[0], "k").unknown.why, RerunRefusal::Why::kNotSeen);
}

}  // namespace
}  // namespace thermocline
