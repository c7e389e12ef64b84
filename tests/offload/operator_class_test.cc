// SPDX-License-Identifier: Apache-2.0
#include "offload/operator_class.h"

#include <gtest/gtest.h>

namespace thermocline {
namespace {

OperatorClass classify(std::string_view name) { return classify_operator(name, {}); }

// As profilers show them.
TEST(OperatorClassTest, KnowsTheKernelsOfTheLibraries) {
  EXPECT_EQ(classify("ampere_sgemm_128x64_nn"), OperatorClass::kMatrixMultiply);
  EXPECT_EQ(classify("nvjet_tst_128x64_64x8_2x1_v_bz_TNT"), OperatorClass::kMatrixMultiply);
  EXPECT_EQ(classify("void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_bf16_128x128_32x4_nn_align8>"),
            OperatorClass::kMatrixMultiply);
  EXPECT_EQ(classify("sm80_xmma_fprop_implicit_gemm_f32f32_f32f32_f32_nhwckrsc_nchw_tilesize128x128x8"),
            OperatorClass::kConvolution);
  EXPECT_EQ(classify("cudnn::winograd_nonfused::winogradForwardData4x4<float, float>"), OperatorClass::kConvolution);
  EXPECT_EQ(classify("_ZN7cudnn6detail18wgrad_alg0_engineIfLi128ELi5ELi5ELi3ELi3ELi3ELb0ELi512EEEviiiPKT_iPS2_S4_"),
            OperatorClass::kConvolution);
  EXPECT_EQ(classify("flash_fwd_kernel"), OperatorClass::kAttention);
  EXPECT_EQ(classify("fmha_cutlassF_f32_aligned_64x64_rf_sm80"), OperatorClass::kAttention);
  EXPECT_EQ(classify("void cudnn::bn_fw_tr_1C11_kernel_NCHW<float, float, 512>"), OperatorClass::kNormalisation);
  EXPECT_EQ(classify("void at::native::vectorized_elementwise_kernel<4, at::native::AddFunctor<float>>"),
            OperatorClass::kElementwise);
  EXPECT_EQ(classify("_ZN2at4cuda6detail25prepare_grouped_gemm_dataIN7cutlass10bfloat16_tES4_S4_fEEvPT_"),
            OperatorClass::kTables);
  EXPECT_EQ(classify("_Z23__get_group_gemm_startsI"), OperatorClass::kTables);
  EXPECT_EQ(classify("_Z18dset_pointer_kernelPPdS_"), OperatorClass::kTables);
  EXPECT_EQ(classify("my_own_kernel"), OperatorClass::kOther);
  EXPECT_EQ(classify(""), OperatorClass::kOther);
}

TEST(OperatorClassTest, KnowsTheOperatorsOfRecordedTraces) {
  EXPECT_EQ(classify("convolution_backward"), OperatorClass::kConvolution);
  EXPECT_EQ(classify("mm"), OperatorClass::kMatrixMultiply);
  EXPECT_EQ(classify("addmm"), OperatorClass::kMatrixMultiply);
  EXPECT_EQ(classify("native_layer_norm_backward"), OperatorClass::kNormalisation);
  EXPECT_EQ(classify("threshold_backward"), OperatorClass::kOther);
  EXPECT_EQ(classify("comma"), OperatorClass::kOther) << "a short name counts only whole";
}

TEST(OperatorClassTest, RulesOfTheSettingsComeFirst) {
  std::vector<OperatorRule> rules;
  std::string wrong;
  ASSERT_TRUE(parse_operator_rules(" my_own*V2 = convolution,sgemm=other ,", &rules, &wrong));
  EXPECT_EQ(text_of(rules), "my_own*V2=convolution, sgemm=other");
  EXPECT_EQ(classify_operator("x_MY_OWN_kernel_v2_b", rules), OperatorClass::kConvolution);
  EXPECT_EQ(classify_operator("v2_my_own", rules), OperatorClass::kOther) << "in this order";
  EXPECT_EQ(classify_operator("ampere_sgemm_128x64_nn", rules), OperatorClass::kOther);
  EXPECT_EQ(classify_operator("ampere_hgemm_128x64_nn", rules), OperatorClass::kMatrixMultiply);
}

TEST(OperatorClassTest, SaysWhichRuleIsWrong) {
  std::vector<OperatorRule> rules;
  for (const char* text : {"gemm", "gemm=", "gemm=matrix", "=copy", "a=copy, gemm:copy"}) {
    std::string wrong;
    EXPECT_FALSE(parse_operator_rules(text, &rules, &wrong)) << text;
    EXPECT_FALSE(wrong.empty());
  }
}

}  // namespace
}  // namespace thermocline
