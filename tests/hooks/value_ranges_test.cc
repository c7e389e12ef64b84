// SPDX-License-Identifier: Apache-2.0
// Intervals of what a kernel's registers hold: no value that the kernel can compute is outside.
#include "hooks/relaunch/value_ranges.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <random>
#include <string>

#include "tests/hooks/analysed_kernel.h"

namespace thermocline {
namespace {

bool holds(const Interval& interval, std::int64_t value) {
  return !interval.is_known || (interval.least <= value && value <= interval.most);
}

struct Operation {
  const char* name;
  Interval (*of)(const Interval&, const Interval&);
  std::function<std::int64_t(std::int64_t, std::int64_t)> exact;  // as a 32-bit instruction computes it
  std::string_view type;
};

std::int32_t low(std::int64_t value) { return static_cast<std::int32_t>(value); }
std::uint32_t bits(std::int64_t value) { return static_cast<std::uint32_t>(value); }

const Operation kOperations[] = {
    {"add", sum, [](auto a, auto b) { return low(a + b); }, "s32"},
    {"sub", difference, [](auto a, auto b) { return low(a - b); }, "s32"},
    {"mul", product, [](auto a, auto b) { return low(a * b); }, "s32"},
    {"div.s32", quotient, [](auto a, auto b) { return b > 0 ? a / b : 0; }, "s32"},
    {"rem.s32", remainder, [](auto a, auto b) { return b > 0 ? a % b : 0; }, "s32"},
    {"div.u32", quotient, [](auto a, auto b) { return b > 0 ? low(bits(a) / bits(b)) : 0; }, "u32"},
    {"rem.u32", remainder, [](auto a, auto b) { return b > 0 ? low(bits(a) % bits(b)) : 0; }, "u32"},
    {"and", bits_in_both, [](auto a, auto b) { return low(a & b); }, "s32"},
    {"or", bits_in_either, [](auto a, auto b) { return low(a | b); }, "s32"},
    {"xor", bits_in_either, [](auto a, auto b) { return low(a ^ b); }, "s32"},
    {"min.s32", lesser, [](auto a, auto b) { return std::min(a, b); }, "s32"},
    {"max.u32", greater, [](auto a, auto b) { return low(std::max(bits(a), bits(b))); }, "u32"},
    {"shl", shifted_left, [](auto a, auto b) { return b > 31 ? 0 : low(bits(a) << b); }, "s32"},
    {"shr.s32", shifted_right, [](auto a, auto b) { return a >> std::min<std::int64_t>(b, 31); }, "s32"},
    {"shr.u32", shifted_right, [](auto a, auto b) { return b > 31 ? 0 : low(bits(a) >> b); }, "u32"},
};

TEST(Interval, HoldsWhatInstructionsCompute) {
  std::mt19937 random(5);
  const auto any = [&]() -> std::int64_t {
    // Numbers of all lengths, and those at which they wrap around.
    const std::int64_t value = low(static_cast<std::int64_t>(random())) >> (random() % 32);
    return random() % 8 == 0 ? INT32_MAX - static_cast<std::int64_t>(random() % 3) : value;
  };
  for (const Operation& one : kOperations) {
    const bool shifts = std::string_view(one.name).starts_with("sh");
    std::uint64_t narrow = 0;
    for (int i = 0; i < 5'000; ++i) {
      std::int64_t ends[4] = {any(), any(), any(), any()};
      if (shifts || random() % 2 == 0)
        ends[2] = std::abs(ends[2]) % 40, ends[3] = ends[2] + static_cast<std::int64_t>(random() % 8);
      const Interval a = Interval::between(std::min(ends[0], ends[1]), std::max(ends[0], ends[1]));
      const Interval b = Interval::between(std::min(ends[2], ends[3]), std::max(ends[2], ends[3]));
      const Interval to = shifts ? one.of(read_as(a, one.type), b) : one.of(read_as(a, one.type), read_as(b, one.type));
      const Interval all = written_as(to, "s32");
      narrow += all != Interval::any(4) ? 1 : 0;
      const auto within = [&](const Interval& of) {
        return of.least + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(of.most - of.least + 1));
      };
      for (const std::int64_t x : {a.least, a.most, within(a)}) {
        for (const std::int64_t y : {b.least, b.most, within(b)}) {
          // Division by zero and by a negative divisor is not known at all.
          if (y <= 0 && (one.of == &quotient || one.of == &remainder)) continue;
          EXPECT_TRUE(holds(all, one.exact(x, y))) << one.name << " " << x << " " << y;
        }
      }
    }
    EXPECT_GT(narrow, 250u) << one.name << " tells nothing";
  }
}

TEST(Interval, WidenedEndsGoFarAwayWhereTheyGrow) {
  const Interval before = Interval::between(0, 10);
  EXPECT_EQ(widened(before, Interval::between(2, 8), 4), before);
  EXPECT_EQ(widened(before, Interval::between(1, 11), 4), Interval::between(0, 1 << 30));
  EXPECT_EQ(widened(before, Interval::between(0, INT32_MAX), 4), Interval::between(0, INT32_MAX));
  EXPECT_FALSE(widened(before, Interval::between(-1, 1), 8).is_known);
  const Interval far = widened(Interval::address(0), sum(Interval::address(0), Interval::number(8)), 8);
  EXPECT_EQ(far.most, Interval::kFar);
  // It goes on by short steps; by a long one, or twice itself, it may wrap around.
  EXPECT_EQ(sum(far, Interval::number(4096)), (Interval{true, 0, 4096, Interval::kFar}));
  EXPECT_FALSE(sum(far, Interval::number(std::int64_t{1} << 40)).is_known);
  EXPECT_FALSE(product(widened(before, Interval::between(0, 11), 8), Interval::number(2)).is_known);
}

const std::string kParameters = ".param .u64 k_param_0, .param .u64 k_param_1, .param .u32 k_param_2";
const std::string kBegin =
    ".reg .pred %p<9>; .reg .f32 %f<9>; .reg .b32 %r<30>; .reg .b64 %rd<30>;\n"
    "ld.param.u64 %rd1, [k_param_0]; ld.param.u64 %rd2, [k_param_1]; ld.param.u32 %r2, [k_param_2];\n"
    "mov.u32 %r1, %tid.x; mov.u32 %r3, %ctaid.x;\n";
const std::string kAddress = "mul.wide.s32 %rd4, %r1, 4; add.s64 %rd5, %rd1, %rd4;\n";
const std::string kEnd = "$END: st.global.f32 [%rd2], %f1; ret;\n";

// Four blocks of 64 threads.
bool is_never_below(const std::string& body, int bound = 100) {
  const auto one = analyse_kernel(kParameters, kBegin + body + kEnd);
  EXPECT_NE(one, nullptr) << body;
  std::uint64_t pointers[2] = {0x1000, 0x2000};
  void* parameters[] = {&pointers[0], &pointers[1], &bound};
  const PtxBlocks blocks(one->kernel);
  const ValueRanges ranges(one->kernel, one->accesses, blocks, {.threads = {64, 1, 1}, .blocks = {4, 1, 1}},
                           parameters);
  return ranges.is_never_below(0);
}

TEST(ValueRanges, FollowsWhatBranchesTell) {
  EXPECT_TRUE(is_never_below(kAddress + "ld.global.f32 %f1, [%rd5];\n"));
  EXPECT_FALSE(is_never_below(kAddress + "ld.global.f32 %f1, [%rd5+-4];\n"));
  const std::string unless_first = kAddress + "setp.eq.s32 %p1, %r1, 0; @%p1 bra $END;\n";
  EXPECT_TRUE(is_never_below(unless_first + "ld.global.f32 %f1, [%rd5];\n"));
  const std::string before = "add.s32 %r4, %r1, -1; mul.wide.s32 %rd6, %r4, 4; add.s64 %rd7, %rd1, %rd6;\n";
  EXPECT_FALSE(is_never_below(before + "ld.global.f32 %f1, [%rd7];\n"));
  EXPECT_TRUE(is_never_below("setp.eq.s32 %p1, %r1, 0; @%p1 bra $END;\n" + before + "ld.global.f32 %f1, [%rd7];\n"));
  EXPECT_TRUE(is_never_below("setp.gt.u32 %p1, %r1, 0; @!%p1 bra $END;\n" + before + "ld.global.f32 %f1, [%rd7];\n"));
  // An address computed before, from the number that is compared; unless that has been written since.
  const std::string unless_zero = "setp.eq.s32 %p1, %r1, 0; @%p1 bra $END;\n", load = "ld.global.f32 %f1, [%rd7];\n";
  EXPECT_TRUE(is_never_below(before + unless_zero + load));
  EXPECT_FALSE(is_never_below(before + unless_zero + "ld.global.f32 %f1, [%rd7+-4];\n"));
  EXPECT_FALSE(is_never_below(before + "add.s32 %r1, %r1, 0;\n" + unless_zero + load));
  EXPECT_FALSE(is_never_below(before + "setp.gt.s32 %p2, %r2, 4; @%p2 add.s32 %r1, %r1, 1;\n" + unless_zero + load));
  EXPECT_FALSE(is_never_below(before + "@%p2 add.s64 %rd7, %rd7, -4;\n" + unless_zero + load));
  // In a loop it is of the turn before.
  EXPECT_FALSE(is_never_below("mov.u64 %rd7, %rd1; $MORE: setp.eq.s32 %p1, %r1, 0; @%p1 bra $END;\n" + load +
                              "add.s32 %r4, %r1, -2; mul.wide.s32 %rd6, %r4, 4; add.s64 %rd7, %rd1, %rd6;\n"
                              "add.s32 %r1, %r1, 1; setp.lt.s32 %p2, %r1, %r2; @%p2 bra $MORE;\n"));
  // Both comparisons hold.
  EXPECT_TRUE(
      is_never_below("add.s32 %r5, %r3, %r1; setp.lt.s32 %p1, %r5, %r2; setp.gt.s32 %p2, %r1, 0;\n"
                     "and.pred %p3, %p1, %p2; @!%p3 bra $END;\n" +
                     before + "ld.global.f32 %f1, [%rd7];\n"));
  EXPECT_FALSE(
      is_never_below("setp.lt.s32 %p1, %r5, %r2; setp.gt.s32 %p2, %r1, 0; or.pred %p3, %p1, %p2;\n"
                     "@!%p3 bra $END;\n" +
                     before + "ld.global.f32 %f1, [%rd7];\n"));
  // The comparison was of another value.
  EXPECT_FALSE(is_never_below("setp.gt.s32 %p1, %r1, 0; add.s32 %r1, %r1, -1; @!%p1 bra $END;\n" + before +
                              "ld.global.f32 %f1, [%rd7];\n"));
  // An access with a guard.
  const std::string guard = "setp.ge.s32 %p1, %r1, 1;\n";
  EXPECT_TRUE(is_never_below(guard + "@!%p1 bra $END;\n" + before + "@%p1 ld.global.f32 %f1, [%rd7];\n"));
  EXPECT_TRUE(
      is_never_below("mul.wide.s32 %rd6, %r2, 4; add.s64 %rd7, %rd1, %rd6; setp.ge.s64 %p1, %rd6, 0;\n"
                     "setp.ne.s32 %p2, %r2, -3; @%p2 ld.global.f32 %f1, [%rd7];\n",
                     -3));
}

// As nvcc writes loops that it has unrolled: a rest first, then four at a time, both with one counter.
std::string unrolled(const std::string& begin, const std::string& step) {
  return "shl.b32 %r4, %r3, 8; add.s32 %r5, %r4, " + begin +
         "; mov.u32 %r6, %r4; mov.u32 %r7, 0;\n"
         "and.b32 %r8, %r2, 1; setp.eq.s32 %p1, %r8, 0; @%p1 bra $FOUR;\n"
         "mul.wide.s32 %rd6, %r4, 8; add.s64 %rd7, %rd1, %rd6;\n"
         "$ONE: ld.global.f32 %f1, [%rd7]; add.s32 %r6, %r6, 1; add.s64 %rd7, %rd7, 8; add.s32 %r7, %r7, -16;\n"
         "setp.ne.s32 %p2, %r7, -16; @%p2 bra $ONE;\n"
         "$FOUR: mul.wide.s32 %rd8, %r6, 8; add.s64 %rd9, %rd1, %rd8; add.s64 %rd10, %rd9, 16;\n"
         "$MORE: ld.global.f32 %f1, [%rd10+-16]; ld.global.f32 %f1, [%rd10+8]; add.s64 %rd10, %rd10, " +
         step +
         ";\n"
         "add.s32 %r6, %r6, 4; setp.lt.s32 %p3, %r6, %r5; @%p3 bra $MORE;\n";
}

TEST(ValueRanges, FollowsUnrolledLoops) {
  EXPECT_TRUE(is_never_below(unrolled("256", "32")));
  EXPECT_FALSE(is_never_below(unrolled("256", "-32")));
  // A product of the counter, which a comparison bounds.
  const std::string rows =
      "mov.u32 %r6, %r1;\n$MORE: setp.ge.s32 %p1, %r6, %r2; @%p1 bra $END;\n"
      "shl.b32 %r8, %r6, 5; mul.wide.s32 %rd6, %r8, 4; add.s64 %rd7, %rd1, %rd6;\n"
      "ld.global.f32 %f1, [%rd7]; add.s32 %r6, %r6, 1; bra.uni $MORE;\n";
  EXPECT_TRUE(is_never_below(rows, 100'000));
  // It wraps around within the bound.
  EXPECT_FALSE(is_never_below(rows, 1 << 27));
  // Down to a bound that is not known to be met.
  EXPECT_FALSE(
      is_never_below("mov.u32 %r6, %r2;\n$MORE: mul.wide.s32 %rd6, %r6, 4; add.s64 %rd7, %rd1, %rd6;\n"
                     "ld.global.f32 %f1, [%rd7]; add.s32 %r6, %r6, -2; setp.ne.s32 %p1, %r6, 0;\n"
                     "@%p1 bra $MORE;\n"));
  EXPECT_TRUE(
      is_never_below("mov.u32 %r6, %r2;\n$MORE: setp.lt.s32 %p1, %r6, 0; @%p1 bra $END;\n"
                     "mul.wide.s32 %rd6, %r6, 4; add.s64 %rd7, %rd1, %rd6;\n"
                     "ld.global.f32 %f1, [%rd7]; add.s32 %r6, %r6, -2; bra.uni $MORE;\n"));
}

// Each number is computed from the one before in two ways of different length. If every change went on at once, each
// would double the work of the next: 2^40 steps.
TEST(ValueRanges, ComputesOnceWhatDependsOnAComparisonInManyWays) {
  std::string chain = ".reg .s64 %c<200>; cvt.s64.s32 %c0, %r1;\n";
  for (int i = 0; i < 40; ++i) {
    const std::string x = "%c" + std::to_string(i), half = "%c" + std::to_string(50 + i);
    const std::string thrice = "%c" + std::to_string(100 + i), next = "%c" + std::to_string(i + 1);
    chain += "shr.s64 " + half + ", " + x + ", 1; mul.lo.s64 " + thrice + ", " + half + ", 3; add.s64 " + next + ", " +
             x + ", " + thrice + ";\n";
  }
  const std::string load = "add.s64 %rd6, %c40, -1; add.s64 %rd7, %rd1, %rd6; ld.global.f32 %f1, [%rd7];\n";
  EXPECT_FALSE(is_never_below(chain + load));
  EXPECT_TRUE(is_never_below(chain + "setp.eq.s32 %p1, %r1, 0; @%p1 bra $END;\n" + load));
}

TEST(ValueRanges, KnowsNothingOfWhatIsLoadedOrWrapsAround) {
  EXPECT_FALSE(
      is_never_below("ld.global.u32 %r4, [%rd1]; mul.wide.s32 %rd6, %r4, 4; add.s64 %rd7, %rd1, %rd6;\n"
                     "ld.global.f32 %f1, [%rd7];\n"));
  EXPECT_TRUE(
      is_never_below("ld.global.u32 %r4, [%rd1]; mul.wide.u32 %rd6, %r4, 4; add.s64 %rd7, %rd1, %rd6;\n"
                     "ld.global.f32 %f1, [%rd7];\n"));
  EXPECT_FALSE(
      is_never_below("mul.lo.s32 %r4, %r2, %r2; mul.wide.s32 %rd6, %r4, 4; add.s64 %rd7, %rd1, %rd6;\n"
                     "ld.global.f32 %f1, [%rd7];\n",
                     50'000));
  EXPECT_TRUE(
      is_never_below("mul.lo.s32 %r4, %r2, %r2; mul.wide.s32 %rd6, %r4, 4; add.s64 %rd7, %rd1, %rd6;\n"
                     "ld.global.f32 %f1, [%rd7];\n",
                     40'000));
  // A negative parameter.
  EXPECT_FALSE(is_never_below("mul.wide.s32 %rd6, %r2, 4; add.s64 %rd7, %rd1, %rd6; ld.global.f32 %f1, [%rd7];\n", -1));
}

// Widths: an instruction reads the lower half of a wider register, and of a number in the code.
TEST(ValueRanges, ReadsAsManyBitsAsTheInstruction) {
  const std::string load = "shl.b64 %rd6, %rd8, 2; add.s64 %rd7, %rd1, %rd6; ld.global.f32 %f1, [%rd7];\n";
  const std::string wide = "mov.u64 %rd9, 4294967295;\n";
  EXPECT_FALSE(is_never_below(wide + "cvt.s64.s32 %rd8, %rd9;\n" + load));
  EXPECT_TRUE(is_never_below(wide + "cvt.u64.u32 %rd8, %rd9;\n" + load));
  EXPECT_FALSE(is_never_below("cvt.s32.s32 %rd8, %r1;\n" + load));
  EXPECT_FALSE(is_never_below("mul.wide.s32 %rd8, %r1, 4294967292;\n" + load));
  EXPECT_TRUE(is_never_below("mul.wide.u32 %rd8, %r1, 4294967292;\n" + load));
  EXPECT_FALSE(is_never_below("min.s32 %r6, %r1, 4294967295; cvt.s64.s32 %rd8, %r6;\n" + load));
  // These comparisons hold for some thread: the bound is -1, and below all but the last numbers without a sign.
  const std::string behind = "@!%p1 bra $END;\n" + std::string("mov.s64 %rd8, -1;\n") + load;
  EXPECT_FALSE(is_never_below("mov.u32 %r6, -1; setp.eq.b32 %p1, %r6, 4294967295;\n" + behind));
  EXPECT_FALSE(is_never_below("setp.ge.s32 %p1, %r1, 4294967295;\n" + behind));
  EXPECT_FALSE(is_never_below("mov.u32 %r6, -20; setp.lt.u32 %p1, %r6, 4294967280;\n" + behind));
  EXPECT_TRUE(is_never_below("setp.lt.s32 %p1, %r1, 4294967295;\n" + behind));
}

}  // namespace
}  // namespace thermocline
