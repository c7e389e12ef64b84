// SPDX-License-Identifier: Apache-2.0
// Accesses whose addresses are checked together: which they are, and that nobody can tell.
#include "simulator/ptx/spans.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "simulator/ptx/parser.h"
#include "tests/ptx/device.h"
#include "tests/support/seeds.h"

namespace ptx_test {
namespace {

const char* const kRegisters =
    ".reg .pred %p;\n.reg .f32 %f<4>;\n.reg .u32 %r<4>;\n.reg .u64 %a, %b, %c;\n.shared .align 4 .b8 own[64];\n"
    "mov.u64 %a, %in;\nmov.u64 %b, %in;\n";

// The number of accesses in each span.
std::vector<std::size_t> spans_of(const std::string& body) {
  const auto module = simulator::ptx::parse(kernel_text(kRegisters + body));
  std::vector<std::size_t> sizes;
  for (const auto& [first, span] : simulator::ptx::find_spans(*module->find("k"))) sizes.push_back(span.members.size());
  return sizes;
}

using Sizes = std::vector<std::size_t>;
const std::string kTwo = "ld.global.f32 %f0, [%a];\nst.global.f32 [%a+4], %f0;\n";
const std::string kOther = "ld.global.f32 %f1, [%a+8];\n";
const std::string kCompare = "setp.eq.u32 %p, %r0, 0;\n";

TEST(PtxSpans, AreOfOneRegister) {
  EXPECT_EQ(spans_of(kTwo + kOther), Sizes{3});
  EXPECT_EQ(spans_of("ld.global.f32 %f0, [%a];\nld.global.f32 %f1, [%b];\n"), Sizes{});
  EXPECT_EQ(spans_of("ld.global.f32 %f0, [%a];\nld.global.f32 %f1, [%b];\n" + kTwo), Sizes{3});
  EXPECT_EQ(spans_of("ld.f32 %f0, [%a];\nld.global.v2.f32 {%f1, %f2}, [%a+8];\n"), Sizes{2}) << "generic, and vectors";
}

TEST(PtxSpans, EndWhereTheRegisterIsWritten) {
  EXPECT_EQ(spans_of(kTwo + "add.u64 %a, %a, 8;\n" + kTwo), (Sizes{2, 2}));
  EXPECT_EQ(spans_of(kTwo + kCompare + "@%p add.u64 %a, %a, 8;\n" + kTwo), (Sizes{2, 2}));
  EXPECT_EQ(spans_of(kTwo + "ld.global.u64 %a, [%a+8];\n" + kOther), Sizes{3}) << "the load itself belongs to it";
  EXPECT_EQ(spans_of(kTwo + "ld.global.v2.u64 {%c, %a}, [%a+16];\n" + kOther), Sizes{3});
  EXPECT_EQ(spans_of(kTwo + "mov.b64 %a, {%r0, %r1};\n" + kOther), Sizes{2});
}

TEST(PtxSpans, LeaveOutWhatMayNotBeExecuted) {
  EXPECT_EQ(spans_of(kTwo + kCompare + "@%p ld.global.f32 %f1, [%a+8];\n"), Sizes{2});
  EXPECT_EQ(spans_of(kTwo + kCompare + "@%p bra over;\n" + kOther + "over:\nst.global.f32 [%a+12], %f1;\n"), Sizes{3});
  EXPECT_EQ(spans_of(kTwo + kCompare + "@%p bra over;\n" + kOther + "ret;\nover:\nst.global.f32 [%a+12], %f1;\n"),
            Sizes{2});
  EXPECT_EQ(spans_of(kTwo + kCompare + "@%p ret;\n" + kOther), Sizes{2});
  EXPECT_EQ(spans_of("targets: .branchtargets one, two;\nbrx.idx %r0, targets;\none:\n" + kTwo + "two:\n" + kOther),
            Sizes{2});
  EXPECT_EQ(spans_of(kTwo + kCompare + "@%p bra end;\n" + kOther + "end:\n"), Sizes{2});
  EXPECT_EQ(spans_of(kTwo + "bra over;\nother:\n" + kOther + "over:\n" + kCompare + "@%p bra other;\n"), Sizes{2});
}

TEST(PtxSpans, BeginAnewWhereControlArrivesFromElsewhere) {
  EXPECT_EQ(spans_of(kTwo + "again:\n" + kTwo + kCompare + "@%p bra again;\n" + kOther), (Sizes{2, 2}));
  EXPECT_EQ(spans_of(kCompare + "@%p bra inside;\nbar.sync 0;\n" + kTwo + "inside:\n" + kOther), Sizes{2});
}

TEST(PtxSpans, EndWhereOtherThreadsRun) {
  for (const char* const wait :
       {"bar.sync 0;\n", "bar.warp.sync 0xffffffff;\n", "membar.gl;\n", "atom.global.add.u32 %r1, [%b], 1;\n",
        "shfl.sync.idx.b32 %r1, %r2, 0, 31, 0xffffffff;\n"})
    EXPECT_EQ(spans_of(kTwo + wait + kOther), Sizes{2}) << wait;
}

TEST(PtxSpans, HaveNothingWithAnOrderAndNoOtherSpace) {
  EXPECT_EQ(spans_of(kTwo + "ld.volatile.global.f32 %f1, [%a+8];\n"), Sizes{2});
  EXPECT_EQ(spans_of("ld.global.f32 %f0, [%a];\nst.volatile.global.f32 [%b], %f0;\n" + kOther), Sizes{})
      << "it is seen before the last access faults";
  EXPECT_EQ(spans_of(kTwo + "ld.relaxed.gpu.global.f32 %f1, [%a+8];\n"), Sizes{2});
  EXPECT_EQ(spans_of("ld.shared.f32 %f0, [%a];\nld.shared.f32 %f1, [%a+4];\n"), Sizes{});
}

TEST(PtxSpans, AreNoWiderThanTheirLimitAndHaveOneAlignment) {
  EXPECT_EQ(spans_of("ld.global.f32 %f0, [%a];\nld.global.f32 %f1, [%a+65536];\n"), Sizes{});
  EXPECT_EQ(spans_of("ld.global.f32 %f0, [%a+4];\nld.global.v4.f32 {%f0, %f1, %f2, %f3}, [%a+16];\n"), Sizes{})
      << "12 bytes apart: no address of the first tells whether 16 divides the second";
}

// ---- What a fault says

std::string fault_of(const std::string& body) {
  const Device::Result result = device().run(kernel_text(kRegisters + body), 1, 1);
  EXPECT_EQ(result.refused, "");
  return result.outcome.message;
}

TEST(PtxSpans, AFaultNamesTheAccess) {
  const std::string in_bounds = "add.u64 %a, %in, 2097144;\nld.global.f32 %f0, [%a];\n";
  const std::string beyond = fault_of(in_bounds + "add.f32 %f0, %f0, %f0;\nst.global.f32 [%a+8], %f0;\n");
  EXPECT_NE(beyond.find("illegal address"), std::string::npos) << beyond;
  EXPECT_NE(beyond.find("written"), std::string::npos) << beyond;
  EXPECT_NE(beyond.find("'st.global.f32'"), std::string::npos) << beyond;
  const std::string odd = fault_of(
      "ld.global.u64 %c, [%a+8];\nadd.u64 %b, %in, 4;\nld.global.u32 %r0, [%b];\n"
      "ld.global.u64 %c, [%b+8];\n");
  EXPECT_NE(odd.find("misaligned"), std::string::npos) << odd;
  EXPECT_NE(odd.find("'ld.global.u64'"), std::string::npos) << odd;
}

TEST(PtxSpans, SharedMemoryBehindAGenericAddressIsNotCountedAsTheDevices) {
  const Device::Result result = device().run(
      kernel_text(
          std::string(kRegisters) +
          "cvta.shared.u64 %a, own;\nst.f32 [%a], 0f3f800000;\nld.f32 %f0, [%a+4];\nst.global.f32 [%in], %f0;\n"),
      1, 1);
  ASSERT_TRUE(result.ran()) << result.outcome.message;
  EXPECT_EQ(result.outcome.counts.accessed, 4u);
}

// ---- Random programs: with spans, and with a register for each access, which leaves no two in a span

class Writer {
 public:
  explicit Writer(std::uint64_t seed) : random_(seed * 0x9e3779b97f4a7c15u + 1) {}

