// SPDX-License-Identifier: Apache-2.0
// The places that launches of several dimensions are proven to write, compared with those that their threads write.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tests/hooks/analysed_kernel.h"

namespace thermocline {
namespace {

using Numbers = std::array<std::int32_t, 4>;

const std::string kParameters =
    ".param .u64 k_param_0, .param .u32 k_param_1, .param .u32 k_param_2, .param .u32 k_param_3, .param .u32 k_param_4";
const std::string kRegisters =
    ".reg .pred %p<9>; .reg .b32 %r<60>; .reg .b64 %rd<30>;\n"
    "ld.param.u64 %rd1, [k_param_0]; ld.param.u32 %r1, [k_param_1]; ld.param.u32 %r2, [k_param_2];\n"
    "ld.param.u32 %r3, [k_param_3]; ld.param.u32 %r4, [k_param_4]; cvta.to.global.u64 %rd2, %rd1;\n";

std::unique_ptr<AnalysedKernel> analyse(const std::string& body) {
  return analyse_kernel(kParameters, kRegisters + body);
}

struct Launch {
  LaunchShape shape;
  std::uint64_t out = 0;
  Numbers numbers{};

  std::array<void*, 5> parameters() { return {&out, &numbers[0], &numbers[1], &numbers[2], &numbers[3]}; }
};

// -1: nothing is proven.
std::int64_t proven(const AnalysedKernel& one, Launch launch) {
  PtxProof::Result result;
  if (one.proof->refused() || !one.proof->holds_for(launch.shape, launch.parameters().data(), &result)) return -1;
  return static_cast<std::int64_t>(result.written_bytes.at(0));
}

// Runs one thread of a kernel of few instructions, and notes where it stores.
class Thread {
 public:
  Thread(const PtxKernel& kernel, const Launch& launch, std::array<std::uint64_t, 6> place)
      : kernel_(kernel), launch_(launch), place_(place), registers_(kernel.bits.size()) {}

  // False: it does not end.
  template <class Store>
  bool run(Store store) {
    constexpr int kMostSteps = 2000;
    std::size_t at = 0;
    for (int steps = 0; at < kernel_.instructions.size(); ++steps) {
      if (steps == kMostSteps) return false;
      const PtxInstruction& one = kernel_.instructions[at++];
      if (one.guard >= 0 && (registers_[index(one.guard)] != 0) == one.guard_is_negated) continue;
      if (one.root == "ret") return true;
      if (one.root == "bra") at = static_cast<std::size_t>(one.target);
      if (one.root == "st")
        store(registers_[index(one.operands[0].reg)] + static_cast<std::uint64_t>(one.operands[0].value));
      if (one.root != "bra" && one.root != "st") registers_[index(one.operands[0].reg)] = computed(one);
    }
    return true;
  }

