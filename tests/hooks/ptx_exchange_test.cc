// SPDX-License-Identifier: Apache-2.0
// Kernels whose threads exchange values through shared memory and shuffles: which launches are proven to do so in one
// order, and that random ones of these come out the same however their threads take turns.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tests/hooks/analysed_kernel.h"

namespace thermocline {
namespace {

const std::string kParameters = ".param .u64 k_param_0, .param .u64 k_param_1, .param .u32 k_param_2";
// The thread in %r5, the item in %r1; %rd5 and %rd7 lead to its own element of what is read and of what is written;
// %r20: the thread's own place in shared memory of 64 elements.
const std::string kBegin =
    ".reg .pred %p<9>; .reg .f32 %f<20>; .reg .b32 %r<60>; .reg .b64 %rd<30>; .shared .align 4 .b8 shared[256];\n"
    ".shared .align 4 .b8 other[256];\n"
    "ld.param.u64 %rd1, [k_param_0]; ld.param.u64 %rd2, [k_param_1]; ld.param.u32 %r2, [k_param_2];\n"
    "mov.u32 %r3, %ctaid.x; mov.u32 %r4, %ntid.x; mov.u32 %r5, %tid.x; mad.lo.s32 %r1, %r3, %r4, %r5;\n"
    "cvta.to.global.u64 %rd3, %rd1; mul.wide.s32 %rd4, %r1, 4; add.s64 %rd5, %rd3, %rd4;\n"
    "cvta.to.global.u64 %rd6, %rd2; add.s64 %rd7, %rd6, %rd4;\n"
    "ld.global.u32 %r8, [%rd5]; shl.b32 %r18, %r5, 2; mov.u32 %r19, shared; add.s32 %r20, %r19, %r18;\n";
const std::string kPut = "st.shared.u32 [%r20], %r8;\n", kBarrier = "bar.sync 0;\n";
// Loads the value of the next thread; 64 wrap around.
const std::string kGetNext =
    "add.s32 %r30, %r5, 1; and.b32 %r31, %r30, 63; shl.b32 %r32, %r31, 2; add.s32 %r33, %r19, %r32;\n"
    "ld.shared.u32 %r8, [%r33];\n";
const std::string kEnd = "$END: st.global.u32 [%rd7], %r8;\nret;\n";

std::unique_ptr<AnalysedKernel> analyse(const std::string& body) {
  return analyse_kernel(kParameters, kBegin + body + kEnd);
}

bool holds(const AnalysedKernel& one, unsigned threads, int number, std::uint64_t dynamic_bytes = 0) {
  std::uint64_t pointers[2] = {0x10000, 0x20000};
  void* parameters[] = {&pointers[0], &pointers[1], &number};
  PtxProof::Result result;
  const LaunchShape shape{.threads = {threads, 1, 1}, .blocks = {4, 1, 1}, .shared_bytes = dynamic_bytes};
  const bool is_proven = !one.proof->refused() && one.proof->holds_for(shape, parameters, &result);
  if (is_proven) {
    EXPECT_EQ(result.written_bytes.at(1), 4 * 4 * threads);
  }
  return is_proven;
}
bool holds(const std::string& body, unsigned threads = 64, int number = 0) {
  const auto one = analyse(body);
  EXPECT_NE(one, nullptr);
  return one != nullptr && holds(*one, threads, number);
}

TEST(PtxExchange, HoldsWhereBarriersStandBetween) {
  EXPECT_TRUE(holds(kPut + kBarrier + kGetNext));
  // One for each element, and none that is read before it was written.
  EXPECT_FALSE(holds(kPut + kBarrier + kGetNext, 32));
  EXPECT_TRUE(holds(kPut + "ld.shared.u32 %r8, [%r20];\n"));
  EXPECT_FALSE(holds(kPut + "ld.shared.u32 %r8, [%r20];\n", 128)) << "places beyond the variable, in the next one";
  EXPECT_TRUE(holds(kPut + kBarrier + kGetNext + kBarrier + kPut + kBarrier + kGetNext));
}

TEST(PtxExchange, DoesNotHoldWithoutThem) {
  EXPECT_FALSE(holds(kPut + kGetNext)) << "what another thread may not have written yet";
  EXPECT_FALSE(holds(kPut + kBarrier + kGetNext + kPut)) << "what another thread may not have read yet";
  EXPECT_FALSE(holds("st.shared.u32 [shared], %r8;\n" + kBarrier + "ld.shared.u32 %r8, [shared];\n"))
      << "all write to one place";
  EXPECT_FALSE(holds(kGetNext)) << "what was there before";
  EXPECT_FALSE(holds(kPut + "bar.sync 1;\n" + kGetNext));
  EXPECT_FALSE(holds(kPut + "bar.sync 0, 32;\n" + kGetNext));
}

TEST(PtxExchange, HoldsForSumsOverABlock) {
  const std::string tree =
      kPut + kBarrier +
      "shr.u32 %r40, %r4, 1;\n$LOOP: setp.ge.u32 %p1, %r5, %r40; @%p1 bra $NEXT;\n"
      "shl.b32 %r41, %r40, 2; add.s32 %r42, %r20, %r41; ld.shared.u32 %r43, [%r42]; ld.shared.u32 %r44, [%r20];\n"
      "add.s32 %r45, %r44, %r43; st.shared.u32 [%r20], %r45;\n$NEXT:\n" +
      kBarrier + "setp.gt.u32 %p2, %r40, 1; shr.u32 %r40, %r40, 1; @%p2 bra $LOOP;\nld.shared.u32 %r8, [shared];\n";
  EXPECT_TRUE(holds(tree));
  EXPECT_TRUE(holds(tree, 32));
  std::string without = tree;
  without.erase(without.rfind(kBarrier), kBarrier.size());
  EXPECT_FALSE(holds(without)) << "no barrier in the loop";
}

TEST(PtxExchange, HoldsWhereMemoryDecidesNothingAboutIt) {
  // A branch by what was loaded, behind which nothing is exchanged; and a loop as long as a parameter says.
  const std::string choice = "setp.gt.s32 %p1, %r8, 7; @%p1 bra $LESS;\nadd.s32 %r8, %r8, 3;\n$LESS:\n";
  EXPECT_TRUE(holds(choice + kPut + kBarrier + kGetNext));
  const std::string loop = "mov.u32 %r50, 0;\n$LOOP: add.s32 %r50, %r50, 1;\n" + kPut + kBarrier + kGetNext + kBarrier +
                           "setp.lt.s32 %p3, %r50, %r2; @%p3 bra $LOOP;\n";
  const auto one = analyse(loop);
  EXPECT_TRUE(holds(*one, 64, 3));
  EXPECT_TRUE(holds(*one, 64, 5));
  EXPECT_FALSE(holds(*one, 64, 1 << 30)) << "too long to be followed";
  EXPECT_TRUE(holds(*one, 64, 7)) << "a long one leaves something for others";
  EXPECT_TRUE(holds(*one, 64, 3)) << "what has been found is known";
  const auto decides = [](const std::string& what) {
    return "setp.gt.s32 %p1, " + what + ", 7; @%p1 bra $LESS;\n" + kPut + "$LESS:\n" + kBarrier +
           "ld.shared.u32 %r8, [%r20];\n";
  };
  EXPECT_FALSE(holds(decides("%r8"))) << "memory decides what is stored";
  EXPECT_FALSE(holds(decides("%r3"))) << "another block stores something else";
  EXPECT_FALSE(holds("setp.gt.s32 %p1, %r8, 7; @%p1 bra $LESS;\n" + kBarrier + "$LESS:\n" + kPut));
  EXPECT_FALSE(holds("shl.b32 %r21, %r8, 2; add.s32 %r22, %r19, %r21; st.shared.u32 [%r22], %r8;\n"));
  EXPECT_FALSE(holds("@%p1 st.shared.u32 [%r20], %r8;\n"));
}

// Addresses of all memory, and of a cluster's shared memory, are not followed.
TEST(PtxExchange, DoesNotHoldWhereSharedMemoryIsReadByOtherAddresses) {
  const std::string next = "add.s64 %rd9, %rd8, 4; ld.u32 %r8, [%rd9];\n";
  for (const std::string taken : {"mov.u64 %rd8, shared;\n", "mov.u64 %rd8, shared; cvta.shared.u64 %rd8, %rd8;\n",
                                  "mov.u64 %rd8, shared; cvta.shared::cluster.u64 %rd8, %rd8;\n"}) {
    EXPECT_FALSE(holds(kPut + taken + next)) << taken;
    EXPECT_FALSE(holds(taken + next)) << taken << "and nobody has written there";
  }
  EXPECT_FALSE(holds(kPut + "ld.u32 %r8, [shared];\n"));
}

TEST(PtxExchange, DoesNotHoldWhereTwoVariablesHaveOneName) {
  EXPECT_FALSE(holds("{ .shared .b32 twice; st.shared.u32 [twice], %r8; }\n" + kBarrier +
                         "{ .shared .b32 twice; ld.shared.u32 %r8, [twice]; }\n",
                     1));
}

// Each is there, but the 257th would have the addresses of the first one.
TEST(PtxExchange, DoesNotHoldForMoreVariablesThanAddressesTellApart) {
  std::string many;
  for (int i = 0; i < 260; ++i) many += ".shared .b32 v" + std::to_string(i) + ";\n";
  EXPECT_FALSE(holds(many + "st.shared.u32 [v0], %r8;\n" + kBarrier + "ld.shared.u32 %r8, [v256];\n", 1));
}

// Facts found for one number do not hold for another one.
TEST(PtxExchange, ALoopMayLeaveTheVariable) {
  const std::string loop =
      "mov.u32 %r50, 0; mov.u32 %r51, %r20;\n$LOOP: st.shared.u32 [%r51], %r8; add.s32 %r51, %r51, 4;\n"
      "add.s32 %r50, %r50, 1; setp.lt.s32 %p3, %r50, %r2; @%p3 bra $LOOP;\n";
  for (const bool first_few : {true, false}) {
    const auto one = analyse(loop);
    for (const bool few : {first_few, !first_few}) EXPECT_EQ(holds(*one, 1, few ? 3 : 70), few);
  }
}

TEST(PtxExchange, DoesNotHoldWhereSomeThreadsHaveLeft) {
  const std::string leaves = "setp.ge.s32 %p1, %r5, 32; @%p1 bra $END;\n";
  EXPECT_FALSE(holds(leaves + kBarrier));
  EXPECT_TRUE(holds(kBarrier + leaves + "add.s32 %r8, %r8, 1;\n"));
}

// The bits of an address are those of where the variable happens to be.
TEST(PtxExchange, DoesNotHoldWhereTheAddressOfAVariableCounts) {
  EXPECT_FALSE(holds("and.b32 %r21, %r20, 4; add.s32 %r22, %r19, %r21; st.shared.u32 [%r22], %r8;\n"));
  EXPECT_FALSE(holds("setp.gt.u32 %p1, %r20, 64; @%p1 st.shared.u32 [%r20], %r8;\n"));
  EXPECT_FALSE(holds("or.b32 %r21, %r20, 0; st.shared.u32 [%r21], %r8;\n"));
}

TEST(PtxExchange, HoldsForShufflesOfWholeWarps) {
  const auto shuffle = [](const std::string& mask) {
    return "shfl.sync.bfly.b32 %r9|%p5, %r8, 16, 31, " + mask + ";\n";
  };
  const std::string use = "add.s32 %r8, %r8, %r9;\n";
  EXPECT_TRUE(holds(shuffle("-1") + use));
  EXPECT_TRUE(holds("mov.b32 %r21, -1;\n" + shuffle("%r21") + use));
  EXPECT_FALSE(holds(shuffle("65535") + use));
  EXPECT_FALSE(holds(shuffle("%r8") + use));
  EXPECT_FALSE(holds(shuffle("-1") + use, 48)) << "half a warp";
  EXPECT_FALSE(holds("mov.u32 %r9, 0; setp.ge.s32 %p1, %r5, 16; @%p1 bra $NEXT;\n" + shuffle("-1") + "$NEXT:\n" + use));
  // A predicate that a shuffle has written as well is not that of the comparison.
  EXPECT_FALSE(holds("setp.lt.s32 %p5, %r5, 64;\n" + shuffle("-1") + "@!%p5 bra $NEXT;\n" + kPut + "$NEXT:\n"));
}

TEST(PtxExchange, HoldsForDynamicMemoryOfWhichThereIsEnough) {
  auto one = std::make_unique<AnalysedKernel>();
  std::string body = kBegin + kPut + kBarrier + kGetNext + kEnd;
  body.erase(body.find(".shared .align 4 .b8 shared[256];"), 33);
  one->text =
      ".version 9.0\n.target sm_75\n.address_size 64\n.extern .shared .align 16 .b8 shared[];\n.visible .entry k(" +
      kParameters + ")\n{\n" + body + "}\n";
  one->kernel = parse_ptx_kernel(one->text, PtxIndex(one->text), "k").value();
  one->accesses = find_accesses(one->kernel);
  one->proof = std::make_unique<PtxProof>(one->kernel, one->accesses);
  EXPECT_EQ(one->refused(), "");
  EXPECT_TRUE(holds(*one, 64, 0, 256));
  EXPECT_FALSE(holds(*one, 64, 0, 252));
}

// Random programs of stores, loads and barriers; the same in this form and as PTX.
struct Statement {
  enum class Kind { kStore, kLoad, kWait } kind = Kind::kWait;
  int each = 0, first = 0, threads = 0;  // the element of thread t, of those below `threads`: each * t + first

