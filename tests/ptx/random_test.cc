// SPDX-License-Identifier: Apache-2.0
// Random programs without jumps, compiled, and interpreted from the same text. THERMOCLINE_TEST_SEEDS=33400 tries
// 100,000, THERMOCLINE_TEST_FIRST_SEED=n from n on; THERMOCLINE_TEST_SEED=n only that one.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <sstream>

#include "tests/ptx/device.h"
#include "tests/ptx/interpreter.h"
#include "tests/ptx/rules.h"
#include "tests/ptx/values.h"
#include "tests/support/seeds.h"

namespace ptx_test {
namespace {

constexpr unsigned kRuns = 16;  // of a program, with other numbers

struct File {
  Kind kind;
  const char* prefix;
  const char* type;
  unsigned count;
};

constexpr File kFiles[] = {{Kind::kPredicate, "%p", "pred", 4}, {Kind::k16, "%h", "b16", 6},
                           {Kind::k32, "%r", "b32", 8},         {Kind::k64, "%d", "b64", 6},
                           {Kind::kF32, "%f", "f32", 6},        {Kind::kF64, "%g", "f64", 5}};

const File& file_of(Kind kind) { return kFiles[static_cast<unsigned>(kind)]; }

// Which NaN results is undefined, so instructions that let others see its bits are left out.
bool may_be_in_programs(const Rule& rule) {
  return rule.closeness != Closeness::kAbout && rule.closeness != Closeness::kFloat16 &&
         rule.closeness != Closeness::kFloatPair && rule.name.rfind("copysign", 0) != 0;
}

const std::vector<const Rule*>& usable() {
  static const auto& all = *new std::vector<const Rule*>([] {
    std::vector<const Rule*> made;
    for (const Rule& rule : rules()) {
      if (may_be_in_programs(rule)) made.push_back(&rule);
    }
    return made;
  }());
  return all;
}

class Writer {
 public:
  explicit Writer(std::uint64_t seed) : random_(seed * 0x9e3779b97f4a7c15u + 1) {}

  std::string program() {
    std::ostringstream text;
    const std::size_t length = 10 + below(60);
    for (std::size_t i = 0; i < length; ++i) text << line() << "\n";
    return text.str();
  }

  // Small numbers, edge values, and any others.
  std::uint64_t number() {
    switch (below(5)) {
      case 0:
        return below(70);
      case 1:
        return ~std::uint64_t{0} << below(64);
      case 2:
        return std::uint64_t{1} << below(64);
      case 3:  // the upper half is a float that is not huge
        return bits(static_cast<double>(static_cast<std::int64_t>(random_())) *
                    std::ldexp(1.0, -static_cast<int>(below(80))));
      default:
        return random_();
    }
  }
  std::uint64_t of_kind(Kind kind) {
    const std::uint64_t any = number();
    if (kind == Kind::kF32) return bits(static_cast<float>(value<double>(any)));
    return bits_of(kind) == 64 ? any : any & ((std::uint64_t{1} << bits_of(kind)) - 1);
  }

 private:
  std::uint64_t below(std::uint64_t most) { return random_() % most; }

  std::string register_of(Kind kind) { return file_of(kind).prefix + std::to_string(below(file_of(kind).count)); }

  std::string line() {
    const Rule& rule = *usable()[below(usable().size())];
    std::string text;
    if (below(5) == 0) text = std::string(below(2) == 0 ? "@" : "@!") + register_of(Kind::kPredicate) + " ";
    text += rule.name + " " + register_of(rule.out);
    for (const Kind kind : rule.in) {
      // PTX has no literals of half precision.
      const bool is_half = rule.name.find("f16") != std::string::npos;
      const bool is_integer = !is_half && (kind == Kind::k16 || kind == Kind::k32 || kind == Kind::k64);
      text += ", " + (is_integer && below(6) == 0 ? std::to_string(of_kind(kind)) : register_of(kind));
    }
    return text + rule.suffix + ";";
  }