 private:
  static std::size_t index(int reg) { return static_cast<std::size_t>(reg); }
  std::uint64_t special(std::string_view name) const {
    const std::size_t axis = static_cast<std::size_t>(name.back() - 'x');
    if (name.starts_with("%tid")) return place_[axis];
    if (name.starts_with("%ctaid")) return place_[3 + axis];
    return name.starts_with("%ntid") ? launch_.shape.threads[axis] : launch_.shape.blocks[axis];
  }
  std::uint64_t value(const PtxOperand& operand) const {
    if (operand.kind == PtxOperand::Kind::kInteger) return static_cast<std::uint64_t>(operand.value);
    if (operand.kind == PtxOperand::Kind::kSpecial) return special(operand.text);
    return registers_[index(operand.reg)];
  }
  // As a number of the type.
  std::int64_t number(const PtxOperand& operand, std::string_view type) const {
    const std::uint64_t bits = value(operand);
    if (type == "s32") return static_cast<std::int32_t>(bits);
    if (type == "u32" || type == "b32") return static_cast<std::uint32_t>(bits);
    return static_cast<std::int64_t>(bits);
  }
  std::uint64_t load(const PtxInstruction& one) const {
    const int parameter = kernel_.parameter(one.operands[1].text);
    return parameter == 0 ? launch_.out
                          : static_cast<std::uint32_t>(launch_.numbers[static_cast<std::size_t>(parameter) - 1]);
  }
  std::uint64_t compared(const PtxInstruction& one) const {
    const std::int64_t a = number(one.operands[1], one.type()), b = number(one.operands[2], one.type());
    const std::string_view how = one.modifiers[0];
    const bool holds = how == "lt"   ? a < b
                       : how == "le" ? a <= b
                       : how == "gt" ? a > b
                       : how == "ge" ? a >= b
                       : how == "eq" ? a == b
                                     : a != b;
    return holds ? 1 : 0;
  }
  static std::uint64_t type_mask(const PtxInstruction& one) {
    return ptx_type_bytes(one.type()) == 8 ? ~std::uint64_t{0} : ~std::uint32_t{0};
  }
  std::uint64_t computed(const PtxInstruction& one) const {
    if (one.root == "ld") return load(one);
    if (one.root == "setp") return compared(one);
    if (one.root == "not") return type_mask(one) & ~value(one.operands[1]);
    if (one.root == "cvt") return static_cast<std::uint64_t>(number(one.operands[1], one.modifiers[1]));
    const auto a = static_cast<std::uint64_t>(number(one.operands[1], one.type()));
    if (one.root == "mov" || one.root == "cvta") return a;
    const auto b = static_cast<std::uint64_t>(number(one.operands[2], one.type()));
    std::uint64_t result = one.root == "or"    ? a | b
                           : one.root == "and" ? a & b
                           : one.root == "add" ? a + b
                           : one.root == "sub" ? a - b
                                               : a * b;
    if (one.root == "mad") result += value(one.operands[3]);
    if (one.root == "shl") result = a << b;
    return one.has("wide") || ptx_type_bytes(one.type()) == 8 ? result : static_cast<std::uint32_t>(result);
  }

