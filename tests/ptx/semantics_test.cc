// SPDX-License-Identifier: Apache-2.0
// Every instruction of the table (rules.h), alone, with all combinations of edge values and some random ones.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <iterator>
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

// As the division of 128-bit numbers that nvcc 13.0 emits uses it: after a subtraction without a borrow, addc adds one;
// after an addition without a carry, subc subtracts one.
TEST(PtxSemantics, ASubtractionWithoutABorrowLeavesACarry) {
  auto* const words = reinterpret_cast<std::uint32_t*>(device().memory());
  const std::string text =
      ".reg .b32 %t, %x<12>;\nmov.u32 %t, %tid.x;\n"
      "sub.cc.u32 %x0, 7, 5;\naddc.u32 %x1, 10, 0;\nsub.cc.u32 %x0, 5, 7;\naddc.u32 %x2, 10, 0;\n"
      "add.cc.u32 %x0, 1, 2;\nsubc.u32 %x3, 10, 0;\nadd.cc.u32 %x0, 0xffffffff, 2;\nsubc.u32 %x4, 10, 0;\n"
      "sub.cc.u32 %x0, 5, 7;\nsubc.cc.u32 %x5, 1, 1;\naddc.u32 %x6, 10, 0;\n"
      "sub.cc.u32 %x0, 5, 5;\nsubc.cc.u32 %x0, 1, 1;\nmadc.lo.u32 %x7, 2, 3, 0;\n"
      "st.global.v4.b32 [%in], {%x1, %x2, %x3, %x4};\nst.global.v2.b32 [%in+16], {%x5, %x6};\n"
      "st.global.b32 [%in+24], %x7;\n";
  const Device::Result result = device().run(kernel_text(text), 1, 1);
  ASSERT_TRUE(result.ran()) << result.refused << result.outcome.message;
  const std::uint32_t expected[] = {11, 10, 9, 10, 0xffffffff, 10, 7};
  for (std::size_t i = 0; i < std::size(expected); ++i) EXPECT_EQ(words[i], expected[i]) << i;
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

TEST(PtxSemantics, AtomicOperationsOnVectorsChangeEveryElement) {
  auto* const words = reinterpret_cast<std::uint32_t*>(device().memory());
  std::fill(words, words + 32, 0);
  const float before[] = {1, 2, 3, 4, 5, 6};
  std::memcpy(words, before, sizeof before);
  words[8] = 0x3c003c00;   // f16: 1, 1
  words[10] = 0x40003f80;  // bf16: 1, 2
  words[11] = 0xc0003f80;
  const std::string text =
      ".reg .f32 %f<5>, %o<5>;\n.reg .b32 %h<3>;\n.reg .b16 %q<4>;\n.reg .b64 %c, %lo, %hi;\n.reg .b128 %w<4>;\n"
      "mov.f32 %f1, 0f3f000000;\nmov.f32 %f2, 0f40000000;\nmov.b32 %h1, 0x40004000;\nmov.b32 %h2, 0x3f804000;\n"
      "createpolicy.fractional.L2::evict_first.b64 %c, 1.0;\n"
      "atom.global.gpu.relaxed.add.v4.f32 {%o1, %o2, %o3, %o4}, [%in], {%f1, %f2, %f1, %f2};\n"
      "red.global.add.L2::cache_hint.v2.f32 [%in+16], {%f1, %f2}, %c;\n"
      "mov.b32 {%q0, %q1}, %h1;\nred.global.add.noftz.v2.f16 [%in+32], {%q0, %q1};\n"
      "red.global.max.noftz.v2.bf16x2 [%in+40], {%h2, %h2};\n"
      "st.global.L1::no_allocate.L2::cache_hint.v4.f32 [%in+48], {%o1, %o2, %o3, %o4}, %c;\n"
      "mov.b64 %lo, 0x1234567800000001;\nmov.b64 %hi, 7;\nmov.b128 %w0, {%lo, %hi};\nmov.b64 %lo, 0;\n"
      "mov.b128 %w1, {%lo, %lo};\natom.global.cas.b128 %w2, [%in+64], %w1, %w0;\n"
      "atom.global.cas.b128 %w2, [%in+64], %w1, %w1;\natom.global.exch.b128 %w3, [%in+80], %w2;\n";
  const Device::Result result = device().run(kernel_text(text), 1, 2);
  ASSERT_TRUE(result.ran()) << result.refused << result.outcome.message;
  const float expected[] = {2, 6, 4, 8, 6, 10};
  for (std::size_t i = 0; i < std::size(expected); ++i) EXPECT_EQ(std::bit_cast<float>(words[i]), expected[i]) << i;
  EXPECT_EQ(words[8], 0x45004500u);   // 1 + 2 + 2
  EXPECT_EQ(words[10], 0x40004000u);  // greatest of (1, 2) and (2, 1)
  EXPECT_EQ(words[11], 0x3f804000u);
  const float seen[] = {1.5, 4, 3.5, 6};  // by the second thread
  for (std::size_t i = 0; i < std::size(seen); ++i) EXPECT_EQ(std::bit_cast<float>(words[12 + i]), seen[i]) << i;
  const std::uint32_t wide[] = {1, 0x12345678, 7, 0, 1, 0x12345678, 7, 0};
  EXPECT_EQ(std::memcmp(words + 16, wide, sizeof wide), 0);
}

// Local memory whose size is known only at run time.
TEST(PtxSemantics, FramesGrowByAlloca) {
  const auto text = [](const std::string& size, const std::string& between) {
    return kernel_text(
        ".reg .b32 %t, %s, %x<6>;\n.reg .b64 %n, %p, %g, %k, %at;\n.reg .pred %more;\n"
        "mov.u32 %t, %tid.x;\nmad.wide.u32 %at, %t, 16, %in;\nmov.u32 %s, 0;\n"
        "L:\n" +
        size +
        "stacksave.u64 %k;\nalloca.u64 %p, %n, 8;\ncvta.local.u64 %g, %p;\n"
        "ld.local.u32 %x1, [%p];\nst.local.u32 [%p], %t;\nadd.u32 %x4, %t, 1;\nst.u32 [%g+4], %x4;\n"
        "ld.u32 %x2, [%g];\nld.local.u32 %x3, [%p+4];\n" +
        between +
        "add.u32 %s, %s, 1;\nsetp.lt.u32 %more, %s, 100;\n@%more bra L;\n"
        "st.global.v4.b32 [%at], {%x1, %x2, %x3, %s};\n");
  };
  const std::string some = "cvt.u64.u32 %n, %t;\nmad.lo.u64 %n, %n, 8, 4096;\n";
  const Device::Result result = device().run(text(some, "stackrestore.u64 %k;\n"), 2, 8);
  ASSERT_TRUE(result.ran()) << result.refused << result.outcome.message;
  const auto* const words = reinterpret_cast<const std::uint32_t*>(device().memory());
  for (std::uint32_t i = 0; i < 8; ++i) {
    const std::uint32_t expected[] = {0, i, i + 1, 100};
    EXPECT_EQ(std::memcmp(words + 4 * i, expected, sizeof expected), 0) << i;
  }
  const std::string much = "mov.u64 %n, 1000000;\n", too_much = "mov.u64 %n, -8;\n";
  EXPECT_EQ(device().run(text(much, ""), 1, 1).outcome.fault, simulator::ptx::Fault::kStackOverflow);
  EXPECT_EQ(device().run(text(too_much, ""), 1, 1).outcome.fault, simulator::ptx::Fault::kStackOverflow);
  // A number that no stacksave gave changes nothing.
  EXPECT_TRUE(device().run(text(some, "mov.u64 %k, 16;\nstackrestore.u64 %k;\n"), 1, 1).ran());
}

// Linked texts number their files each by itself, behind the code.
TEST(PtxSemantics, FaultsNameTheSourceFileAndLine) {
  const auto message = [](const std::string& location, const std::string& files) {
    const std::string fault = ".reg .u64 %far;\nmov.u64 %far, 64;\nst.global.u32 [%far], 1;\n";
    return std::string(device().run(kernel_text(location + fault) + files, 1, 1).outcome.message);
  };
  const std::string files = ".file 1 \"models/kernels.cu\"\n.file 2 \"models/tile.h\", 1700000000, 8123\n";
  const std::string other = ".version 9.0\n.target sm_90\n.visible .func other() { ret; }\n.file 1 \"other.cu\"\n";
  const auto expect = [&](const std::string& location, const std::string& all_files, const std::string& end) {
    const std::string said = message(location, all_files);
    EXPECT_TRUE(said.ends_with(" of its PTX" + end)) << said;
  };
  expect(".loc 1 12 3\n", files + other, ", line 12 of models/kernels.cu");
  expect(".loc 2 7 1, function_name k, inlined_at 1 12 3\n", files, ", line 7 of models/tile.h");
  expect(".loc 3 12 3\n", files, ", line 12 of its source");
  expect("", files, "");
}

TEST(PtxSemantics, VideoInstructionsSelectAndMergeParts) {
  auto* const words = reinterpret_cast<std::uint32_t*>(device().memory());
  const std::string text =
      ".reg .b32 %a, %b, %c, %x<12>;\nmov.u32 %a, 0x80ff7f01;\nmov.u32 %b, 0x01020304;\nmov.u32 %c, 0xaabbccdd;\n"
      "vadd.s32.s32.s32 %x0, %a.b3, %b.h0;\n"                 // -128 + 0x304
      "vadd.u32.u32.u32.sat %x1.b1, %a.b2, %b.b0, %c;\n"      // 255 + 4, of 8 bits
      "vsub.s32.u32.u32 %x2.h1, %b.b3, %a.b0, %c;\n"          // 0
      "vadd4.u32.u32.u32 %x3.b20, %a.b0123, %b.b7654, %c;\n"  // of the bytes of a, 0x80 and 0x7f
      "vadd2.s32.s32.s32.add %x4.h0, %a.h32, %b.h01, %c;\n"   // the lower half of b, plus the upper one of a
      "vshl.u32.u32.u32.wrap %x5, %b.b0, %b.b1;\nvshr.s32.s32.u32.clamp %x6, %a, %a.b2;\n"
      "vmad.u32.u32.u32.po %x7, %b.b0, %b.b1, 100;\nvset.u32.u32.lt %x8.b3, %b.b0, %a.b2, %c;\n"
      "st.global.v4.b32 [%in], {%x0, %x1, %x2, %x3};\nst.global.v4.b32 [%in+16], {%x4, %x5, %x6, %x7};\n"
      "st.global.b32 [%in+32], %x8;\n";
  const Device::Result result = device().run(kernel_text(text), 1, 1);
  ASSERT_TRUE(result.ran()) << result.refused << result.outcome.message;
  const std::uint32_t expected[] = {0x304 - 128, 0xaabbffdd, 0x0000ccdd,      0xaa81cc84, 0xaabbccdd + 0x304 - 0x7f01,
                                    4 << 3,      0xffffffff, 4 * 3 + 100 + 1, 0x01bbccdd};
  for (std::size_t i = 0; i < std::size(expected); ++i) EXPECT_EQ(words[i], expected[i]) << i;
}

// Two numbers of 4 bits are in a register of 8.
TEST(PtxSemantics, NumbersOfFourBitsAreInBytes) {
  auto* const words = reinterpret_cast<std::uint32_t*>(device().memory());
  const std::string text =
      ".reg .b8 %p, %q, %z;\n.reg .f32 %f<3>;\n.reg .b32 %x<4>;\nmov.f32 %f1, 0fbfa00000;\nmov.f32 %f2, 0f41200000;\n"
      "cvt.rn.satfinite.e2m1x2.f32 %p, %f1, %f2;\ncvt.rn.f16x2.e2m1x2 %x1, %p;\nmov.b32 %x2, 0x3c00c580;\n"
      "cvt.rn.satfinite.relu.e2m1x2.f16x2 %q, %x2;\n"
      "mov.b32 %x3, {%p, %q, %z, %z};\nst.global.v2.b32 [%in], {%x1, %x3};\n";
  const Device::Result result = device().run(kernel_text(text), 1, 1);
  ASSERT_TRUE(result.ran()) << result.refused << result.outcome.message;
  EXPECT_EQ(words[0], 0xbc004600u);  // -1 (nearest even to -1.25) and 6, the largest
  EXPECT_EQ(words[1], 0x000020a7u);  // 1 and 0
}

TEST(PtxSemantics, AsynchronousCopiesReadNothingWhereTheyAreToldSo) {
  auto* const words = reinterpret_cast<std::uint32_t*>(device().memory());
  for (std::uint32_t i = 0; i < 32; ++i) words[i] = i + 1;
  const std::string text =
      ".shared .align 16 .b8 s[48];\n.reg .b32 %t, %v<5>;\n.reg .pred %no, %yes;\n.reg .b64 %c;\n"
      "createpolicy.fractional.L2::evict_last.b64 %c;\nmov.u32 %t, s;\nsetp.eq.u32 %yes, %t, %t;\nnot.pred %no, %yes;\n"
      "cp.async.ca.shared.global [%t], [%in], 16, %no;\n"
      "cp.async.cg.shared.global.L2::cache_hint.L2::128B [%t+16], [%in+16], 16, %yes, %c;\n"
      "cp.async.cg.shared.global.L2::cache_hint [%t+32], [%in+32], 16, 8, %c;\ncp.async.wait_all;\n"
      "ld.shared.v4.b32 {%v1, %v2, %v3, %v4}, [%t];\nst.global.v4.b32 [%in+64], {%v1, %v2, %v3, %v4};\n"
      "ld.shared.v4.b32 {%v1, %v2, %v3, %v4}, [%t+16];\nst.global.v4.b32 [%in+80], {%v1, %v2, %v3, %v4};\n"
      "ld.shared.v4.b32 {%v1, %v2, %v3, %v4}, [%t+32];\nst.global.v4.b32 [%in+96], {%v1, %v2, %v3, %v4};\n";
  const Device::Result result = device().run(kernel_text(text), 1, 1);
  ASSERT_TRUE(result.ran()) << result.refused << result.outcome.message;
  const std::uint32_t expected[] = {1, 2, 3, 4, 0, 0, 0, 0, 9, 10, 0, 0};
  EXPECT_EQ(std::memcmp(words + 16, expected, sizeof expected), 0);
}

TEST(PtxSemantics, Integers) { check_part(add_integer_rules); }
TEST(PtxSemantics, Bits) { check_part(add_bit_rules); }
TEST(PtxSemantics, Floats) { check_part(add_float_rules); }
TEST(PtxSemantics, Conversions) { check_part(add_conversion_rules); }
TEST(PtxSemantics, Videos) { check_part(add_video_rules); }
TEST(PtxSemantics, Comparisons) { check_part(add_comparison_rules); }

}  // namespace
}  // namespace ptx_test