  std::mt19937_64 random_;
};

// Loads registers from memory, runs the program, and stores them. Predicates are stored as words. The words pass through
// a variable in shared memory, whose accesses are not checked: compiling checks would take most of the time.
std::string kernel_around(const std::string& program) {
  std::ostringstream before, behind;
  std::size_t place = 0;
  for (const File& file : kFiles) {
    before << ".reg ." << file.type << " " << file.prefix << "<" << file.count << ">;\n";
    for (unsigned i = 0; i < file.count; ++i, place += 8) {
      const std::string name = file.prefix + std::to_string(i), at = "[own+" + std::to_string(place) + "]";
      if (file.kind == Kind::kPredicate) {
        before << "ld.shared.b32 %w, " << at << ";\nsetp.ne.b32 " << name << ", %w, 0;\n";
        behind << "selp.b32 %w, 1, 0, " << name << ";\nst.shared.b32 " << at << ", %w;\n";
      } else {
        before << "ld.shared." << file.type << " " << name << ", " << at << ";\n";
        behind << "st.shared." << file.type << " " << at << ", " << name << ";\n";
      }
    }
  }
  const auto moved = [&](const std::string& label, const std::string& lines) {
    return "mov.b64 %from, %in;\nmov.u32 %into, own;\nmov.u32 %w, 0;\n" + label + ":\n" + lines +
           "add.u64 %from, %from, 8;\nadd.u32 %into, %into, 8;\nadd.u32 %w, %w, 8;\nsetp.lt.u32 %more, %w, " +
           std::to_string(place) + ";\n@%more bra " + label + ";\n";
  };
  return kernel_text(".shared .align 8 .b8 own[" + std::to_string(place) +
                     "];\n.reg .b32 %w, %into;\n.reg .b64 %from, %word;\n.reg .pred %more;\n" +
                     moved("in_words", "ld.global.b64 %word, [%from];\nst.shared.b64 [%into], %word;\n") +
                     before.str() + program + behind.str() +
                     moved("out_words", "ld.shared.b64 %word, [%into];\nst.global.b64 [%from], %word;\n"));
}

template <typename Body>
void for_registers(Body body) {
  std::size_t place = 0;
  for (const File& file : kFiles) {
    for (unsigned i = 0; i < file.count; ++i) body(file, file.prefix + std::to_string(i), place++);
  }
}

bool is_nan(Kind kind, std::uint64_t bits) {
  return kind == Kind::kF32 ? std::isnan(value<float>(bits)) : kind == Kind::kF64 && std::isnan(value<double>(bits));
}

// `seed`: of the registers' values when the program begins.
void check(Writer& writer, const std::string& text, std::uint64_t seed) {
  const Program program(kernel_around(text));
  auto* const words = reinterpret_cast<std::uint64_t*>(device().memory());
  for (unsigned run = 0; run < kRuns; ++run) {
    Registers expected;
    for_registers([&](const File& file, const std::string& name, std::size_t place) {
      expected[name] = words[place] = writer.of_kind(file.kind);
    });
    const Device::Result result = program.run(1, 1);
    ASSERT_TRUE(result.ran()) << "seed " << seed << ": " << result.refused << result.outcome.message << "\n" << text;
    ASSERT_NO_THROW(interpret(text, &expected)) << "seed " << seed << "\n" << text;
    for_registers([&](const File& file, const std::string& name, std::size_t place) {
      const std::uint64_t found = words[place];
      if (found == expected[name] || (is_nan(file.kind, found) && is_nan(file.kind, expected[name]))) return;
      ADD_FAILURE() << "seed " << seed << ", run " << run << ": " << name << " is 0x" << std::hex << found
                    << ", expected 0x" << expected[name] << "\n"
                    << text;
    });
    if (testing::Test::HasFailure()) return;
  }
}

TEST(PtxRandom, ProgramsWithoutJumpsComputeWhatTheInterpreterSays) {
  for (const std::uint64_t seed : thermocline::test_seeds(300)) {
    Writer writer(seed);
    const std::string text = writer.program();
    check(writer, text, seed);
    if (HasFailure()) return;
  }
}

// LLVM 14 compiled this wrongly on processors that calculate with halves: %h4 is compared after a call, so it is in
// memory then. On other processors the test cannot fail.
TEST(PtxRandom, AComparisonOfHalvesKeepsItsDirection) {
  Writer writer(58948);
  (void)writer.program();
  check(writer,
        "set.geu.u32.f16 %r6, %h3, %h4;\nsetp.num.ftz.f16 %p0, %h5, %h0;\n@%p0 setp.ge.f16 %p0, %h1, %h4;\n"
        "vmin4.u32.s32.u32.add %r4, %r6, %r1, %r6;\n@!%p1 set.equ.f16x2.f16x2 %r5, %r1, %r0;\n",
        58948);
}

}  // namespace
}  // namespace ptx_test