  const PtxKernel& kernel_;
  const Launch& launch_;
  std::array<std::uint64_t, 6> place_;
  std::vector<std::uint64_t> registers_;
};

// How many elements of four bytes are written from the begin on, if each of them is written by one thread and nothing
// else is; -1: that is not so.
std::int64_t found(const AnalysedKernel& one, const Launch& launch) {
  std::map<std::uint64_t, std::uint64_t> writers;
  bool is_apart = true, ends = true;
  std::uint64_t thread = 0;
  const auto& threads = launch.shape.threads;
  const auto& blocks = launch.shape.blocks;
  for (std::uint64_t all = 0; all < threads[0] * threads[1] * threads[2] * blocks[0] * blocks[1] * blocks[2]; ++all) {
    std::array<std::uint64_t, 6> place{};
    std::uint64_t left = all;
    for (std::size_t axis = 0; axis < 6; ++axis) {
      const std::uint64_t extent = axis < 3 ? threads[axis] : blocks[axis - 3];
      place[axis] = left % extent;
      left /= extent;
    }
    ++thread;
    ends = ends && Thread(one.kernel, launch, place).run([&](std::uint64_t at) {
      is_apart = is_apart && writers.try_emplace(at, thread).first->second == thread;
    });
  }
  if (!is_apart || !ends) return -1;
  std::int64_t count = 0;
  for (const auto& [at, writer] : writers) {
    if (at != launch.out + static_cast<std::uint64_t>(4 * count++)) return -1;
  }
  return count;
}

const std::string kOwnX =
    "mov.u32 %r10, %ctaid.x; mov.u32 %r11, %ntid.x; mov.u32 %r12, %tid.x; mad.lo.s32 %r13, %r10, %r11, %r12;\n";
const std::string kOwnY =
    "mov.u32 %r20, %ctaid.y; mov.u32 %r21, %ntid.y; mov.u32 %r22, %tid.y; mad.lo.s32 %r23, %r20, %r21, %r22;\n";
// Columns within the first number, rows within the second, in rows of the third.
const std::string kGuards =
    "setp.ge.s32 %p1, %r13, %r1; setp.ge.s32 %p2, %r23, %r2; or.pred %p3, %p1, %p2; @%p3 bra $END;\n";
const std::string kStore =
    "mad.lo.s32 %r30, %r23, %r3, %r13; mul.wide.s32 %rd3, %r30, 4; add.s64 %rd4, %rd2, %rd3; st.global.u32 [%rd4], "
    "1;\n";
const std::string kEnd = "$END: ret;\n";

Launch launched(std::uint64_t x, std::uint64_t y, Numbers numbers) {
  return {.shape = {.threads = {32, 8, 1}, .blocks = {x, y, 1}}, .out = 0, .numbers = numbers};
}

TEST(PtxPlaces, AreRowsBehindOneAnother) {
  const auto one = analyse(kOwnX + kOwnY + kGuards + kStore + kEnd);
  ASSERT_EQ(one->refused(), "");
  EXPECT_EQ(proven(*one, launched(4, 4, {100, 30, 100, 0})), 100 * 30 * 4);
  // Rows that are not reached.
  EXPECT_EQ(proven(*one, launched(4, 2, {100, 30, 100, 0})), 100 * 16 * 4);
  EXPECT_EQ(proven(*one, launched(4, 4, {100, -1, 100, 0})), 0);
  EXPECT_EQ(proven(*one, launched(4, 4, {-100, 30, -100, 0})), 0);
  EXPECT_EQ(proven(*one, launched(4, 4, {100, 1, 7, 0})), 400);
  // Columns that are not reached; another stride than the guard's.
  EXPECT_EQ(proven(*one, launched(3, 4, {100, 30, 100, 0})), -1);
  EXPECT_EQ(proven(*one, launched(4, 4, {100, 30, 101, 0})), -1);
  EXPECT_EQ(proven(*one, launched(4, 4, {100, 30, 99, 0})), -1);
  EXPECT_EQ(proven(*one, launched(4, 4, {100, 30, -100, 0})), -1);
}

TEST(PtxPlaces, HaveIndicesThatDoNotWrapAround) {
  const auto one = analyse(kOwnX + kOwnY + kGuards + kStore + kEnd);
  const int wide = 1 << 16;
  EXPECT_EQ(proven(*one, launched(wide / 32, wide / 16, {wide, wide / 2, wide, 0})), std::int64_t{4} << 31);
  EXPECT_EQ(proven(*one, launched(wide / 32, wide / 16 + 1, {wide, wide / 2 + 1, wide, 0})), -1);
  // Nor do those of threads beyond the bound.
  EXPECT_EQ(proven(*one, launched((1 << 26) - 1, 1, {100, 8, 100, 0})), 3200);
  EXPECT_EQ(proven(*one, launched((1 << 26) + 1, 1, {100, 8, 100, 0})), -1);
}

TEST(PtxPlaces, AreWithinBoundsThatAreNumbers) {
  const std::string guard = "setp.gt.s32 %p1, %r13, 99; @%p1 bra $END;\n";
  const auto one = analyse(kOwnX + guard +
                           "mul.wide.s32 %rd3, %r13, 4; add.s64 %rd4, %rd2, %rd3;\n"
                           "st.global.u32 [%rd4], 1;\n" +
                           kEnd);
  ASSERT_EQ(one->refused(), "");
  Launch launch{.shape = {.threads = {64, 1, 1}, .blocks = {4, 1, 1}}};
  EXPECT_EQ(proven(*one, launch), 400);
  // Each place by two threads.
  launch.shape.blocks[1] = 2;
  EXPECT_EQ(proven(*one, launch), -1);
}

// From the end of the first number down.
TEST(PtxPlaces, AreCountedFromTheEndOn) {
  const std::string down = "not.b32 %r30, %r13; add.s32 %r31, %r30, %r1;\n";
  const auto stored = [&](const std::string& guard, const std::string& widened) {
    return analyse(kOwnX + guard + down + widened + "add.s64 %rd4, %rd2, %rd3; st.global.u32 [%rd4], 1;\n" + kEnd);
  };
  const std::string guard = "setp.ge.s32 %p1, %r13, %r1; @%p1 bra $END;\n";
  const std::string wide = "mul.wide.s32 %rd3, %r31, 4;\n", wide_unsigned = "mul.wide.u32 %rd3, %r31, 4;\n";
  for (const std::string& widened : {wide, wide_unsigned}) {
    const auto one = stored(guard, widened);
    ASSERT_EQ(one->refused(), "");
    const Launch launch{.shape = {.threads = {32, 1, 1}, .blocks = {4, 1, 1}}, .out = 0, .numbers = {100, 0, 0, 0}};
    EXPECT_EQ(proven(*one, launch), 400);
    EXPECT_EQ(found(*one, launch), 100);
    // Fewer threads than places leave out those at the begin.
    EXPECT_EQ(proven(*one, {.shape = launch.shape, .out = 0, .numbers = {129, 0, 0, 0}}), -1);
    EXPECT_EQ(proven(*one, {.shape = launch.shape, .out = 0, .numbers = {128, 0, 0, 0}}), 512);
    EXPECT_EQ(proven(*one, {.shape = launch.shape, .out = 0, .numbers = {-7, 0, 0, 0}}), 0);
    // Without the guard, or with another, the places of some threads are beyond both ends of what is addressed.
    const auto unguarded = stored("", widened);
    EXPECT_EQ(proven(*unguarded, launch), -1);
    EXPECT_EQ(proven(*unguarded, {.shape = launch.shape, .out = 0, .numbers = {128, 0, 0, 0}}), 512);
    const auto other = stored("setp.ge.u32 %p1, %r13, %r2; @%p1 bra $END;\n", widened);
    for (const int bound : {99, 101, 1 << 30, INT32_MIN})
      EXPECT_EQ(proven(*other, {.shape = launch.shape, .out = 0, .numbers = {100, bound, 0, 0}}), -1) << bound;
  }
}

// Two bounds for the two ways: the larger one counts, whichever that is.
TEST(PtxPlaces, AreThoseOfBothWays) {
  const std::string place = "mul.wide.s32 %rd3, %r13, 4; add.s64 %rd4, %rd2, %rd3;\n";
  const std::string first = "setp.lt.s32 %p1, %r13, %r1; @%p1 bra $FIRST;\n";
  const std::string second = "setp.ge.s32 %p2, %r13, %r2; @%p2 bra $END;\n";
  const std::string ends = "bra $END;\n$FIRST: st.global.u32 [%rd4], 1;\n";
  const auto with = [&](const std::string& between, const std::string& other = "st.global.u32 [%rd4], 2;\n") {
    return analyse(kOwnX + place + first + between + other + ends + kEnd);
  };
  const auto both = with(second);
  ASSERT_EQ(both->refused(), "");
  const LaunchShape shape{.threads = {32, 1, 1}, .blocks = {4, 1, 1}};
  const auto bytes = [&](int one, int other) {
    const Launch launch{.shape = shape, .out = 0, .numbers = {one, other, 0, 0}};
    const std::int64_t written = proven(*both, launch);
    EXPECT_EQ(written, 4 * found(*both, launch)) << one << " " << other;
    return written;
  };
  EXPECT_EQ(bytes(50, 100), 400);
  EXPECT_EQ(bytes(100, 50), 400);
  EXPECT_EQ(bytes(50, 1000), 512);
  EXPECT_EQ(bytes(-5, 30), 120);
  EXPECT_EQ(bytes(-5, INT32_MIN), 0);
  const std::string not_on_all = "it does not store on every path";
  // A value, or an end between; another number, or another kind of bound; of other widths, or elsewhere.
  EXPECT_EQ(with(second + "ld.global.u32 %r30, [%rd4]; setp.eq.s32 %p3, %r30, 0; @%p3 bra $END;\n")->refused(),
            not_on_all);
  EXPECT_EQ(with("setp.eq.s32 %p3, %r3, 0; @%p3 ret;\n" + second)->refused(), not_on_all);
  EXPECT_EQ(with("add.s32 %r30, %r13, 1; setp.ge.s32 %p2, %r30, %r2; @%p2 bra $END;\n")->refused(), not_on_all);
  EXPECT_EQ(with("setp.ge.u32 %p2, %r13, %r2; @%p2 bra $END;\n")->refused(), not_on_all);
  EXPECT_EQ(with("setp.eq.s32 %p2, %r13, %r2; @%p2 bra $END;\n")->refused(), not_on_all);
  EXPECT_EQ(with("setp.lt.s32 %p2, %r13, %r2; @%p2 bra $END;\n")->refused(), not_on_all);
  EXPECT_EQ(with(second, "st.global.u16 [%rd4], 2;\n")->refused(), not_on_all);
  EXPECT_EQ(with(second, "st.global.v2.u32 [%rd4], {%r1, %r2};\n")->refused(), not_on_all);
  EXPECT_NE(with(second, "st.global.u32 [%rd4+4], 2;\n")->refused(), "");
  // An end where one of both bounds does not hold, and the other may; in both orders.
  for (const std::string bound : {"%r1", "%r2"}) {
    const std::string other = "setp.ge.s32 %p5, %r13, " + std::string(bound == "%r1" ? "%r2" : "%r1") + ";\n";
    const std::string early = "setp.eq.s32 %p3, %r3, 0; @%p3 bra $GO;\nsetp.ge.s32 %p4, %r13, " + bound +
                              "; @%p4 bra $END;\n$GO:\n" + first + second + "st.global.u32 [%rd4], 2;\n" + ends;
    EXPECT_EQ(analyse(kOwnX + place + early + kEnd)->refused(), not_on_all);
    EXPECT_EQ(analyse(kOwnX + place + other + early + kEnd)->refused(), not_on_all);
  }
  EXPECT_NE(with(second, "st.global.u32 [%rd2], 2;\n")->refused(), "");
}

// A loop whose pointer is added to before the last use of the old one.
TEST(PtxPlaces, AreOfThisTimeAroundTheLoop) {
  const std::string begin =
      "mul.wide.s32 %rd3, %r13, 4; add.s64 %rd5, %rd2, %rd3; mov.u32 %r40, %r13;\n"
      "setp.ge.s32 %p1, %r13, %r1; @%p1 bra $END;\n"
      "mov.u32 %r41, %nctaid.x; mul.lo.s32 %r42, %r41, %r11; mul.wide.s32 %rd6, %r42, 4;\n$LOOP:\n";
  const std::string store = "st.global.u32 [%rd5], 1;\n",
                    next = "add.s64 %rd5, %rd5, %rd6; add.s32 %r40, %r40, %r42;\n";
  const std::string back = "setp.lt.s32 %p2, %r40, %r1; @%p2 bra $LOOP;\n";
  const auto before = analyse(kOwnX + begin + store + next + back + kEnd);
  EXPECT_EQ(before->refused(), "");
  const Launch launch{.shape = {.threads = {8, 1, 1}, .blocks = {2, 1, 1}}, .out = 0, .numbers = {50, 0, 0, 0}};
  EXPECT_EQ(proven(*before, launch), 200);
  EXPECT_EQ(found(*before, launch), 50);
  const auto after = analyse(kOwnX + begin + next + store + back + kEnd);
  EXPECT_EQ(proven(*after, launch), -1);
  const auto older =
      analyse(kOwnX + begin + "add.s64 %rd7, %rd5, 0;\n" + next + "st.global.u32 [%rd7], 1;\n" + back + kEnd);
  EXPECT_EQ(proven(*older, launch), -1);
  // The pointer is set back each time.
  const auto reset = analyse(kOwnX + begin + store + "add.s64 %rd5, %rd2, %rd3;\n" + next + back + kEnd);
  EXPECT_EQ(proven(*reset, launch), -1);
}

// Kernels of random parts, with random launches of a few threads: what is proven is what they do.
class RandomKernel {
 public:
  explicit RandomKernel(std::uint32_t seed) : random_(seed) {}

