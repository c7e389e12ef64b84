// SPDX-License-Identifier: Apache-2.0
#include "offload/engine/operation_name.h"

#include <gtest/gtest.h>

namespace thermocline {
namespace {

TEST(OperationName, KernelsHaveTheNameOfTheirSource) {
  EXPECT_EQ(readable_kernel_name("_Z4axpyPfPKffi"), "axpy");
  EXPECT_EQ(readable_kernel_name("_Z5scaleIfEvPT_PKS0_i"), "scale<float>");
  EXPECT_EQ(readable_kernel_name("_ZN12_GLOBAL__N_14fillEPfi"), "(anonymous namespace)::fill");
  EXPECT_EQ(readable_kernel_name("_ZN4mine5stepsIXadL_Z1fiEEEEvi"), "mine::steps<&(f(int))>");
  EXPECT_EQ(readable_kernel_name("sm90_xmma_gemm_f32f32"), "sm90_xmma_gemm_f32f32") << "of extern \"C\"";
  EXPECT_EQ(readable_kernel_name("_Znonsense"), "_Znonsense");
  EXPECT_EQ(readable_kernel_name(""), "");
}

TEST(OperationName, LongTemplateArgumentsAreLeftOut) {
  const std::string name =
      "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_11FillFunctorIfEESt5arrayIPcLm1EEEEviT0_T1_";
  EXPECT_EQ(readable_kernel_name(name),
            "at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>, ...>");
  EXPECT_EQ(readable_kernel_name(name, 60), "at::native::vectorized_elementwise_kernel<4, ...>");
  EXPECT_LE(readable_kernel_name(name, 20).size(), 20u);
  EXPECT_EQ(readable_kernel_name(std::string(200, 'k')).size(), 96u);
}

TEST(OperationName, SaysWhatKindOfOperationItIs) {
  EXPECT_EQ(operation_name({.kind = 3, .name = "_Z4axpyPfPKffi", .follows = true}), "kernel axpy");
  EXPECT_EQ(operation_name({.kind = 3, .name = "cuMemcpyDtoDAsync"}), "cuMemcpyDtoDAsync");
  EXPECT_EQ(operation_name({.kind = 3, .name = "aten::mm"}), "aten::mm") << "of a replay";
  EXPECT_EQ(operation_name({.follows = true}), "a CUDA graph");
  EXPECT_EQ(operation_name({.kind = 3, .follows = true}), "a kernel");
  EXPECT_EQ(operation_name({}), "");
}

}  // namespace
}  // namespace thermocline
