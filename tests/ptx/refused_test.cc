// SPDX-License-Identifier: Apache-2.0
// Unsupported instructions are refused by name before anything of the kernel runs.
#include <gtest/gtest.h>

#include "tests/ptx/device.h"

namespace ptx_test {
namespace {

struct Missing {
  const char* code;
  const char* name;  // that the refusal says
};

TEST(PtxRefused, WhatIsMissingIsNamedBeforeAnythingRuns) {
  const std::string registers =
      ".reg .b32 %r<8>;\n.reg .b64 %d<4>;\n.reg .f32 %f<8>;\n.reg .pred %p<2>;\n.shared .align 8 .b64 bar;\n"
      "st.global.u64 [%in], %in;\n";
  const Missing missing[] = {
      {"wgmma.fence.sync.aligned;\n", "wgmma.fence.sync.aligned"},
      {"wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3}, %d0, %d1, %p0, 1, 1, 0, 0;\n",
       "wgmma.mma_async"},
      {"tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [bar], 32;\n", "tcgen05.alloc"},
      {"tcgen05.mma.cta_group::1.kind::f16 [%r0], %d0, %d1, %r1, %p0;\n", "tcgen05.mma"},
      {"cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::complete_tx::bytes [bar], [%d0, {%r0}], [bar];\n",
       "copies of tensors"},
      {"mapa.u32 %r0, %r1, 1;\n", "mapa"},
      {"multimem.ld_reduce.global.add.u32 %r0, [%d0];\n", "multimem"},
      {"mma.sync.aligned.m8n8k4.row.col.f16.f16.f16.f16 {%r0,%r1,%r2,%r3}, {%r0,%r1}, {%r0,%r1}, {%r0,%r1,%r2,%r3};\n",
       "mma.sync"},
      {"mma.sp.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f0,%f1,%f2,%f3}, {%r0,%r1}, {%r2,%r3}, "
       "{%f0,%f1,%f2,%f3}, %r4, 0x0;\n",
       "'.sp' is not supported"},
      {"cvt.rs.satfinite.e4m3x4.f32 %r0, {%f0, %f1, %f2, %f3}, %r1;\n", "cvt"},
      {"vadd.s32.u32.s32 %r0, %r1.b4, %r2;\n", "vadd"},
      {"vadd4.s32.u32.s32 %r0, %r1.b0, %r2, %r3;\n", "vadd4"},
      {"vadd.s32.u32.s32;\n", "vadd"},
      {"vset.u32.s32.lt;\n", "vset"},
      {"vavrg.s32.u32.s32 %r0, %r1, %r2;\n", "vavrg"},
      {"add.u32 %r0, %r1.b0, %r2;\n", "%r1.b0"},
      {"made.up.u32 %r0, %r1;\n", "made.up.u32"},
      {"add.rq.f32 %f0, %f1, %f2;\n", "'.rq' is not supported"},
  };
  auto* const word = reinterpret_cast<std::uint64_t*>(device().memory());
  for (const Missing& of : missing) {
    *word = 0;
    const Device::Result result = device().run(kernel_text(registers + of.code), 1, 1);
    EXPECT_NE(result.refused.find(of.name), std::string::npos) << of.code << result.refused;
    EXPECT_EQ(*word, 0u) << of.code;
  }
}

TEST(PtxRefused, KernelsThatLaunchKernelsAreSaidToDoSo) {
  const std::string text =
      ".version 9.0\n.target sm_90\n.address_size 64\n"
      ".extern .func (.param .b32 r) cudaLaunchDeviceV2(.param .b64 buffer, .param .b64 stream);\n"
      ".visible .entry k(.param .u64 in)\n{\n.reg .b64 %d<2>;\nld.param.u64 %d1, [in];\n"
      "{ .param .b64 a; .param .b64 b; .param .b32 c; st.param.b64 [a], %d1; st.param.b64 [b], %d1;\n"
      "call.uni (c), cudaLaunchDeviceV2, (a, b); }\nret;\n}\n";
  const Device::Result result = device().run(text, 1, 1);
  EXPECT_NE(result.refused.find("launches kernels from a kernel ('cudaLaunchDeviceV2')"), std::string::npos)
      << result.refused;
}

// Special registers are allowed where registers are.
TEST(PtxRefused, SpecialRegistersAsOperandsAreNot) {
  const std::string text = kernel_text(
      ".reg .b32 %r<3>;\n.reg .b64 %d1;\nmad.lo.u32 %r1, %ctaid.x, %ntid.x, %tid.x;\ncvt.u32.u16 %r2, %tid.x;\n"
      "mad.wide.u32 %d1, %r1, 8, %in;\nst.global.v2.u32 [%d1], {%r1, %r2};\n");
  ASSERT_TRUE(device().run(text, 3, 5).ran());
  const auto* const words = reinterpret_cast<const std::uint32_t*>(device().memory());
  for (std::uint32_t i = 0; i < 15; ++i) {
    EXPECT_EQ(words[2 * i], i);
    EXPECT_EQ(words[2 * i + 1], i % 5);
  }
}

}  // namespace
}  // namespace ptx_test