  std::string text() {
    std::string text;
    for (const char* const axis : {"x", "y", "z"}) {
      const std::string a = axis;
      const std::string base = std::to_string(a == "x" ? 10 : a == "y" ? 20 : 30);
      text += "mov.u32 %r" + base + ", %ctaid." + a + "; mov.u32 %r5, %tid." + pick({a, a, a, "x"}) + ";\n";
      text = replaced_once(text, base);
    }
    return text + guards() + place();
  }
  Launch launch() {
    Launch launch;
    for (std::uint64_t& one : launch.shape.threads) one = 1 + number(3) * number(2);
    for (std::uint64_t& one : launch.shape.blocks) one = 1 + number(3) * number(2);
    const std::int32_t values[] = {-1, 0, 1, 2, 3, 4, 5, 6, 8, 1 << 30, INT32_MIN, 1 << 29};
    for (std::int32_t& one : launch.numbers) one = values[number(number(4) == 0 ? std::size(values) : 9)];
    if (number(2) == 0) launch.numbers[2] = launch.numbers[0];
    if (number(2) == 0) launch.numbers[3] = launch.numbers[1];
    launch.out = std::uint64_t{1} << 40;
    return launch;
  }

 private:
  std::size_t number(std::size_t end) { return std::uniform_int_distribution<std::size_t>(0, end - 1)(random_); }
  std::string pick(std::vector<std::string> from) { return from[number(from.size())]; }

