// SPDX-License-Identifier: Apache-2.0
// Counts of a running kernel: instructions, arithmetic, bytes of global memory, pages.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "tests/ptx/device.h"

namespace ptx_test {
namespace {

using simulator::ptx::Counts;

constexpr std::uint32_t kThreads = 64, kBlocks = 3, kAll = kThreads * kBlocks;

// %at: the thread's own 16 bytes.
std::string with_own_address(const std::string& body) {
  return kernel_text(
      ".reg .u32 %t, %b, %n, %i;\n.reg .u64 %at, %of;\n.reg .f32 %x, %y;\n.reg .f64 %d;\n.reg .pred %p;\n"
      "mov.u32 %b, %ctaid.x;\nmov.u32 %n, %ntid.x;\nmov.u32 %t, %tid.x;\nmad.lo.u32 %i, %b, %n, %t;\n"
      "mul.wide.u32 %of, %i, 16;\nadd.u64 %at, %in, %of;\n" +
      body);
}

Device::Result run(const std::string& body) {
  const Device::Result result = device().run(with_own_address(body), kBlocks, kThreads);
  EXPECT_TRUE(result.ran()) << result.refused << result.outcome.message;
  return result;
}

Counts counts_of(const std::string& body) { return run(body).outcome.counts; }

TEST(PtxCounts, OfSaxpyAreTwelveBytesAndTwoOperationsAThread) {
  const Device::Result result =
      run("ld.global.f32 %x, [%at];\nld.global.f32 %y, [%at+4];\nfma.rn.f32 %y, %x, 0f40000000, %y;\n"
          "st.global.f32 [%at+8], %y;\n");
  const Counts& counts = result.outcome.counts;
  EXPECT_EQ(counts.accessed, 12 * kAll);
  EXPECT_EQ(counts.flops, 2 * kAll);
  EXPECT_EQ(counts.doubles, 0u);
  EXPECT_EQ(counts.tensor_flops, 0u);
  EXPECT_EQ(result.outcome.pages_read, 1u);
  EXPECT_EQ(result.outcome.pages_written, 1u);
}

// Eight instructions before the loop with the parameter's load, ten rounds of four, and ret.
TEST(PtxCounts, OfALoopAreItsRounds) {
  const std::string loop =
      "mov.u32 %i, 0;\nagain:\nld.global.f32 %x, [%at];\nadd.u32 %i, %i, 1;\nsetp.lt.u32 %p, %i, 10;\n@%p bra "
      "again;\n";
  const Device::Result result = run(loop);
  EXPECT_EQ(result.outcome.instructions, (8 + 10 * 4 + 1) * kAll);
  EXPECT_EQ(result.outcome.counts.accessed, 10 * 4 * kAll);
  EXPECT_EQ(result.outcome.pages_read, 1u);
  EXPECT_EQ(result.outcome.pages_written, 0u);
}

TEST(PtxCounts, OfAProductOfMatricesAreTwiceItsVolume) {
  constexpr std::uint32_t kN = 16, kOfProduct = kN * kN;
  const std::string text = kernel_text(
      ".reg .u32 %t, %b, %n, %i, %k, %row, %column;\n.reg .u64 %a, %c, %of;\n.reg .f32 %x, %y, %s;\n.reg .pred %p;\n"
      "mov.u32 %b, %ctaid.x;\nmov.u32 %n, %ntid.x;\nmov.u32 %t, %tid.x;\nmad.lo.u32 %i, %b, %n, %t;\n"
      "shr.u32 %row, %i, 4;\nand.b32 %column, %i, 15;\nmul.wide.u32 %of, %row, 64;\nadd.u64 %a, %in, %of;\n"
      "mul.wide.u32 %of, %column, 4;\nadd.u64 %c, %in, %of;\nmov.u32 %k, 0;\nmov.f32 %s, 0f00000000;\nagain:\n"
      "ld.global.f32 %x, [%a];\nld.global.f32 %y, [%c+1024];\nfma.rn.f32 %s, %x, %y, %s;\nadd.u64 %a, %a, 4;\n"
      "add.u64 %c, %c, 64;\nadd.u32 %k, %k, 1;\nsetp.lt.u32 %p, %k, 16;\n@%p bra again;\n"
      "mul.wide.u32 %of, %i, 4;\nadd.u64 %a, %in, %of;\nst.global.f32 [%a+2048], %s;\n");
  const Device::Result result = device().run(text, kOfProduct / kThreads, kThreads);
  ASSERT_TRUE(result.ran()) << result.refused << result.outcome.message;
  EXPECT_EQ(result.outcome.counts.flops, 2 * kN * kN * kN);
  EXPECT_EQ(result.outcome.counts.accessed, 8 * kN * kN * kN + 4 * kOfProduct);
}

TEST(PtxCounts, HaveGuardedInstructionsOnlyWhereTheyAreExecuted) {
  const Counts counts = counts_of(
      "setp.lt.u32 %p, %t, 5;\n@%p ld.global.f32 %x, [%at];\n@!%p add.f32 %x, %x, %x;\n@%p st.global.f32 [%at], %x;\n");
  EXPECT_EQ(counts.accessed, 8 * 5 * kBlocks);
  EXPECT_EQ(counts.flops, (kThreads - 5) * kBlocks);
}

TEST(PtxCounts, KnowDoublesPairsAndVectors) {
  EXPECT_EQ(counts_of("mov.f64 %d, 0d3ff0000000000000;\nfma.rn.f64 %d, %d, %d, %d;\nadd.f64 %d, %d, %d;\n").doubles,
            3 * kAll);
  EXPECT_EQ(counts_of(".reg .b32 %h;\nmov.b32 %h, 0;\nfma.rn.f16x2 %h, %h, %h, %h;\nadd.s32 %h, %h, 1;\n").flops,
            4 * kAll);
  EXPECT_EQ(counts_of(".reg .f32 %u, %v;\nld.global.v4.f32 {%x, %y, %u, %v}, [%at];\n").accessed, 16 * kAll);
}

TEST(PtxCounts, HaveNoBytesOfOtherSpaces) {
  const Device::Result result =
      run(".shared .align 4 .b8 own[256];\n.local .align 4 .b8 mine[16];\n.reg .u32 %s, %x0;\n.reg .u64 %g;\n"
          "mov.u32 %s, own;\nst.shared.u32 [%s], %t;\nst.local.u32 [mine], %t;\nld.local.u32 %x0, [mine];\n"
          "cvt.u64.u32 %g, %s;\ncvta.shared.u64 %g, %g;\nst.u32 [%g], %t;\nld.u32 %x0, [%g];\n");
  EXPECT_EQ(result.outcome.counts.accessed, 0u);
  EXPECT_EQ(result.outcome.pages_read + result.outcome.pages_written, 0u);
}

TEST(PtxCounts, HaveAtomicOperationsAsReadsAndWrites) {
  const Counts counts = counts_of("red.global.add.u32 [%in], 1;\natom.global.add.u32 %i, [%in], 1;\n");
  EXPECT_EQ(counts.accessed, 16 * kAll);
}

// Through a generic address nothing but the access itself tells.
TEST(PtxCounts, HaveNoAtomicOperationsOnSharedMemory) {
  const Counts counts = counts_of(
      ".shared .align 4 .b8 own[16];\n.reg .u32 %s;\n.reg .u64 %g;\nmov.u32 %s, own;\ncvt.u64.u32 %g, %s;\n"
      "cvta.shared.u64 %g, %g;\natom.add.u32 %i, [%g], 1;\nred.add.u32 [%g], 1;\natom.shared.add.u32 %i, [%s], 1;\n");
  EXPECT_EQ(counts.accessed, 0u);
  EXPECT_EQ(counts.of_host, 0u);
}

TEST(PtxCounts, HaveAtomicOperationsOnHostMemoryAsItsReadsAndWrites) {
  static std::uint32_t word;
  const std::string at = std::to_string(reinterpret_cast<std::uint64_t>(&word));
  const Program program(with_own_address("mov.u64 %at, " + at +
                                         ";\nred.global.sys.add.u32 [%at], 1;\natom.add.u32 %i, [%at], 1;\n"
                                         "ld.global.u32 %i, [%at];\n"));
  const Device::Result result = program.run_changed(kBlocks, kThreads, [](simulator::ptx::Launch& launch) {
    launch.may_touch = [](void*, std::uint64_t, std::uint64_t, bool) { return true; };
  });
  ASSERT_TRUE(result.ran()) << result.refused << result.outcome.message;
  EXPECT_EQ(word, 2 * kAll);
  EXPECT_EQ(result.outcome.counts.of_host, (8 + 8 + 4) * kAll);
  EXPECT_EQ(result.outcome.counts.accessed, 0u);
}

// If a source ends before the copy does, only the bytes that it has are read, and traced.
TEST(PtxCounts, HaveOfCopiesOfPartsTheBytesOfTheirSource) {
  for (const std::uint32_t size : {0u, 1u, 3u, 4u, 7u, 12u, 15u, 16u, 40u}) {
    const std::uint64_t read = std::min(size, 16u);
    auto* const memory = reinterpret_cast<std::uint8_t*>(device().memory());
    for (std::uint8_t i = 0; i < 16; ++i) memory[i] = static_cast<std::uint8_t>(i + 1);
    const Program program(kernel_text(
        ".shared .align 16 .b8 own[16];\n.reg .u32 %s, %n;\n.reg .u64 %a, %b;\nmov.u32 %s, own;\nmov.u32 %n, " +
        std::to_string(size) +
        ";\nst.shared.b64 [%s], -1;\nst.shared.b64 [%s+8], -1;\ncp.async.ca.shared.global [%s], [%in], 16, %n;\n"
        "cp.async.wait_all;\nld.shared.v2.b64 {%a, %b}, [%s];\nst.global.v2.b64 [%in+32], {%a, %b};\n"));
    std::uint64_t traced = 0;
    const Device::Result result = program.run_changed(1, 1, [&](simulator::ptx::Launch& launch) {
      launch.traced_to = &traced;
      launch.traced = [](void* to, std::uint64_t, std::uint64_t bytes, simulator::ptx::Traced how) {
        if (how == simulator::ptx::Traced::kRead) *static_cast<std::uint64_t*>(to) += bytes;
      };
    });
    ASSERT_TRUE(result.ran()) << result.refused << result.outcome.message;
    EXPECT_EQ(result.outcome.counts.accessed, read + 16) << size;
    EXPECT_EQ(traced, read) << size;
    for (std::uint64_t i = 0; i < 16; ++i) EXPECT_EQ(memory[32 + i], i < read ? i + 1 : 0) << size << ", byte " << i;
  }
}

// A source that ends with the device's memory is no fault.
TEST(PtxCounts, OfCopiesOfPartsDoNotReachBeyondTheSource) {
  const std::string copy =
      ".shared .align 16 .b8 own[16];\n.reg .u32 %s, %n;\n.reg .u64 %a;\nmov.u32 %s, own;\nmov.u32 %n, SIZE;\n"
      "add.u64 %a, %in, OFFSET;\ncp.async.cg.shared.global [%s], [%a], 16, %n;\n";
  const auto outcome_of = [&](std::uint64_t offset, const std::string& size) {
    std::string text = copy;
    text.replace(text.find("SIZE"), 4, size);
    text.replace(text.find("OFFSET"), 6, std::to_string(offset));
    return device().run(kernel_text(text), 1, 1).outcome.fault;
  };
  using simulator::ptx::Fault;
  EXPECT_EQ(outcome_of(Device::kBytes - 16, "5"), Fault::kNone);
  EXPECT_EQ(outcome_of(Device::kBytes, "0"), Fault::kNone);
  EXPECT_EQ(outcome_of(Device::kBytes, "1"), Fault::kIllegalAddress);
  EXPECT_EQ(outcome_of(8, "4"), Fault::kMisaligned);
}

TEST(PtxCounts, HaveCopiesIntoSharedMemory) {
  const Counts counts = counts_of(
      ".shared .align 16 .b8 own[16];\n.reg .u32 %s;\nmov.u32 %s, own;\ncp.async.ca.shared.global [%s], [%at], 16;\n"
      "cp.async.wait_all;\n");
  EXPECT_EQ(counts.accessed, 16 * kAll);
}

TEST(PtxCounts, HaveProductsOfMatricesAsTensorArithmetic) {
  const Counts counts = counts_of(
      ".reg .b32 %a<4>, %c<2>;\n.reg .f32 %s<4>;\n"
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%s0, %s1, %s2, %s3}, {%a0, %a1, %a2, %a3}, {%c0, %c1}, "
      "{%s0, %s1, %s2, %s3};\n");
  EXPECT_EQ(counts.tensor_flops, 2 * 16 * 8 * 16 / 32 * kAll);
  EXPECT_EQ(counts.flops, 0u);
}

// Also if a function ends the thread, and those that called it never return.
TEST(PtxCounts, HaveWhatCalledFunctionsDo) {
  const std::string head = ".version 9.0\n.target sm_90\n.address_size 64\n";
  const std::string inner =
      ".func inner(.param .b64 p)\n{\n.reg .u64 %a;\n.reg .f32 %x;\nld.param.u64 %a, [p];\nld.global.f32 %x, [%a];\n"
      "add.f32 %x, %x, %x;\nst.global.f32 [%a], %x;\n";
  const std::string kernel =
      ".visible .entry k(.param .u64 in)\n{\n.reg .u64 %in;\n.reg .f32 %y;\nld.param.u64 %in, [in];\n"
      "ld.global.f32 %y, [%in];\n{\n.param .b64 q;\nst.param.b64 [q], %in;\ncall.uni inner, (q);\n}\nret;\n}\n";
  for (const char* const end : {"ret;\n}\n", "exit;\n}\n"}) {
    const Device::Result result = device().run(head + inner + end + kernel, 1, 32);
    ASSERT_TRUE(result.ran()) << result.refused << result.outcome.message;
    EXPECT_EQ(result.outcome.counts.accessed, 12u * 32) << end;
    EXPECT_EQ(result.outcome.counts.flops, 32u) << end;
    EXPECT_EQ(result.outcome.instructions, 10u * 32)
        << end;  // with the kernel's ret, which belongs to the call's block
  }
}

}  // namespace
}  // namespace ptx_test