  // Forward branches, guards, and up to two loops of three rounds, over four registers with addresses.
  std::string body() {
    std::string text;
    const std::uint64_t lines = 12 + below(30);
    for (std::uint64_t i = 0; i < lines; ++i) text += line(i);
    return text + close();
  }
  std::uint64_t below(std::uint64_t limit) { return random_() % limit; }

 private:
  std::string base() { return "%a" + std::to_string(below(4)); }
  std::string value() { return "%r" + std::to_string(below(6)); }
  std::string guard() { return below(6) == 0 ? "@%p" + std::to_string(below(3)) + " " : ""; }

  // Near the page's end some are out of bounds; some are misaligned.
  std::string place() {
    const std::uint64_t offset = below(300) == 0 ? 4 * below(40) + 2 : 4 * below(40);
    return base() + (below(2) == 0 ? "+" : "+-") + std::to_string(offset);
  }

  std::string line(std::uint64_t i) {
    switch (below(10)) {
      case 0:
        return "setp.lt.u32 %p" + std::to_string(below(3)) + ", " + value() + ", " + value() + ";\n";
      case 1:
        return guard() + "add.u64 " + base() + ", " + base() + ", " + std::to_string(8 * below(3)) + ";\n";
      case 2:
        return "mad.lo.u32 " + value() + ", " + value() + ", 7, " + value() + ";\n";
      case 3:
        return open(i);
      case 4:
        return close();
      case 5:
      case 6:
        return guard() + "st.global.u32 [" + place() + "], " + value() + ";\n";
      default:
        return guard() + "ld.global.u32 " + value() + ", [" + place() + "];\n";
    }
  }