  // The number of the thread along an axis, in %r<base + 3>.
  std::string replaced_once(std::string text, const std::string& base) {
    const std::string own = std::to_string(std::stoi(base) + 2), size = std::to_string(std::stoi(base) + 1);
    const std::size_t at = text.rfind("%r5");
    text.replace(at, 3, "%r" + own);
    const std::string axis = base == "10" ? "x" : base == "20" ? "y" : "z";
    text += "mov.u32 %r" + size + ", %ntid." + pick({axis, axis, axis, axis, "x"}) + ";\n";
    const std::string to = "%r" + std::to_string(std::stoi(base) + 3), block = "%r" + base;
    return text +
           pick({"mad.lo.s32 " + to + ", " + block + ", %r" + size + ", %r" + own,
                 "mad.lo.s32 " + to + ", %r" + size + ", " + block + ", %r" + own,
                 "mad.lo.s32 " + to + ", " + block + ", 2, %r" + own, "mov.u32 " + to + ", " + block}) +
           ";\n";
  }
  std::string guards() {
    std::string text;
    int predicate = 1;
    for (const char* const value : {"%r13", "%r23", "%r33"}) {
      if (number(4) == 0) continue;
      const std::string bound = pick({"%r1", "%r2", "%r1", "%r2", "%r3", "3", "4"}),
                        name = "%p" + std::to_string(predicate++);
      const std::string type = pick({"s32", "s32", "u32"});
      const bool is_swapped = number(4) == 0;
      text +=
          "setp." + (is_swapped ? pick({"le", "le", "lt"}) : pick({"ge", "ge", "gt"})) + "." + type + " " + name + ", ";
      text += (is_swapped ? bound + ", " + value : value + std::string(", ") + bound) + ";\n";
      if (predicate == 3 && number(2) == 0) {
        text += "or.pred %p7, %p1, %p2; @%p7 bra $END;\n";
      } else if (predicate != 2 || number(2) == 0) {
        text += "@" + name + " bra $END;\n";
      }
    }
    return text;
  }
  std::string place() {
    const std::string stride = pick({"%r1", "%r1", "%r3", "%r4", "%r2", "4"});
    const std::string column = pick({"%r13", "%r13", "%r13", "%r23"}), row = pick({"%r23", "%r23", "%r13", "%r33"});
    std::string text = "mad.lo.s32 %r40, " + row + ", " + stride + ", " + column + ";\n";
    if (number(3) == 0) {
      text = "mad.lo.s32 %r41, %r33, " + pick({"%r2", "%r4", "%r1"}) + ", " + row + ";\n" + "mad.lo.s32 %r40, %r41, " +
             stride + ", " + column + ";\n";
    } else if (number(3) == 0) {
      text = "mov.u32 %r40, " + column + ";\n";
    }
    if (number(3) == 0) return text + loop();
    text += number(12) == 0 ? "add.s32 %r40, %r40, 1;\n" : "";
    text = number(3) == 0 ? from_the_end(text) : text;
    if (number(4) == 0) return text + two_ways();
    const std::string widen = pick(
        {"mul.wide.s32 %rd3, %r40, 4", "mul.wide.u32 %rd3, %r40, 4", "shl.b32 %r42, %r40, 2; cvt.s64.s32 %rd3, %r42"});
    return text + widen + "; add.s64 %rd4, %rd2, %rd3;\n" + (number(16) == 0 ? "@%p1 " : "") +
           "st.global.u32 [%rd4], 1;\n$END: ret;\n";
  }
  // The place is that of %r40 behind, counted from an end.
  std::string from_the_end(const std::string& text) {
    const std::string end = pick({"%r1", "%r1", "%r1", "%r2", "%r3", "4"});
    const std::string down = pick({"not.b32 %r45, %r44; add.s32 %r40, %r45, " + end,
                                   "sub.s32 %r45, " + end + ", %r44; add.s32 %r40, %r45, -1",
                                   "mad.lo.s32 %r45, %r2, %r1, -1; sub.s32 %r40, %r45, %r44"});
    std::string renamed = text;
    for (std::size_t at = 0; (at = renamed.find("%r40", at)) != std::string::npos;) renamed.replace(at, 4, "%r44");
    return renamed + down + ";\n";
  }
  // Within a bound it is stored on one way, within another one on the other.
  std::string two_ways() {
    const std::vector<std::string> values = {"%r13", "%r13", "%r13", "%r23", "%r40"},
                                   bounds = {"%r1", "%r2", "%r1", "%r3", "2", "4"};
    const std::string value = pick(values), other = number(6) == 0 ? pick(values) : value;
    const std::string type = pick({"s32", "s32", "s32", "u32"}), other_type = number(6) == 0 ? "u32" : type;
    std::string text = "mul.wide.s32 %rd3, %r40, 4; add.s64 %rd4, %rd2, %rd3;\n";
    text += "setp." + pick({"lt", "lt", "le"}) + "." + type + " %p5, " + value + ", " + pick(bounds) + "; @" +
            (number(10) == 0 ? "!" : "") + "%p5 bra $FIRST;\n";
    text += "setp." + pick({"ge", "ge", "gt"}) + "." + other_type + " %p6, " + other + ", " + pick(bounds) +
            "; @%p6 bra $END;\n";
    text += (number(8) == 0 ? "add.s64 %rd5, %rd4, 4; st.global.u32 [%rd5], 2;\n" : "st.global.u32 [%rd4], 2;\n");
    return text + "bra $END;\n$FIRST: st.global.u32 [%rd4], 1;\n$END: ret;\n";
  }
  std::string loop() {
    const std::string step = pick({"%r11", "%r11", "%r4", "2"}), bound = pick({"%r1", "%r1", "%r3"});
    std::string text = "mov.u32 %r50, " + pick({"%r12", "%r12", "%r13", "0"}) + ";\n";
    if (number(5) != 0) text += "setp.ge.s32 %p4, %r50, " + bound + "; @%p4 bra $END;\n";
    text += "mul.wide.s32 %rd5, %r40, 4; add.s64 %rd6, %rd2, %rd5;\n";
    text += "mul.lo.s32 %r51, " + pick({"%r10", "%r23", "%r20"}) + ", " + pick({"%r1", "%r1", "%r3"}) + ";\n$LOOP:\n";
    const std::string next = "add.s32 %r50, %r50, " + step + ";\n";
    const bool is_late = number(10) == 0;
    text += (is_late ? next : "") + "add.s32 %r52, %r51, %r50; mul.wide.s32 %rd3, %r52, 4; add.s64 %rd4, %rd2, %rd3;\n";
    text += "st.global.u32 [%rd4], 1;\n";
    if (number(10) == 0) text += "setp.eq.s32 %p6, %r50, 3; @%p6 bra $END;\n";
    text += is_late ? "" : next;
    return text + "setp." + pick({"lt", "lt", "lt", "ne"}) + ".s32 %p5, %r50, " + bound +
           "; @%p5 bra $LOOP;\n$END: ret;\n";
  }

  std::mt19937 random_;
};

TEST(PtxPlaces, AreWhatThreadsOfRandomKernelsStoreTo) {
  int proven_kernels = 0, proven_launches = 0, written = 0;
  for (std::uint32_t seed = 0; seed < 2000; ++seed) {
    RandomKernel random(seed);
    const std::string text = random.text();
    const auto one = analyse(text);
    ASSERT_NE(one, nullptr) << text;
    if (one->proof->refused()) continue;
    ++proven_kernels;
    for (int i = 0; i < 12; ++i) {
      const Launch launch = random.launch();
      const std::int64_t bytes = proven(*one, launch);
      // More than is worth running.
      if (bytes < 0 || bytes > 4000) continue;
      ++proven_launches;
      written += bytes > 0;
      ASSERT_EQ(bytes, 4 * found(*one, launch))
          << text << testing::PrintToString(launch.numbers) << " threads "
          << testing::PrintToString(launch.shape.threads) << " blocks " << testing::PrintToString(launch.shape.blocks);
    }
  }
  EXPECT_GT(proven_kernels, 500);
  EXPECT_GT(proven_launches, 1500);
  EXPECT_GT(written, 500);
}

}  // namespace
}  // namespace thermocline
