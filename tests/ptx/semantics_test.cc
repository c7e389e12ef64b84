// SPDX-License-Identifier: Apache-2.0
// Every instruction of the table (rules.h), alone, with all combinations of edge values and some random ones.
#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <sstream>
#include <thread>

#include "tests/ptx/device.h"
#include "tests/ptx/rules.h"

namespace ptx_test {
namespace {

constexpr std::size_t kSlots = 8;  // 8 bytes each: operands, then the result

std::vector<std::uint64_t> edges(Kind kind) {
  switch (kind) {
    case Kind::kPredicate:
      return {0, 1};
    case Kind::k16:
      return {0,      1,      2,      0x7fff, 0x8000, 0x8001, 0xffff, 0x3c00, 0xbc00, 0x7c00,
              0xfc00, 0x7e00, 0x0001, 0x03ff, 0x0400, 0x7bff, 0x7f80, 0x3f80, 0x0080, 0x1234};
    case Kind::k32:
      return {0,          1,          2,          5,          15,         16,         31,
              32,         33,         63,         64,         255,        256,        0x7fffffff,
              0x80000000, 0x80000001, 0xffffffff, 0xfffffffe, 0x00ff00ff, 0x12345678, 0x7c00fc00,
              0x7fff3c00, 0x80000800, 0x00800080, 0x87654321};
    case Kind::k64:
      return {0,
              1,
              2,
              0x7fffffff,
              0x80000000,
              0xffffffff,
              0x100000000,
              0x7fffffffffffffff,
              0x8000000000000000,
              0x8000000000000001,
              0xffffffffffffffff,
              0xfffffffffffffffe,
              0x123456789abcdef0,
              0x0020000000000001};
    case Kind::kF32:
      return {0,          0x80000000, 0x3f800000, 0xbf800000, 0x3f000000, 0x40200000, 0x7f800000,
              0xff800000, 0x7fc00000, 0xffc00001, 1,          0x80000001, 0x007fffff, 0x00800000,
              0x80800000, 0x7f7fffff, 0xff7fffff, 0x4f000000, 0xcf000000, 0x4effffff, 0x5f000000,
              0x477fefff, 0x477ff000, 0x33000000, 0x3eaaaaab, 0x40490fdb};
    default:
      return {0,
              0x8000000000000000,
              0x3ff0000000000000,
              0xbff0000000000000,
              0x3fe0000000000000,
              0x7ff0000000000000,
              0xfff0000000000000,
              0x7ff8000000000000,
              1,
              0x8000000000000001,
              0x000fffffffffffff,
              0x0010000000000000,
              0x7fefffffffffffff,
              0x41dfffffffc00000,
              0x43e0000000000000,
              0xc3e0000000000000,
              0x36a0000000000001,
              0x47efffffefffffff,
              0x3fd5555555555555,
              0x3810000000000000};
  }
}

// Floating-point numbers of all magnitudes, instead of mostly very large ones.
std::uint64_t any(Kind kind, std::mt19937_64& random) {
  const std::uint64_t bits = random();
  return kind == Kind::kPredicate ? bits & 1
         : bits_of(kind) == 64    ? bits
                                  : bits & ((std::uint64_t{1} << bits_of(kind)) - 1);
}

using Operands = std::vector<std::uint64_t>;

// All combinations if there are not too many.
std::vector<Operands> cases(const Rule& rule, std::mt19937_64& random) {
  constexpr std::size_t kMost = 1500, kRandom = 100;
  std::vector<Operands> all = {{}};
  for (const Kind kind : rule.in) {
    std::vector<Operands> longer;
    for (const Operands& before : all) {
      for (const std::uint64_t edge : edges(kind)) {
        longer.push_back(before);
        longer.back().push_back(edge);
      }
    }
    all = std::move(longer);
  }
  if (all.size() > kMost) {
    std::shuffle(all.begin(), all.end(), random);
    all.resize(kMost);
  }
  for (std::size_t i = 0; i < kRandom; ++i) {
    Operands next;
    for (const Kind kind : rule.in) next.push_back(any(kind, random));
    all.push_back(next);
  }
  return all;
}

const char* type_of(Kind kind) {
  constexpr const char* kNames[] = {"pred", "b16", "b32", "b64", "f32", "f64"};
  return kNames[static_cast<unsigned>(kind)];
}

// One thread for each case.
std::string text_of(const Rule& rule) {
  std::ostringstream text;
  text << ".reg .u32 %t, %n, %c;\n.reg .u64 %at;\n.reg .pred %more;\n"
          "mov.u32 %t, %tid.x;\nmov.u32 %c, %ctaid.x;\nmov.u32 %n, %ntid.x;\nmad.lo.u32 %t, %c, %n, %t;\n"
          "mad.wide.u32 %at, %t, "
       << 8 * kSlots << ", %in;\n";
  std::string operands;
  for (std::size_t i = 0; i < rule.in.size(); ++i) {
    const std::string name = "%a" + std::to_string(i);
    text << ".reg ." << type_of(rule.in[i]) << " " << name << ";\n";
    if (rule.in[i] == Kind::kPredicate) {
      text << ".reg .b32 " << name << "w;\nld.global.b32 " << name << "w, [%at+" << 8 * i << "];\nsetp.ne.u32 " << name
           << ", " << name << "w, 0;\n";
    } else {
      text << "ld.global." << type_of(rule.in[i]) << " " << name << ", [%at+" << 8 * i << "];\n";
    }
    operands += ", " + name;
  }
  text << ".reg ." << type_of(rule.out) << " %d;\n" << rule.name << " %d" << operands << rule.suffix << ";\n";
  const std::size_t into = 8 * rule.in.size();
  if (rule.out == Kind::kPredicate) {
    text << ".reg .b32 %dw;\nselp.b32 %dw, 1, 0, %d;\nst.global.b32 [%at+" << into << "], %dw;\n";
  } else {
    text << "st.global." << type_of(rule.out) << " [%at+" << into << "], %d;\n";
  }
  return kernel_text(text.str());
}

std::string described(const Operands& operands) {
  std::ostringstream text;
  for (const std::uint64_t operand : operands) text << " 0x" << std::hex << operand;
  return text.str();
}

void check(const Rule& rule, std::mt19937_64& random) {
  const std::vector<Operands> all = cases(rule, random);
  constexpr std::uint32_t kThreads = 64;
  const auto blocks = static_cast<std::uint32_t>((all.size() + kThreads - 1) / kThreads);
  ASSERT_LE(blocks * kThreads * 8 * kSlots, Device::kBytes);
  auto* const words = reinterpret_cast<std::uint64_t*>(device().memory());
  std::fill(words, words + blocks * kThreads * kSlots, 0);
  for (std::size_t i = 0; i < all.size(); ++i) std::copy(all[i].begin(), all[i].end(), words + i * kSlots);
  const Device::Result result = device().run(text_of(rule), blocks, kThreads);
  ASSERT_TRUE(result.ran()) << rule.name << ": " << result.refused << result.outcome.message;
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < all.size() && wrong < 3; ++i) {
    const std::uint64_t expected = rule.compute(all[i].data()), found = words[i * kSlots + rule.in.size()];
    if (agree(rule, expected, found)) continue;
    ++wrong;
    ADD_FAILURE() << rule.name << rule.suffix << " of" << described(all[i]) << ": expected" << described({expected})
                  << ", found" << described({found});
  }
}

void check_part(void (*add)(std::vector<Rule>*)) {
  std::vector<Rule> part;
  add(&part);
  std::mt19937_64 random(1);  // the same values in every run
  for (const Rule& rule : part) check(rule, random);
}

// Sums, differences and products of several words: the carry goes from one instruction to the next.
TEST(PtxSemantics, CarriesGoFromWordToWord) {
  __extension__ using Wide = unsigned __int128;
  const std::vector<std::uint64_t> edge = edges(Kind::k64);
  auto* const words = reinterpret_cast<std::uint64_t*>(device().memory());
  std::uint32_t threads = 0;
  for (const std::uint64_t a : edge) {
    for (const std::uint64_t b : edge) {
      std::uint64_t* const mine = words + kSlots * threads++;
      mine[0] = a;
      mine[1] = b;
    }
  }
  const std::string text =
      ".reg .b32 %t, %c, %n, %a<2>, %b<2>, %s<3>, %d<3>, %m<4>;\n.reg .b64 %at;\n"
      "mov.u32 %t, %tid.x;\nmov.u32 %c, %ctaid.x;\nmov.u32 %n, %ntid.x;\nmad.lo.u32 %t, %c, %n, %t;\n"
      "mad.wide.u32 %at, %t, 64, %in;\nld.global.v2.b32 {%a0, %a1}, [%at];\nld.global.v2.b32 {%b0, %b1}, [%at+8];\n"
      "add.cc.u32 %s0, %a0, %b0;\naddc.cc.u32 %s1, %a1, %b1;\naddc.u32 %s2, 0, 0;\n"
      "sub.cc.u32 %d0, %a0, %b0;\nsubc.cc.u32 %d1, %a1, %b1;\nsubc.u32 %d2, 0, 0;\n"
      "mul.lo.u32 %m0, %a0, %b0;\nmul.hi.u32 %m1, %a0, %b0;\n"
      "mad.lo.cc.u32 %m1, %a0, %b1, %m1;\nmadc.hi.u32 %m2, %a0, %b1, 0;\n"
      "mad.lo.cc.u32 %m1, %a1, %b0, %m1;\nmadc.hi.cc.u32 %m2, %a1, %b0, %m2;\naddc.u32 %m3, 0, 0;\n"
      "mad.lo.cc.u32 %m2, %a1, %b1, %m2;\nmadc.hi.u32 %m3, %a1, %b1, %m3;\n"
      "st.global.v2.b32 [%at+16], {%s0, %s1};\nst.global.b32 [%at+24], %s2;\n"
      "st.global.v2.b32 [%at+32], {%d0, %d1};\nst.global.b32 [%at+28], %d2;\n"
      "st.global.v4.b32 [%at+48], {%m0, %m1, %m2, %m3};\n";
  const auto count = static_cast<std::uint32_t>(edge.size());
  const Device::Result result = device().run(kernel_text(text), count, count);
  ASSERT_TRUE(result.ran()) << result.refused << result.outcome.message;
  for (std::uint32_t i = 0; i < threads; ++i) {
    const std::uint64_t* const mine = words + kSlots * i;
    const std::uint64_t a = mine[0], b = mine[1];
    EXPECT_EQ(mine[2], a + b) << described({a, b});
    EXPECT_EQ(mine[3] & 0xffffffff, a + b < a ? 1u : 0u) << described({a, b});
    EXPECT_EQ(mine[4], a - b) << described({a, b});
    EXPECT_EQ(mine[3] >> 32, a < b ? 0xffffffffu : 0u) << described({a, b});
    const Wide product = static_cast<Wide>(a) * b;
    EXPECT_EQ(mine[6], static_cast<std::uint64_t>(product)) << described({a, b});
    EXPECT_EQ(mine[7], static_cast<std::uint64_t>(product >> 64)) << described({a, b});
  }
}

// Operations of all threads in turn, and of the host at the same time.
TEST(PtxSemantics, AtomicOperationsOfTheSystemAreTheHostsToo) {
  auto* const words = reinterpret_cast<std::uint32_t*>(device().memory());
  const std::uint32_t before[] = {5, 0xffffffff, 0xf0, 0x0f, 3, 100, 100, 7, 0, 0};
  std::copy(std::begin(before), std::end(before), words);
  const std::string text =
      ".reg .b32 %t, %o;\n.reg .b64 %d;\nmov.u32 %t, %tid.x;\natom.global.sys.add.u32 %o, [%in], 1;\n"
      "atom.global.sys.and.b32 %o, [%in+4], 0xfffffff0;\natom.global.sys.or.b32 %o, [%in+8], 1;\n"
      "atom.global.sys.xor.b32 %o, [%in+12], 1;\natom.global.sys.max.u32 %o, [%in+16], %t;\n"
      "atom.global.sys.min.s32 %o, [%in+20], -5;\nadd.u32 %t, %t, 7;\n"
      "atom.global.sys.cas.b32 %o, [%in+28], %t, %t;\nadd.u32 %o, %t, 1;\n"
      "atom.global.sys.cas.b32 %o, [%in+28], %t, %o;\nred.global.sys.add.u32 [%in+24], 2;\n"
      "atom.global.sys.inc.u32 %o, [%in+32], 6;\natom.global.sys.dec.u32 %o, [%in+36], 6;\n";
  constexpr std::uint32_t kThreads = 10;
  std::atomic<bool> over = false;
  std::uint32_t added = 0;
  std::thread host([&] {
    while (!over || added < 1000) {
      __atomic_fetch_add(words, 1, __ATOMIC_SEQ_CST);
      ++added;
    }
  });
  const Device::Result result = device().run(kernel_text(text), 1, kThreads);
  over = true;
  host.join();
  ASSERT_TRUE(result.ran()) << result.refused << result.outcome.message;
  const std::uint32_t expected[] = {5 + kThreads + added,           0xfffffff0, 0xf1,         0x0f, 9,
                                    static_cast<std::uint32_t>(-5), 120,        7 + kThreads, 3,    4};
  for (std::size_t i = 0; i < std::size(expected); ++i) EXPECT_EQ(words[i], expected[i]) << i;
}

TEST(PtxSemantics, Integers) { check_part(add_integer_rules); }
TEST(PtxSemantics, Bits) { check_part(add_bit_rules); }
TEST(PtxSemantics, Floats) { check_part(add_float_rules); }
TEST(PtxSemantics, Conversions) { check_part(add_conversion_rules); }
TEST(PtxSemantics, Comparisons) { check_part(add_comparison_rules); }

}  // namespace
}  // namespace ptx_test
