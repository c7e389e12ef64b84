// SPDX-License-Identifier: Apache-2.0
// Facts proven of kernels from their PTX, and facts that must not be. The kernels are written as nvcc 13.0 writes them.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>

#include "tests/hooks/analysed_kernel.h"

namespace thermocline {
namespace {

const std::string kRegisters =
    ".reg .pred %p<9>; .reg .f32 %f<20>; .reg .b32 %r<30>; .reg .b64 %rd<30>; .reg .b16 %rs<9>; .shared .align 4 .b8 "
    "shared[1024];\n";
// The item is in %r1, its bound in %r2; %rd1 and %rd2 are pointers to what is read and written.
const std::string kBegin =
    "ld.param.u64 %rd1, [k_param_0]; ld.param.u64 %rd2, [k_param_1]; ld.param.u32 %r2, [k_param_2];\n"
    "mov.u32 %r3, %ctaid.x; mov.u32 %r4, %ntid.x; mov.u32 %r5, %tid.x; mad.lo.s32 %r1, %r3, %r4, %r5;\n";
const std::string kGuard = "setp.ge.s32 %p1, %r1, %r2; @%p1 bra $END;\n";
const std::string kAddresses =
    "cvta.to.global.u64 %rd3, %rd1; mul.wide.s32 %rd4, %r1, 4; add.s64 %rd5, %rd3, %rd4;\n"
    "cvta.to.global.u64 %rd6, %rd2; add.s64 %rd7, %rd6, %rd4;\n";
const std::string kLoad = "ld.global.f32 %f1, [%rd5];\n", kStore = "st.global.f32 [%rd7], %f1;\n";
const std::string kEnd = "$END: ret;\n";

std::unique_ptr<AnalysedKernel> analyse(const std::string& body) {
  return analyse_kernel(".param .u64 k_param_0, .param .u64 k_param_1, .param .u32 k_param_2, .param .u64 k_param_3",
                        kRegisters + body);
}

// With `body` between the addresses and the store.
std::string refused(const std::string& body) {
  const auto one = analyse(kBegin + kGuard + kAddresses + kLoad + body + kStore + kEnd);
  return one == nullptr ? "not parsed" : one->refused();
}

// Bytes that are proven to be written through the second parameter; -1: none are.
long written(const AnalysedKernel& one, unsigned blocks, unsigned threads, int bound) {
  std::uint64_t pointers[2] = {0x1000, 0x2000}, other = 0;
  void* parameters[] = {&pointers[0], &pointers[1], &bound, &other};
  PtxProof::Result result;
  if (!one.proof->holds_for({.threads = {threads, 1, 1}, .blocks = {blocks, 1, 1}}, parameters, &result)) return -1;
  for (std::size_t i = 0; i < one.accesses.words.size(); ++i) {
    if (one.accesses.words[i].parameter == 1) return static_cast<long>(result.written_bytes[i]);
  }
  return -1;
}

TEST(PtxProof, HoldsForAnElementOfEachThread) {
  const auto one = analyse(kBegin + kGuard + kAddresses + kLoad + kStore + kEnd);
  ASSERT_NE(one, nullptr);
  EXPECT_EQ(one->unknown(), "");
  EXPECT_EQ(one->refused(), "");
  ASSERT_GE(one->accesses.words.size(), 2u);
  EXPECT_TRUE(one->accesses.words[0].reads && !one->accesses.words[0].writes);
  EXPECT_TRUE(one->accesses.words[1].writes && !one->accesses.words[1].reads);
  EXPECT_EQ(written(*one, 4, 256, 1000), 4000);
  // Fewer threads than the bound, and none.
  EXPECT_EQ(written(*one, 2, 256, 1000), 2048);
  EXPECT_EQ(written(*one, 2, 256, -3), 0);
}

TEST(PtxProof, HoldsInPlaceForTheThreadsOwnElementAlone) {
  const std::string own = "ld.global.f32 %f1, [%rd7];\n", next = "ld.global.f32 %f1, [%rd7+4];\n";
  EXPECT_EQ(analyse(kBegin + kGuard + kAddresses + own + kStore + kEnd)->refused(), "");
  EXPECT_EQ(analyse(kBegin + kGuard + kAddresses + next + kStore + kEnd)->refused(),
            "it reads from what it writes to, at other places than the thread's own");
}

const std::string kLoopBegin = "mov.u32 %r10, %nctaid.x; mul.lo.s32 %r11, %r10, %r4;\n";
const std::string kLoopEnd = "add.s32 %r1, %r1, %r11; setp.lt.s32 %p2, %r1, %r2; @%p2 bra $LOOP;\n";

TEST(PtxProof, HoldsForLoopsOverElements) {
  const auto one = analyse(kBegin + kGuard + kLoopBegin + "$LOOP:\n" + kAddresses + kLoad + kStore + kLoopEnd + kEnd);
  ASSERT_NE(one, nullptr);
  EXPECT_EQ(one->refused(), "");
  EXPECT_EQ(written(*one, 2, 256, 1000), 4000);
}

TEST(PtxProof, DoesNotHoldForLoopsThatLeaveSomethingOut) {
  const auto loop = [](const std::string& body, const std::string& before = "") {
    return analyse(kBegin + kGuard + kLoopBegin + before + "$LOOP:\n" + body + kLoopEnd + kEnd)->refused();
  };
  // It ends early, stores to the first element each time, or by the thread's number instead of the item's.
  EXPECT_NE(loop(kAddresses + kLoad + kStore + "setp.gt.f32 %p3, %f1, 0f00000000; @%p3 bra $END;\n"), "");
  EXPECT_NE(loop(kLoad + kStore, kAddresses), "");
  EXPECT_NE(
      loop("setp.gt.f32 %p3, 0f00000000, 0f00000000; @%p3 bra $NEXT;\n" + kAddresses + kLoad + kStore + "$NEXT:\n"),
      "");
  // The step is not the number of threads: known when it is launched.
  const auto one =
      analyse(kBegin + kGuard + "mov.u32 %r11, 7;\n$LOOP:\n" + kAddresses + kLoad + kStore + kLoopEnd + kEnd);
  EXPECT_EQ(written(*one, 2, 256, 1000), -1);
}

TEST(PtxProof, DoesNotHoldWhereAPathStoresNothing) {
  EXPECT_EQ(refused("setp.gt.f32 %p3, %f1, 0f00000000; @%p3 bra $END;\n"), "it does not store on every path");
  const auto one = analyse(kBegin + kAddresses + kLoad + "@%p1 st.global.f32 [%rd7], %f1;\n" + kEnd);
  EXPECT_NE(one->refused(), "");
}

TEST(PtxProof, DoesNotHoldForOtherPlaces) {
  const std::string half = "shr.u32 %r9, %r1, 1; mul.wide.s32 %rd4, %r9, 4;\n";
  EXPECT_NE(analyse(kBegin + kGuard + half + "add.s64 %rd7, %rd2, %rd4; mov.f32 %f1, 0f00000000;\n" + kStore + kEnd)
                ->refused(),
            "");
  // Elements of eight bytes of which four are written.
  const std::string wide = "mul.wide.s32 %rd4, %r1, 8; add.s64 %rd7, %rd2, %rd4; mov.f32 %f1, 0f00000000;\n";
  EXPECT_NE(analyse(kBegin + kGuard + wide + kStore + kEnd)->refused(), "");
  // Sums that stop at the largest number instead of wrapping around: all beyond it have one place.
  const std::string saturated = "add.sat.s32 %r9, %r1, %r2; sub.s32 %r10, %r9, %r2; mul.wide.s32 %rd4, %r10, 4;\n";
  EXPECT_NE(
      analyse(kBegin + kGuard + saturated + "add.s64 %rd7, %rd2, %rd4; mov.f32 %f1, 0f00000000;\n" + kStore + kEnd)
          ->refused(),
      "");
  const std::string wraps = "add.s32 %r9, %r1, %r2; sub.s32 %r10, %r9, %r2; mul.wide.s32 %rd4, %r10, 4;\n";
  EXPECT_EQ(analyse(kBegin + kGuard + wraps + "add.s64 %rd7, %rd2, %rd4; mov.f32 %f1, 0f00000000;\n" + kStore + kEnd)
                ->refused(),
            "");
  // Blocks of 128, launched with 256: two threads have one number.
  const std::string fixed =
      "ld.param.u64 %rd1, [k_param_0]; ld.param.u64 %rd2, [k_param_1]; ld.param.u32 %r2, [k_param_2];\n"
      "mov.u32 %r3, %ctaid.x; mov.u32 %r5, %tid.x; shl.b32 %r4, %r3, 7; add.s32 %r1, %r4, %r5;\n";
  const auto one = analyse(fixed + kGuard + kAddresses + kLoad + kStore + kEnd);
  ASSERT_EQ(one->refused(), "");
  EXPECT_EQ(written(*one, 8, 128, 1000), 4000);
  EXPECT_EQ(written(*one, 8, 256, 1000), -1);
}

TEST(PtxProof, TellsScattersFromPlacesLeftOutAndFromRows) {
  const auto why = [](const std::string& body) {
    return analyse(kBegin + kGuard + kAddresses + body + kEnd)->refused();
  };
  const std::string index = "ld.global.u32 %r9, [%rd5];", add = " add.s64 %rd8, %rd6, %rd9; ";
  const std::string value = "mov.f32 %f1, 0f00000000; ", store = "st.global.f32 [%rd8], %f1;\n";
  const std::string scattered =
      "it stores to places that are not linear in the thread's number, scattered or taken apart by / and %";
  EXPECT_EQ(why(value + index + "mul.wide.s32 %rd9, %r9, 4;" + add + store), scattered);
  EXPECT_EQ(why(value + "rem.s32 %r9, %r1, 7; mul.wide.s32 %rd9, %r9, 4;" + add + store), scattered);
  const std::string left_out = "the places that it stores to are not side by side from its buffer's begin on";
  EXPECT_EQ(why(value + "mul.wide.s32 %rd9, %r1, 8;" + add + store), left_out);
  // The first and the third of three.
  EXPECT_EQ(why(value + "mul.wide.s32 %rd9, %r1, 12;" + add + store + "st.global.f32 [%rd8+8], %f1;\n"), left_out);
  // Not from the begin of the buffer on.
  EXPECT_EQ(why(value + "st.global.f32 [%rd7+4], %f1;\n"), left_out);
  // As far from one another as a parameter says.
  EXPECT_EQ(why(value + "mad.lo.s32 %r9, %r2, 2, %r1; mul.wide.s32 %rd9, %r9, 4;" + add + kStore + store),
            "a thread stores to several places that are not in a row, as in an unrolled loop over a row, or in nested "
            "loops");
  EXPECT_EQ(why(value + "st.global.f32 [%rd6], %f1;\n"), "its threads store to the same place");
}

TEST(PtxProof, SaysThroughWhichParameterALaunchDoesNotStoreAsProven) {
  const auto one = analyse(kBegin + kGuard + kAddresses + kLoad + kStore + kEnd);
  std::uint64_t pointers[2] = {0x1000, 0x2000}, other = 0;
  int bound = 1000;
  void* parameters[] = {&pointers[0], &pointers[1], &bound, &other};
  PtxProof::Result result;
  // Threads beside one another in y store to one place.
  ASSERT_FALSE(one->proof->holds_for({.threads = {32, 2, 1}, .blocks = {8, 1, 1}}, parameters, &result));
  ASSERT_GE(result.not_proven, 0);
  EXPECT_EQ(one->accesses.words[static_cast<std::size_t>(result.not_proven)].parameter, 1u);
  ASSERT_TRUE(one->proof->holds_for({.threads = {32, 1, 1}, .blocks = {8, 1, 1}}, parameters, &result));
  EXPECT_EQ(result.not_proven, -1);
}

// Written to fool it: each result depends on something else than what is read.
TEST(PtxProof, RefusesWhatDependsOnSomethingElse) {
  EXPECT_EQ(refused("atom.global.add.u32 %r9, [%rd5], 1; cvt.rn.f32.u32 %f1, %r9;\n"), "it has atomic operations");
  EXPECT_EQ(refused("red.global.add.f32 [%rd7], %f1;\n"), "it has atomic operations");
  EXPECT_EQ(refused("ld.global.u32 %r9, [counter]; cvt.rn.f32.u32 %f1, %r9;\n"), "it uses variables of the module");
  EXPECT_EQ(refused("mov.u64 %rd9, counter; ld.global.u32 %r9, [%rd9]; cvt.rn.f32.u32 %f1, %r9;\n"),
            "it uses variables of the module");
  EXPECT_EQ(refused("ld.const.f32 %f1, [table];\n"), "it uses variables of the module");
  EXPECT_EQ(refused("mov.u32 %r9, %clock; cvt.rn.f32.u32 %f1, %r9;\n"), "it reads a clock");
  EXPECT_EQ(refused("mov.u64 %rd9, %globaltimer; cvt.rn.f32.u64 %f1, %rd9;\n"), "it reads a clock");
  EXPECT_EQ(refused("mov.u32 %r9, %smid; cvt.rn.f32.u32 %f1, %r9;\n"), "it reads a special register");
  EXPECT_EQ(refused("ld.local.f32 %f1, [%rd5];\n"), "it uses shared or local memory");
  EXPECT_EQ(refused("mov.u64 %rd9, shared; cvta.shared.u64 %rd10, %rd9; ld.f32 %f1, [%rd10];\n"),
            "it uses shared or local memory");
  EXPECT_EQ(refused("ld.volatile.global.f32 %f1, [%rd5];\n"), "it has volatile accesses");
  EXPECT_EQ(refused("cvt.rn.f32.s32 %f1, %r20;\n"), "it reads a register that was not written");
  EXPECT_EQ(refused("vote.sync.ballot.b32 %r9, %p1, -1; cvt.rn.f32.s32 %f1, %r9;\n"), "its threads exchange values");
  EXPECT_EQ(refused("bar.sync 1;\n"), "its threads exchange values");
  EXPECT_EQ(refused("call.uni printf, (%r1);\n"), "not parsed");
  EXPECT_EQ(refused("unheard_of.b32 %r9, %r1;\n"), "an instruction that is not followed");
}

// As cuda_fp16.h has it: hexp(), h2sqrt() and a comparison.
const std::string kHalfExp =
    "{.reg.b32         f, C, nZ;\n .reg.b16         h,r;\n  mov.b16         h,%rs2;\n  cvt.f32.f16     f,h;\n"
    "  mov.b32         C, 0x3fb8aa3bU;\n  mov.b32         nZ, 0x80000000U;\n  fma.rn.f32      f,f,C,nZ;\n"
    "  ex2.approx.ftz.f32  f,f;\n  cvt.rn.f16.f32      r,f;\n"
    "{.reg.b16 spc, ulp, p;\n  mov.b16 spc,0X1F79U;\n  mov.b16 ulp,0x9400U;\n  set.eq.f16.f16 p,h, spc;\n"
    "  fma.rn.f16 r,p,ulp,r;\n}\n"
    "{.reg.b16 spc, ulp, p;\n  mov.b16 spc,0X25CFU;\n  mov.b16 ulp,0x9400U;\n  set.eq.f16.f16 p,h, spc;\n"
    "  fma.rn.f16 r,p,ulp,r;\n}\n  mov.b16         %rs1,r;\n}\n";
const std::string kHalfPair =
    "{.reg.b16         hl, hu;\n .reg.b32         fl, fu;\n  mov.b32         {hl, hu}, %r9;\n"
    "  cvt.f32.f16     fl, hl;\n  cvt.f32.f16     fu, hu;\n  sqrt.approx.ftz.f32   fl, fl;\n"
    "  sqrt.approx.ftz.f32   fu, fu;\n  cvt.rn.f16.f32      hl, fl;\n  cvt.rn.f16.f32      hu, fu;\n"
    "  mov.b32         %r9, {hl, hu};\n}\n";
const std::string kHalfTest =
    "{ .reg .pred __$temp3;\n  setp.gt.f16  __$temp3, %rs1, %rs2;\n  selp.u16 %rs3, 1, 0, __$temp3;}\n";

TEST(PtxProof, HoldsForInlineAssemblyWithRegistersOfItsOwn) {
  EXPECT_EQ(refused("cvt.rn.f16.f32 %rs2, %f1;\n" + kHalfExp + kHalfTest + "cvt.f32.f16 %f1, %rs1;\n"), "");
  EXPECT_EQ(refused("mov.b32 %r9, %f1;\n" + kHalfPair + kHalfPair + "mov.b32 %f1, %r9;\n"), "");
}

// %r1 of the scope is another register, and gone after it.
TEST(PtxProof, TellsRegistersOfScopesApart) {
  EXPECT_EQ(refused("{ .reg .b32 %r1; mov.u32 %r1, 3; }\n"), "");
  const auto stores_at = [](const std::string& scope) {
    return analyse(kBegin + kGuard + scope + kAddresses + kLoad + kStore + kEnd)->refused();
  };
  EXPECT_EQ(stores_at("{ .reg .b32 %r1; mov.u32 %r1, 3; }\n"), "");
  EXPECT_NE(stores_at("{ .reg .b32 %r0; mov.u32 %r1, 3; }\n"), "");
  EXPECT_EQ(refused("{ .reg .b32 t<4>; { .reg .b32 t<2>; mov.u32 t0, 1; } mov.u32 %r9, t0; }\n"),
            "it reads a register that was not written");
  EXPECT_EQ(refused("{ .reg .b32 t<4>; mov.u32 t0, 2; { .reg .b32 t<2>; mov.u32 t0, 1; mov.u32 %r8, t3; } }\n"),
            "it reads a register that was not written");
  // Labels of scopes are not told apart.
  EXPECT_EQ(analyse("{ bra $L; $L: }\n{ bra $L; $L: }\n" + kBegin), nullptr);
}

TEST(PtxProof, NamesWhatItRefuses) {
  const auto text = [](const std::string& body) {
    return analyse(kBegin + kGuard + kAddresses + kLoad + body + kStore + kEnd)->proof->refused().text();
  };
  EXPECT_EQ(text(""), "");
  EXPECT_EQ(text("mov.u64 %rd9, %clock64;\n"), "it reads a clock: %clock64");
  EXPECT_EQ(text("unheard_of.b32 %r9, %r1;\n"), "an instruction that is not followed: unheard_of");
  EXPECT_EQ(text("copysign.f32 %f1, %f1, %f1;\n"), "");
  EXPECT_EQ(text("cnot.b32 %r9, %r1;\n"), "an instruction of another kind: cnot");
  std::string_view last;
  const std::string calling = ".entry k() { call.uni f, (); ret; }";
  EXPECT_FALSE(parse_ptx_kernel(calling, PtxIndex(calling), "k", &last).has_value());
  EXPECT_EQ(last, "call.uni");
}

// Half of the word, loaded by itself.
TEST(PtxProof, SaysThatAPartOfAnAddressIsComputedWith) {
  const auto one = analyse(kBegin + kGuard + kAddresses +
                           "ld.param.u32 %r9, [k_param_1+4]; cvt.rn.f32.u32 %f1, %r9;\n" + kStore + kEnd);
  ASSERT_EQ(one->refused(), "");
  for (const ParameterWord& word : one->accesses.words) EXPECT_EQ(word.is_value, word.parameter == 1);
  const auto before =
      analyse("ld.param.v2.u32 {%r8, %r9}, [k_param_1];\n" + kBegin + kGuard + kAddresses + kLoad + kStore + kEnd);
  for (const ParameterWord& word : before->accesses.words) EXPECT_EQ(word.is_value, word.parameter == 1);
}

// The launch finds that out: the word is an address, and is used as a value.
TEST(PtxProof, SaysThatAnAddressIsComputedWith) {
  const auto one = analyse(kBegin + kGuard + kAddresses + "cvt.u32.u64 %r9, %rd5; cvt.rn.f32.u32 %f1, %r9;\n" + kLoad +
                           kStore + kEnd);
  EXPECT_TRUE(one->accesses.words[0].is_value);
  EXPECT_FALSE(one->accesses.words[1].is_value);
}

// Whether it is null does not depend on where the buffer is; what is computed from it may.
TEST(PtxProof, TellsATestForNullFromComputingWithAnAddress) {
  const auto is_value = [](const std::string& test) {
    const auto one =
        analyse(kBegin + "ld.param.u64 %rd20, [k_param_3]; mov.u64 %rd21, %rd20;\n" + kGuard + kAddresses + kLoad +
                test + "@%p3 bra $WITHOUT;\nld.global.f32 %f1, [%rd20];\n$WITHOUT:\n" + kStore + kEnd);
    EXPECT_EQ(one->refused(), "") << test;
    const auto word = std::ranges::find(one->accesses.words, 3u, &ParameterWord::parameter);
    return word == one->accesses.words.end() || word->is_value;
  };
  EXPECT_FALSE(is_value("setp.eq.s64 %p3, %rd20, 0;\n"));
  EXPECT_FALSE(is_value("setp.ne.u64 %p3, %rd20, 0;\n"));
  EXPECT_TRUE(is_value("setp.lt.s64 %p3, %rd20, 0;\n"));
  EXPECT_TRUE(is_value("setp.eq.s64 %p3, %rd20, 4096;\n"));
  EXPECT_TRUE(is_value("setp.eq.s64 %p3, %rd20, %rd1;\n"));
  EXPECT_TRUE(is_value("add.s64 %rd22, %rd20, %rd4; setp.eq.s64 %p3, %rd22, 0;\n"));
  EXPECT_TRUE(is_value("shl.b64 %rd22, %rd20, 32; setp.eq.s64 %p3, %rd22, 0;\n"));
  EXPECT_TRUE(is_value("setp.eq.s64 %p3, %rd21, 0;\n"));
}

// A pointer to where one buffer ends and another one begins may be used for either.
TEST(PtxProof, TellsWhetherSomethingIsReadBeforeAPointer) {
  const auto reach = [](const std::string& load, const std::string& loop = "") {
    const std::string before = loop.empty() ? "" : kLoopBegin + "$LOOP:\n";
    const auto one = analyse(kBegin + kGuard + before + kAddresses + load + kStore + loop + kEnd);
    EXPECT_EQ(one->refused(), "") << load;
    std::uint64_t pointers[2] = {0x1000, 0x2000}, other = 0;
    int bound = 1000;
    void* parameters[] = {&pointers[0], &pointers[1], &bound, &other};
    const auto word = std::ranges::find(one->accesses.words, 0u, &ParameterWord::parameter);
    return one->proof->reach_of(static_cast<std::size_t>(word - one->accesses.words.begin()),
                                {.threads = {256, 1, 1}, .blocks = {4, 1, 1}}, parameters);
  };
  EXPECT_EQ(reach(kLoad), PlacesReach::kFromBegin);
  EXPECT_EQ(reach("ld.global.f32 %f1, [%rd5+64];\n"), PlacesReach::kFromBegin);
  EXPECT_EQ(reach(kLoad, kLoopEnd), PlacesReach::kFromBegin);
  EXPECT_EQ(reach("ld.global.f32 %f1, [%rd5+-4];\n"), PlacesReach::kBefore);
  EXPECT_EQ(reach(kLoad + "ld.global.f32 %f2, [%rd5+-4];\n"), PlacesReach::kBefore);
  // From the bound down: to 4 bytes behind the pointer, and to where it leads less 4.
  const std::string down = "sub.s32 %r9, %r2, %r1; mul.wide.s32 %rd9, %r9, 4; add.s64 %rd10, %rd3, %rd9;\n";
  EXPECT_EQ(reach(down + "ld.global.f32 %f1, [%rd10+-4];\n"), PlacesReach::kFromBegin);
  EXPECT_EQ(reach(down + "ld.global.f32 %f1, [%rd10+-8];\n"), PlacesReach::kBefore);
  const std::string index = "ld.global.u32 %r9, [%rd5]; mul.wide.s32 %rd9, %r9, 4; add.s64 %rd10, %rd3, %rd9;\n";
  EXPECT_EQ(reach(index + "ld.global.f32 %f1, [%rd10];\n"), PlacesReach::kUnknown);
  // Within a bound that is not cut: wherever the address is computed.
  const std::string first = "setp.lt.s32 %p3, %r1, 1; @%p3 bra $FIRST; ";
  EXPECT_EQ(reach(kLoad + first + "ld.global.f32 %f2, [%rd5+-4];\n$FIRST:\n"), PlacesReach::kFromBegin);
  EXPECT_EQ(reach(kLoad + first + "ld.global.f32 %f2, [%rd5+-8];\n$FIRST:\n"), PlacesReach::kUnknown);
  const std::string again = "mul.wide.s32 %rd9, %r1, 4; add.s64 %rd10, %rd3, %rd9; ";
  EXPECT_EQ(reach(kLoad + first + again + "ld.global.f32 %f2, [%rd10+-4];\n$FIRST:\n"), PlacesReach::kFromBegin);
}

// Work that is submitted later may overtake the work that is submitted behind the kernel.
TEST(PtxAccesses, MayWaitWhereALoopReadsWhatOthersWrite) {
  const auto may_wait = [](const std::string& load, const std::string& back) {
    return analyse(kBegin + kAddresses + "$LOOP:\n" + load + back + kEnd)->accesses.may_wait;
  };
  const std::string back = "setp.eq.s32 %p1, %r9, 0; @%p1 bra $LOOP;\n", on = "@%p1 bra $END;\n";
  for (const char* const load : {"ld.volatile.global.u32 %r9, [%rd5];\n", "ld.acquire.gpu.global.u32 %r9, [%rd5];\n",
                                 "atom.global.or.b32 %r9, [%rd5], 0;\n", "ld.global.cv.u32 %r9, [%rd5];\n",
                                 "ld.global.u32 %r9, [%rd5];\nmembar.gl;\n"}) {
    EXPECT_TRUE(may_wait(load, back)) << load;
    EXPECT_FALSE(may_wait(load, on)) << load;
  }
  EXPECT_FALSE(may_wait("ld.global.u32 %r9, [%rd5];\n", back));
  // Others than the threads of the block write nothing to its memory.
  EXPECT_FALSE(may_wait("ld.volatile.shared.u32 %r9, [shared];\n", back));
}

TEST(PtxAccesses, OfAtomicOperationsWithoutAResultReadToo) {
  const auto one = analyse(kBegin + kAddresses + "red.global.add.f32 [%rd7], %f1;\n" + kEnd);
  EXPECT_TRUE(one->accesses.words[1].reads);
  EXPECT_TRUE(one->accesses.words[1].writes);
}

TEST(PtxAccesses, OfPointersThatAreFoundInMemoryAreUnknown) {
  const auto unknown = [](const std::string& body) {
    return analyse(kBegin + kGuard + kAddresses + body + kEnd)->unknown();
  };
  EXPECT_EQ(unknown("ld.global.u64 %rd9, [%rd5]; st.global.f32 [%rd9], 0f00000000;\n"),
            "it follows pointers that it finds in memory");
  EXPECT_EQ(unknown("ld.global.u64 %rd9, [counter]; ld.global.f32 %f1, [%rd9];\n"),
            "it follows pointers that it finds in memory");
  // In two halves; and by way of shared memory.
  EXPECT_EQ(unknown("ld.global.v2.u32 {%r8, %r9}, [%rd5]; mov.b64 %rd9, {%r8, %r9}; st.global.u32 [%rd9], 0;\n"),
            "it computes an address that is not followed");
  EXPECT_NE(
      unknown(
          "ld.global.u32 %r8, [%rd5]; ld.global.u32 %r9, [%rd5+4]; cvt.u64.u32 %rd10, %r8; cvt.u64.u32 %rd11, %r9;\n"
          "shl.b64 %rd12, %rd11, 32; or.b64 %rd9, %rd10, %rd12; st.global.u32 [%rd9], 0;\n"),
      "");
  EXPECT_NE(unknown("st.shared.u64 [shared], %rd5; ld.shared.u64 %rd9, [shared]; st.global.u32 [%rd9], 0;\n"), "");
  EXPECT_NE(unknown("mov.b64 %rd9, k_param_3; st.global.u32 [%rd9], 0;\n"), "");
  // An index from memory is none.
  EXPECT_EQ(unknown("ld.global.u32 %r8, [%rd5]; mul.wide.u32 %rd9, %r8, 4; add.s64 %rd10, %rd6, %rd9;\n"
                    "st.global.u32 [%rd10], 0;\n"),
            "");
}

}  // namespace
}  // namespace thermocline
