// SPDX-License-Identifier: Apache-2.0
// Addresses that do not come from a parameter as a whole: each of these was once said to be another parameter's.
// tests/directions/ has random ones.
#include <gtest/gtest.h>

#include "hooks/relaunch/device_code.h"
#include "tests/hooks/analysed_kernel.h"

namespace thermocline {
namespace {

const std::string kParameters =
    ".param .u64 k_param_0, .param .u64 k_param_1, .param .u32 k_param_2, .param .u32 k_param_3";
const std::string kBegin =
    ".reg .pred %p<4>; .reg .b32 %r<9>; .reg .b64 %rd<30>;\n"
    "ld.param.u64 %rd1, [k_param_0]; ld.param.u64 %rd2, [k_param_1]; ld.param.u32 %r2, [k_param_2];\n"
    "mov.u32 %r1, %tid.x; setp.eq.u32 %p1, %r1, 0;\n";

std::string unknown(const std::string& body) {
  return analyse_kernel(kParameters, kBegin + body + "ret;\n")->unknown();
}

constexpr const char* kNotFollowed = "it computes an address that is not followed";

TEST(PtxAccesses, AtAddressesInTheCodeAreUnknown) {
  EXPECT_EQ(unknown("ld.global.u32 %r3, [140547911058352];\n"), kNotFollowed);
  EXPECT_EQ(unknown("st.global.u32 [0x7f0000000000], %r1;\n"), kNotFollowed);
  EXPECT_EQ(unknown("selp.b64 %rd3, %rd1, 140547911058352, %p1; st.global.u32 [%rd3], %r1;\n"), kNotFollowed);
  EXPECT_EQ(unknown("mov.u64 %rd3, %rd1; @%p1 mov.u64 %rd3, 0x7f0000000000; st.global.u32 [%rd3], %r1;\n"),
            kNotFollowed);
  EXPECT_EQ(unknown("mov.u64 %rd3, 5; shl.b64 %rd4, %rd3, 44; selp.b64 %rd5, %rd1, %rd4, %p1; "
                    "st.global.u32 [%rd5], %r1;\n"),
            kNotFollowed);
  // A variable of the module; null.
  EXPECT_EQ(unknown("ld.global.u32 %r3, [counter];\n"), "");
  EXPECT_EQ(unknown("selp.b64 %rd3, %rd1, 0, %p1; st.global.u32 [%rd3], %r1;\n"), "");
}

// On one path the address is a pointer that was passed as two numbers.
TEST(PtxAccesses, AtAddressesThatArePutTogetherAreUnknown) {
  const std::string halves =
      "ld.param.u32 %r3, [k_param_3]; cvt.u64.u32 %rd3, %r2; cvt.u64.u32 %rd4, %r3; shl.b64 %rd5, %rd4, 32;\n"
      "or.b64 %rd6, %rd5, %rd3;\n";
  EXPECT_EQ(unknown(halves + "st.global.u32 [%rd6], %r1;\n"), kNotFollowed);
  EXPECT_EQ(unknown(halves + "selp.b64 %rd7, %rd6, %rd1, %p1; st.global.u32 [%rd7], %r1;\n"), kNotFollowed);
  EXPECT_EQ(unknown(halves + "min.u64 %rd7, %rd6, %rd1; st.global.u32 [%rd7], %r1;\n"), kNotFollowed);
  EXPECT_EQ(unknown(halves + "mov.u64 %rd7, %rd1; @%p1 bra $L; mov.u64 %rd7, %rd6;\n$L: st.global.u32 [%rd7], %r1;\n"),
            kNotFollowed);
  EXPECT_EQ(unknown(halves + "selp.b64 %rd8, -1, 0, %p1; xor.b64 %rd9, %rd6, %rd1; and.b64 %rd10, %rd9, %rd8;\n"
                             "xor.b64 %rd11, %rd1, %rd10; ld.global.u32 %r4, [%rd11];\n"),
            kNotFollowed);
  const std::string distance = "sub.s64 %rd8, %rd7, %rd1; add.s64 %rd9, %rd1, %rd8; ld.global.u32 %r4, [%rd9];\n";
  EXPECT_EQ(unknown(halves + "mov.u64 %rd7, %rd6;\n" + distance), kNotFollowed);
  EXPECT_EQ(unknown(halves + "selp.b64 %rd7, %rd6, %rd1, %p1;\n" + distance), kNotFollowed);
  const std::string of_parameter =
      "ld.param.u32 %r3, [k_param_1]; ld.param.u32 %r4, [k_param_1+4]; cvt.u64.u32 %rd3, %r3;\n"
      "cvt.u64.u32 %rd4, %r4; mad.lo.u64 %rd6, %rd4, 4294967296, %rd3;\n";
  EXPECT_EQ(unknown(of_parameter + "selp.b64 %rd7, %rd1, %rd6, %p1; st.global.u32 [%rd7], %r1;\n"), kNotFollowed);
}

// A value that is added to a pointer is an index, whatever it was made of.
// A pointer may be passed as the bits in which it differs from another one.
TEST(PtxAccesses, AtTheBitsOfTwoParametersAreUnknown) {
  const std::string second = "ld.param.u64 %rd3, [k_param_1]; ";
  for (const char* const mixed : {"xor.b64 %rd4, %rd1, %rd3", "or.b64 %rd4, %rd3, %rd1", "and.b64 %rd4, %rd1, %rd3",
                                  "lop3.b64 %rd4, %rd1, %rd3, 0, 60"})
    EXPECT_EQ(unknown(second + mixed + "; st.global.u32 [%rd4], %r1;\n"), kNotFollowed) << mixed;
  EXPECT_EQ(unknown("and.b64 %rd4, %rd1, -16; st.global.u32 [%rd4], %r1;\n"), "");
  EXPECT_EQ(unknown("xor.b64 %rd4, %rd1, 16; st.global.u32 [%rd4], %r1;\n"), "");
}

TEST(PtxAccesses, AtIndicesAreKnown) {
  EXPECT_EQ(unknown("mad.wide.u32 %rd3, %r2, 4, %rd1; selp.b64 %rd4, %rd3, %rd2, %p1; st.global.u32 [%rd4], %r1;\n"),
            "");
  EXPECT_EQ(
      unknown("cvt.u64.u32 %rd3, %r2; shl.b64 %rd4, %rd3, 32; add.s64 %rd5, %rd1, %rd4; ld.global.u32 %r4, [%rd5];\n"),
      "");
  EXPECT_EQ(unknown("sub.s64 %rd3, %rd2, %rd1; add.s64 %rd4, %rd1, %rd3; ld.global.u32 %r4, [%rd4];\n"), "");
  EXPECT_EQ(unknown("and.b64 %rd3, %rd1, -128; add.s64 %rd4, %rd3, 64; ld.global.u32 %r4, [%rd4];\n"), "");
  EXPECT_EQ(unknown("mov.u64 %rd3, %rd1;\n$L: add.s64 %rd3, %rd3, 16; ld.global.u32 %r4, [%rd3]; @%p1 bra $L;\n"), "");
}

// The kernel that is commented out stores nothing.
TEST(PtxIndex, OfCommentsAndStringsHasNothing) {
  const std::string kernel = ".visible .entry k(.param .u64 p)\n{\n.reg .b64 %rd1; ld.param.u64 %rd1, [p];\n";
  const std::string text = ".version 9.0\n.target sm_90\n// " + kernel.substr(0, kernel.find('\n')) + "\n/* " + kernel +
                           "ret;\n} */\n.file 1 \".entry k\"\n.shared .align 4 .b8 tile[64];\n" +
                           ".visible .entry k2()\n{ // }\nret;\n}\n" + kernel +
                           "st.global.u64 [%rd1], %rd1;\nret;\n}\n";
  const DeviceCode::Text read(90, text);
  EXPECT_EQ(read.index.kernels(), (std::vector<std::string>{"k2", "k"}));
  EXPECT_EQ(read.index.shared(), (std::vector<PtxIndex::Variable>{{"tile", 64}}));
  const auto one = parse_ptx_kernel(read.ptx, read.index, "k");
  ASSERT_TRUE(one.has_value());
  const PtxAccesses accesses = find_accesses(*one);
  ASSERT_EQ(accesses.words.size(), 1u);
  EXPECT_TRUE(accesses.words[0].writes);
  EXPECT_FALSE(parse_ptx_kernel(read.ptx, read.index, "k3").has_value());
  EXPECT_TRUE(PtxIndex("/* .entry").kernels().empty());
  EXPECT_TRUE(PtxIndex(".entry").kernels().empty());
  EXPECT_TRUE(PtxIndex("{ \"").kernels().empty());
}

TEST(PtxKernel, ReadsNoOctalNumberAsADecimalOne) {
  const std::string text =
      ".entry k()\n{\n.reg .b32 %r<4>; add.u32 %r1, %r2, 010; add.u32 %r1, %r2, 10; add.u32 %r1, %r2, 0;\n}\n";
  const auto one = parse_ptx_kernel(text, PtxIndex(text), "k");
  ASSERT_TRUE(one.has_value());
  EXPECT_NE(one->instructions[0].operands[2].kind, PtxOperand::Kind::kInteger);
  EXPECT_EQ(one->instructions[1].operands[2].value, 10);
  EXPECT_EQ(one->instructions[2].operands[2].kind, PtxOperand::Kind::kInteger);
}

}  // namespace
}  // namespace thermocline
