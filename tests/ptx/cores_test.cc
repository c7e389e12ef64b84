// SPDX-License-Identifier: Apache-2.0
// Blocks on several cores: the same memory, counts and faults as on one.
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "tests/ptx/device.h"

namespace ptx_test {
namespace {

constexpr std::uint32_t kBlocks = 200, kThreads = 64;
constexpr std::size_t kUsed = std::size_t{4} * kBlocks * kThreads;

// Each thread stores what `rounds` rounds made of its number; `body` begins with it in %x.
std::string rounds(const std::string& body, unsigned count = 1000) {
  return kernel_text(
      ".shared .align 4 .b8 own[256];\n.reg .u32 %t, %b, %n, %i, %k, %x, %y, %s;\n.reg .u64 %at, %of;\n"
      ".reg .pred %p, %q;\nmov.u32 %b, %ctaid.x;\nmov.u32 %n, %ntid.x;\nmov.u32 %t, %tid.x;\n"
      "mad.lo.u32 %i, %b, %n, %t;\nmul.wide.u32 %of, %i, 4;\nadd.u64 %at, %in, %of;\nmov.u32 %x, %i;\n"
      "mov.u32 %k, 0;\nagain:\n" +
      body + "add.u32 %k, %k, 1;\nsetp.lt.u32 %p, %k, " + std::to_string(count) +
      ";\n@%p bra again;\nst.global.u32 [%at], %x;\n");
}

struct Ran {
  Device::Result result;
  std::vector<std::byte> memory;
};

Ran run(const Program& program, std::uint32_t cores) {
  std::memset(device().memory(), 0, kUsed);
  Ran ran{program.run(kBlocks, kThreads, 1u << 20, cores), {}};
  ran.memory.assign(device().memory(), device().memory() + kUsed);
  return ran;
}

void expect_the_same_on_any_number(const std::string& text, bool faults = false) {
  const Program program(text);
  const Ran one = run(program, 1);
  EXPECT_EQ(one.result.ran(), !faults) << one.result.refused << one.result.outcome.message;
  for (const std::uint32_t cores : {2u, 3u, 16u}) {
    const Ran several = run(program, cores);
    const auto& expected = one.result.outcome;
    const auto& outcome = several.result.outcome;
    EXPECT_EQ(outcome.fault, expected.fault) << cores;
    EXPECT_STREQ(outcome.message, expected.message) << cores;
    if (faults) continue;
    EXPECT_EQ(outcome.instructions, expected.instructions) << cores;
    EXPECT_EQ(outcome.counts.flops, expected.counts.flops) << cores;
    EXPECT_EQ(outcome.counts.accessed, expected.counts.accessed) << cores;
    EXPECT_EQ(outcome.pages_written, expected.pages_written) << cores;
    EXPECT_EQ(several.memory, one.memory) << cores;
  }
}

TEST(PtxCores, ComputeTheSame) { expect_the_same_on_any_number(rounds("mad.lo.u32 %x, %x, %x, 3;\n")); }

TEST(PtxCores, ComputeTheSameWithBarriers) {
  expect_the_same_on_any_number(rounds(
      "mov.u32 %s, own;\nshl.b32 %y, %t, 2;\nadd.u32 %s, %s, %y;\nst.shared.u32 [%s], %x;\nbar.sync 0;\n"
      "mov.u32 %s, own;\nxor.b32 %y, %y, 4;\nadd.u32 %s, %s, %y;\nld.shared.u32 %y, [%s];\nmad.lo.u32 %x, %x, 5, "
      "%y;\nbar.sync 0;\n",
      100));
}

TEST(PtxCores, AddInSharedMemoryAtomically) {
  expect_the_same_on_any_number(rounds("mov.u32 %s, own;\natom.shared.add.u32 %y, [%s], 1;\nadd.u32 %x, %x, %y;\n"));
}

// Floating-point sums depend on their order, so such a kernel has one core.
TEST(PtxCores, AddInGlobalMemoryInOneOrder) {
  expect_the_same_on_any_number(rounds(
      ".reg .f32 %f;\ncvt.rn.f32.u32 %f, %i;\nmul.f32 %f, %f, 0f3dcccccd;\nred.global.add.f32 [%in+1048576], %f;\n",
      50));
}

TEST(PtxCores, ReadClocksInOneOrder) {
  for (const char* const clock : {"%clock", "%clock_hi", "%globaltimer_lo"})
    expect_the_same_on_any_number(rounds(std::string("mov.u32 %y, ") + clock + ";\nxor.b32 %x, %x, %y;\n"));
}

// Every block from the 150th on faults, at different times.
TEST(PtxCores, ReportTheFirstBlockThatFaults) {
  const std::string text = rounds(
      "mad.lo.u32 %x, %x, %x, 3;\nsetp.ge.u32 %q, %b, 150;\nsub.u32 %y, 400, %b;\nsetp.lt.and.u32 %q, %y, %k, %q;\n"
      "@%q trap;\n");
  expect_the_same_on_any_number(text, true);
  const Ran ran = run(Program(text), 3);
  EXPECT_NE(std::string(ran.result.outcome.message).find("block (150, 0, 0)"), std::string::npos)
      << ran.result.outcome.message;
}

}  // namespace
}  // namespace ptx_test
