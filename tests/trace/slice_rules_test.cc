// SPDX-License-Identifier: Apache-2.0
// Which operators of a recorded trace are marked as ones that may be split, and which are not.
#include "trace/slice_rules.h"

#include <gtest/gtest.h>

#include <optional>

#include "tests/trace/trace_file.h"
#include "trace/event_lines.h"

namespace thermocline::test {
namespace {

constexpr const char* kBatch8 = R"({"schema":"thermocline-trace/1","batch":8})";
constexpr const char* kBatch1 = R"({"schema":"thermocline-trace/1","batch":1})";

std::string counted(const std::string& name, const std::vector<int>& reads, const std::vector<int>& writes,
                    double flops) {
  std::string line = op(name, reads, writes, 1);
  line.replace(line.find("\"us\""), std::string::npos, "\"flops\":" + std::to_string(flops) + ",\"bytes\":1}");
  return line;
}

// Applies the rules to the last operator of the step. Buffers below 10 outlive the step, others are freed in it.
std::optional<EventFields> marked(const char* header, const std::vector<std::pair<int, long long>>& buffers,
                                  const std::vector<std::string>& operators) {
  std::vector<std::string> lines{header};
  for (const auto& [id, bytes] : buffers) lines.push_back(alloc(id, bytes));
  lines.insert(lines.end(), operators.begin(), operators.end());
  for (const auto& [id, bytes] : buffers) {
    if (id >= 10) lines.push_back(release(id));
  }
  lines.push_back(step(0));
  const SliceRules rules(read_valid(TraceFile(lines)));
  EventFields last;
  EXPECT_EQ(parse_event_line(operators.back(), &last), "");
  return rules.mark(&last) ? std::optional(last) : std::nullopt;
}

using Ids = std::vector<std::int64_t>;

// 8 images of 4 channels become 8 of 2, of 100 positions each; weights of 3 x 3.
constexpr long long kIn = 4 * 8 * 4 * 100, kOut = 4 * 8 * 2 * 100, kWeights = 4 * 2 * 4 * 9;
constexpr double kFlops = 2.0 * 800 * (2 * 4 * 9);

TEST(SliceRules, AConvolutionIsSplitOverTheBatch) {
  const auto op = marked(kBatch8, {{0, kWeights}, {1, 8}, {10, kIn}, {11, kOut}},
                         {counted("convolution", {0, 1, 10}, {11}, kFlops)});
  ASSERT_TRUE(op);
  EXPECT_EQ(op->slices, 8);
  EXPECT_EQ(op->split, (Ids{10, 11}));
}

TEST(SliceRules, TheGradientOfWeightsAccumulates) {
  const auto op = marked(kBatch8, {{0, kWeights}, {10, kIn}, {11, kOut}, {12, kIn}, {13, kWeights}, {14, 8}},
                         {counted("convolution_backward", {11, 10, 0}, {12, 13, 14}, 1e6)});
  ASSERT_TRUE(op);
  EXPECT_EQ(op->split, (Ids{10, 11, 12}));
}

// Weights that are made in the step, and an input that outlives it, look like the other way round.
TEST(SliceRules, WeightsAreNotTakenForImages) {
  EXPECT_FALSE(
      marked(kBatch8, {{0, kIn}, {10, kWeights}, {11, kOut}}, {counted("convolution", {0, 10}, {11}, kFlops)}));
  // The output may be the gradient of either.
  EXPECT_FALSE(marked(kBatch8, {{0, kIn}, {10, kIn}, {11, kOut}, {12, kIn}},
                      {counted("convolution_backward", {11, 10, 0}, {12}, 2 * kFlops)}));
}

// No device has room for it, and eight times it is more than a number holds.
TEST(SliceRules, ABatchThatCanNotBeIsNone) {
  constexpr const char* kHuge = R"({"schema":"thermocline-trace/1","batch":2305843009213693952})";
  EXPECT_FALSE(marked(kHuge, {{10, 800}, {11, 8000}, {12, 8}}, {counted("nll_loss_forward", {10, 11}, {12}, 1)}));
}

TEST(SliceRules, OneImageIsSplitOverItsChannels) {
  const double flops = 2.0 * 100 * (2 * 4 * 9);
  const auto forward =
      marked(kBatch1, {{0, kWeights}, {10, kIn / 8}, {11, kOut / 8}}, {counted("convolution", {0, 10}, {11}, flops)});
  ASSERT_TRUE(forward);
  EXPECT_EQ(forward->slices, 2) << "of the output";
  EXPECT_EQ(forward->split, (Ids{11}));
  const auto backward = marked(kBatch1, {{0, kWeights}, {10, kIn / 8}, {11, kOut / 8}, {12, kIn / 8}, {13, kWeights}},
                               {counted("convolution_backward", {11, 10, 0}, {12, 13}, 2 * flops)});
  ASSERT_TRUE(backward);
  EXPECT_EQ(backward->slices, 4) << "of the input, which was made first";
  EXPECT_EQ(backward->split, (Ids{10, 12}));
}

TEST(SliceRules, WhatIsNotCertainIsNotMarked) {
  const std::string forward = counted("convolution", {0, 1, 10}, {11}, 1e6);
  EXPECT_FALSE(marked(kHeader, {{0, kWeights}, {1, 8}, {10, kIn}, {11, kOut}}, {forward})) << "the batch is not known";
  EXPECT_FALSE(marked(kBatch8, {{0, kWeights}, {1, 8}, {10, kIn + 4}, {11, kOut}}, {forward})) << "no equal slices";
  EXPECT_FALSE(marked(kBatch8, {{0, kWeights}, {1, kIn}, {2, kOut}}, {counted("convolution", {0, 1}, {2}, 1e6)}))
      << "which operand is the input?";
  EXPECT_FALSE(marked(kBatch8, {{10, kWeights}, {11, kIn}, {12, kOut}}, {counted("convolution", {10, 11}, {12}, 1e6)}))
      << "which operand is the weight?";
  EXPECT_FALSE(marked(kBatch8, {{0, kIn}, {10, kIn}, {11, kOut}, {12, kIn}, {13, kIn}},
                      {counted("convolution_backward", {11, 10, 0}, {12, 13}, 1e6)}))
      << "which result is the gradient of the input?";
  EXPECT_FALSE(marked(kBatch8, {{0, kWeights}, {10, kIn}, {11, kIn}}, {counted("native_batch_norm", {0, 10}, {11}, 1)}))
      << "each image depends on all";
  EXPECT_FALSE(
      marked(kBatch1, {{0, kWeights}, {10, kIn / 8}, {11, kOut / 8}}, {counted("convolution", {0, 10}, {11}, 12345.0)}))
      << "its positions are no whole number";
}

TEST(SliceRules, ElementsAreThoseOfImagesOfOneSize) {
  const std::string pool = counted("max_pool2d_with_indices", {10}, {12, 13}, 1);
  const std::vector<std::pair<int, long long>> buffers{{0, kIn}, {10, kIn}, {11, kIn}, {12, kIn / 4}, {13, kIn / 2}};
  const auto relu = marked(kBatch8, buffers, {pool, counted("relu_", {10}, {10}, 1)});
  ASSERT_TRUE(relu);
  EXPECT_EQ(relu->split, (Ids{10}));
  EXPECT_TRUE(marked(kBatch8, buffers, {pool}));
  EXPECT_FALSE(marked(kBatch8, buffers, {counted("relu_", {10}, {10}, 1)})) << "no image";
  EXPECT_FALSE(marked(kBatch8, buffers, {pool, counted("add", {10, 12}, {10}, 1)})) << "broadcast";
  EXPECT_FALSE(marked(kBatch8, buffers, {pool, counted("add", {10, 0}, {10}, 1)})) << "outlives its step";
}

// 24 rows of 5 classes.
TEST(SliceRules, RowsOfALossAreCountedByItsTargets) {
  constexpr long long kScores = 4LL * 24 * 5;
  const auto with_targets = [&](long long targets, const std::string& last) {
    return marked(kBatch8, {{10, kScores}, {11, kScores}, {12, targets}, {13, 4}, {14, kScores}, {15, kScores}},
                  {counted("nll_loss_forward", {11, 12}, {13}, 1), last});
  };
  const std::string softmax = counted("_log_softmax", {10}, {11}, 1);
  const std::string of_loss = counted("nll_loss_backward", {13, 11, 12}, {14}, 1);
  const std::string backward = counted("_log_softmax_backward_data", {14, 11}, {15}, 1);
  ASSERT_TRUE(with_targets(8 * 24, softmax));
  EXPECT_EQ(with_targets(8 * 24, softmax)->split, (Ids{10, 11}));
  EXPECT_EQ(with_targets(8 * 24, of_loss)->split, (Ids{11, 14}));
  EXPECT_EQ(with_targets(8 * 24, backward)->split, (Ids{14, 11, 15}));
  EXPECT_FALSE(with_targets(8 * 12 + 8, softmax)) << "13 rows of a batch of 8";
  EXPECT_FALSE(with_targets(8 * 24, counted("_log_softmax", {10}, {14}, 1))) << "of no loss";
}

// 24 rows x 16 columns, sums of 7: whichever operand is the first.
TEST(SliceRules, OfProductsTheResultIsSplit) {
  constexpr long long kLeft = 4LL * 24 * 7, kRight = 4LL * 7 * 16, kResult = 4LL * 24 * 16;
  const std::vector<std::pair<int, long long>> buffers{{0, kRight}, {1, 4 * 16}, {10, kLeft}, {11, kResult}};
  constexpr double kProductFlops = 2.0 * 24 * 7 * 16;
  for (const std::vector<int>& read : {std::vector<int>{0, 1, 10}, {10, 1, 0}}) {
    const auto product = marked(kBatch8, buffers, {counted("addmm", read, {11}, kProductFlops)});
    ASSERT_TRUE(product);
    EXPECT_EQ(product->slices, 8);
    EXPECT_EQ(product->split, (Ids{11}));
  }
  EXPECT_EQ(marked(kBatch1, buffers, {counted("mm", {0, 10}, {11}, kProductFlops)})->slices, 8) << "of 24 and of 16";
  EXPECT_FALSE(marked(kBatch8, buffers, {counted("mm", {0, 10}, {11}, kProductFlops + 1)})) << "other sizes";
  EXPECT_FALSE(marked(kBatch8, buffers, {counted("mm", {0, 10}, {11}, 2 * kProductFlops)})) << "other sizes";
  EXPECT_FALSE(marked(kBatch8, buffers, {counted("addmm", {0, 10, 11}, {11}, kProductFlops)})) << "into an operand";
  EXPECT_FALSE(marked(kBatch8, buffers, {counted("mm", {11, 10}, {0}, kProductFlops)})) << "outlives its step";
}

TEST(SliceRules, OfConcatenationsTheResultIsSplit) {
  const std::vector<std::pair<int, long long>> buffers{{10, 8 * 4 * 3}, {11, 8 * 4 * 5}, {12, 8 * 4 * 8}};
  const auto over_images = marked(kBatch8, buffers, {counted("cat", {10, 11}, {12}, 1)});
  ASSERT_TRUE(over_images);
  EXPECT_EQ(over_images->slices, 8);
  EXPECT_EQ(over_images->split, (Ids{12}));
  EXPECT_EQ(marked(kBatch1, buffers, {counted("cat", {10, 11}, {12}, 1)})->slices, 64);
}

TEST(SliceRules, AMarkIsKept) {
  const SliceRules rules(
      read_valid(TraceFile({kBatch8, alloc(10, 64), counted("convolution", {}, {10}, 1), release(10), step(0)})));
  EventFields op;
  op.kind = "op";
  op.name = "convolution";
  op.flops = 1;
  op.slices = 2;
  op.split = {10};
  const EventFields before = op;
  EXPECT_FALSE(rules.mark(&op));
  EXPECT_EQ(op, before);
}

}  // namespace
}  // namespace thermocline::test