  // A part that is skipped, or repeated.
  std::string open(std::uint64_t i) {
    if (!open_.empty()) return close();
    open_ = std::to_string(i);
    is_loop_ = below(3) == 0;
    if (is_loop_) return "mov.u32 %n, 0;\nL" + open_ + ":\n";
    return "@%p" + std::to_string(below(3)) + " bra L" + open_ + ";\n";
  }
  std::string close() {
    if (open_.empty()) return "";
    const std::string label = "L" + std::exchange(open_, "");
    if (is_loop_) return "add.u32 %n, %n, 1;\nsetp.lt.u32 %q, %n, 3;\n@%q bra " + label + ";\n";
    return label + ":\n";
  }

  std::mt19937_64 random_;
  std::string open_;
  bool is_loop_ = false;
};

// Each address in a register of its own.
std::string apart(const std::string& body) {
  std::string text;
  for (std::size_t at = 0; at < body.size();) {
    const std::size_t end = body.find('\n', at) + 1;
    std::string line = body.substr(at, end - at);
    if (const std::size_t place = line.find("[%a"); place != std::string::npos) {
      text += "mov.u64 %s, " + line.substr(place + 1, 3) + ";\n";
      line.replace(place + 1, 3, "%s");
    }
    text += line;
    at = end;
  }
  return text;
}

struct Seen {
  simulator::ptx::Outcome outcome;
  std::vector<std::byte> memory;
  bool operator==(const Seen& other) const {
    return outcome.fault == other.outcome.fault && outcome.address == other.outcome.address &&
           outcome.counts.accessed == other.outcome.counts.accessed && outcome.pages_read == other.outcome.pages_read &&
           outcome.pages_written == other.outcome.pages_written &&
           (outcome.fault != simulator::ptx::Fault::kNone || memory == other.memory);
  }
};

constexpr std::size_t kWindow = 1024;  // that the program reaches, at the memory's end

Seen run(const std::string& body, std::uint64_t seed) {
  const Program program(
      kernel_text(".reg .pred %p<3>, %q;\n.reg .u32 %n, %r<6>;\n.reg .u64 %s, %a<4>;\nadd.u64 %a0, %in, 2096640;\n"
                  "add.u64 %a1, %a0, 64;\nadd.u64 %a2, %a0, 200;\nadd.u64 %a3, %a0, 340;\n" +
                  body));
  std::byte* const window = device().memory() + Device::kBytes - kWindow;
  std::mt19937_64 random(seed);
  std::generate_n(window, kWindow, [&] { return static_cast<std::byte>(random()); });
  const Device::Result result = program.run(1, 2);
  EXPECT_EQ(result.refused, "") << body;
  return {result.outcome, {window, window + kWindow}};
}

TEST(PtxSpans, ArePartOfRandomProgramsWithoutBeingSeen) {
  unsigned spans = 0, faults = 0, passed = 0;
  for (const std::uint64_t seed : thermocline::test_seeds(150)) {
    Writer writer(seed);
    const std::string body = writer.body();
    const auto module = simulator::ptx::parse(
        kernel_text(".reg .pred %p<3>, %q;\n.reg .u32 %n, %r<6>;\n.reg .u64 %s, %a<4>;\n" + body));
    spans += static_cast<unsigned>(simulator::ptx::find_spans(*module->find("k")).size());
    const Seen together = run(body, seed), alone = run(apart(body), seed);
    ++(together.outcome.fault == simulator::ptx::Fault::kNone ? passed : faults);
    // In a program with several faults, another may come first.
    if (together.outcome.fault != simulator::ptx::Fault::kNone && alone.outcome.fault != simulator::ptx::Fault::kNone)
      continue;
    EXPECT_EQ(together, alone) << "seed " << seed << ": " << together.outcome.message << " / " << alone.outcome.message
                               << "\n"
                               << body;
    if (HasFailure()) return;
  }
  EXPECT_GT(spans, 100u);
  EXPECT_GT(faults, 5u);
  EXPECT_GT(passed, 50u);
}

}  // namespace
}  // namespace ptx_test