  int place(int thread) const { return each * thread + first; }
  std::string ptx(int number) const {
    if (kind == Kind::kWait) return kBarrier;
    const std::string skip = "$S" + std::to_string(number);
    const std::string access = kind == Kind::kStore ? "st.shared.u32 [%r33], %r8;\n"
                                                    : "ld.shared.u32 %r34, [%r33]; mad.lo.s32 %r8, %r8, 31, %r34;\n";
    return "setp.ge.s32 %p1, %r5, " + std::to_string(threads) + "; @%p1 bra " + skip + ";\nmad.lo.s32 %r30, %r5, " +
           std::to_string(4 * each) + ", " + std::to_string(4 * first) + "; add.s32 %r33, %r19, %r30;\n" + access +
           skip + ":\n";
  }
};
using Program = std::vector<Statement>;

constexpr int kThreads = 6, kElements = 64;

Program random_program(std::mt19937* random) {
  const auto below = [random](int n) { return static_cast<int>((*random)() % static_cast<unsigned>(n)); };
  Program program;
  for (int i = 4 + below(6); i > 0; --i) {
    Statement one;
    one.kind = std::array{Statement::Kind::kStore, Statement::Kind::kLoad,
                          Statement::Kind::kWait}[static_cast<std::size_t>(below(3))];
    one.each = std::array{0, 1, 1, 1, 2}[static_cast<std::size_t>(below(5))];
    one.first = below(2) * below(4);
    one.threads = std::array{1, 3, kThreads, kThreads, kThreads}[static_cast<std::size_t>(below(5))];
    program.push_back(one);
  }
  return program;
}

// The final value of each thread if the threads take turns at random.
std::vector<std::uint32_t> run(const Program& program, std::mt19937* random) {
  std::vector<std::uint32_t> memory(kElements), values(kThreads);
  for (std::uint32_t& element : memory) element = static_cast<std::uint32_t>((*random)());
  for (int t = 0; t < kThreads; ++t) values[static_cast<std::size_t>(t)] = static_cast<std::uint32_t>(100 + t);
  std::vector<std::size_t> at(kThreads, 0);
  for (std::size_t over = 0; over < kThreads;) {
    std::vector<std::size_t> can;
    for (std::size_t t = 0; t < kThreads; ++t) {
      if (at[t] < program.size() && program[at[t]].kind != Statement::Kind::kWait) can.push_back(t);
    }
    if (can.empty()) {
      over = 0;
      for (std::size_t& place : at) ++place > program.size() ? ++over : 0;
      continue;
    }
    const std::size_t t = can[(*random)() % can.size()];
    const Statement& one = program[at[t]++];
    if (static_cast<int>(t) >= one.threads) continue;
    std::uint32_t& element = memory[static_cast<std::size_t>(one.place(static_cast<int>(t)))];
    if (one.kind == Statement::Kind::kStore) element = values[t];
    if (one.kind == Statement::Kind::kLoad) values[t] = values[t] * 31 + element;
  }
  return values;
}

TEST(PtxExchange, RandomProgramsThatAreProvenComeOutTheSame) {
  std::mt19937 random(7);
  int proven = 0, seen_to_differ = 0, exchanging = 0;
  constexpr int kPrograms = 3000, kOrders = 12;
  for (int i = 0; i < kPrograms; ++i) {
    const Program program = random_program(&random);
    std::string body;
    for (std::size_t k = 0; k < program.size(); ++k) body += program[k].ptx(static_cast<int>(k));
    const bool is_proven = holds(body, kThreads);
    bool differs = false;
    const std::vector<std::uint32_t> first = run(program, &random);
    for (int order = 1; order < kOrders; ++order) differs |= run(program, &random) != first;
    ASSERT_FALSE(is_proven && differs) << body;
    proven += is_proven;
    seen_to_differ += differs;
    exchanging += is_proven && std::ranges::count(program, Statement::Kind::kWait, &Statement::kind) > 0 &&
                  std::ranges::count(program, Statement::Kind::kLoad, &Statement::kind) > 0;
  }
  EXPECT_GT(seen_to_differ, kPrograms / 3);
  EXPECT_GT(exchanging, kPrograms / 50) << proven;
}

}  // namespace
}  // namespace thermocline
