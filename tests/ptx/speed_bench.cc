// SPDX-License-Identifier: Apache-2.0
// How fast kernels run from their PTX: instructions of PTX a second, on one core or several; and how long it takes to
// compile them. It also runs as a quick test, so that it does not rot.
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <set>
#include <string>

#include "simulator/ptx/parser.h"

#include "tests/ptx/device.h"

namespace {

using ptx_test::kernel_text;

constexpr std::uint32_t kThreads = 256;

// Eight chains of fused multiply-adds, so that none waits for another.
std::string arithmetic() {
  std::string text = ".reg .f32 %f<9>;\n.reg .u32 %i;\n.reg .pred %p;\nmov.u32 %i, 0;\nmov.f32 %f8, 0f3f7ff000;\n";
  for (int i = 0; i < 8; ++i) text += "mov.f32 %f" + std::to_string(i) + ", 0f3f800000;\n";
  text += "again:\n";
  for (int i = 0; i < 8; ++i) {
    const std::string of = "%f" + std::to_string(i);
    text += "fma.rn.f32 " + of + ", " + of + ", %f8, %f8;\n";
  }
  text += "add.u32 %i, %i, 1;\nsetp.lt.u32 %p, %i, 1000;\n@%p bra again;\n";
  for (int i = 1; i < 8; ++i) text += "add.f32 %f0, %f0, %f" + std::to_string(i) + ";\n";
  return text + "st.global.f32 [%in], %f0;\n";
}

// a[i] = 2 a[i] + b[i], as nvcc emits it.
std::string streaming() {
  return ".reg .u32 %t, %b, %n, %i;\n.reg .u64 %at, %of;\n.reg .f32 %x, %y;\n.reg .pred %p;\n"
         "mov.u32 %b, %ctaid.x;\nmov.u32 %n, %ntid.x;\nmov.u32 %t, %tid.x;\nmad.lo.u32 %i, %b, %n, %t;\n"
         "setp.ge.u32 %p, %i, 200000;\n@%p bra done;\nmul.wide.u32 %of, %i, 4;\nadd.u64 %at, %in, %of;\n"
         "ld.global.f32 %x, [%at];\nld.global.f32 %y, [%at+800000];\nfma.rn.f32 %x, %x, 0f40000000, %y;\n"
         "st.global.f32 [%at], %x;\ndone:\n";
}

// Rows by columns of 128 x 128, each thread one element.
std::string product() {
  return ".reg .u32 %t, %b, %n, %i, %k, %row, %column;\n.reg .u64 %a, %c, %of;\n.reg .f32 %x, %y, %s;\n.reg .pred %p;\n"
         "mov.u32 %b, %ctaid.x;\nmov.u32 %n, %ntid.x;\nmov.u32 %t, %tid.x;\nmad.lo.u32 %i, %b, %n, %t;\n"
         "shr.u32 %row, %i, 7;\nand.b32 %column, %i, 127;\nmul.wide.u32 %of, %row, 512;\nadd.u64 %a, %in, %of;\n"
         "mul.wide.u32 %of, %column, 4;\nadd.u64 %c, %in, %of;\nmov.u32 %k, 0;\nmov.f32 %s, 0f00000000;\nagain:\n"
         "ld.global.f32 %x, [%a];\nld.global.f32 %y, [%c+65536];\nfma.rn.f32 %s, %x, %y, %s;\nadd.u64 %a, %a, 4;\n"
         "add.u64 %c, %c, 512;\nadd.u32 %k, %k, 1;\nsetp.lt.u32 %p, %k, 128;\n@%p bra again;\n"
         "mul.wide.u32 %of, %i, 4;\nadd.u64 %a, %in, %of;\nst.global.f32 [%a+131072], %s;\n";
}

// A sum through shared memory, with a barrier at each of 64 rounds.
std::string barriers() {
  return ".shared .align 4 .b8 own[1024];\n.reg .u32 %t, %at, %next, %i, %x, %y;\n.reg .pred %p;\nmov.u32 %t, %tid.x;\n"
         "mov.u32 %at, own;\nadd.u32 %x, %t, 1;\nand.b32 %x, %x, 255;\nshl.b32 %x, %x, 2;\nadd.u32 %next, %at, %x;\n"
         "shl.b32 %x, %t, 2;\nadd.u32 %at, %at, %x;\nmov.u32 %i, 0;\nmov.u32 %x, %t;\nagain:\n"
         "st.shared.u32 [%at], %x;\nbar.sync 0;\nld.shared.u32 %y, [%next];\nadd.u32 %x, %x, %y;\nmul.lo.u32 %x, %x, "
         "5;\n"
         "xor.b32 %x, %x, %i;\nshr.u32 %y, %x, 7;\nadd.u32 %x, %x, %y;\nbar.sync 0;\nadd.u32 %i, %i, 1;\n"
         "setp.lt.u32 %p, %i, 64;\n@%p bra again;\nst.global.u32 [%in], %x;\n";
}

void run(benchmark::State& state, const std::string& body, std::uint32_t blocks, std::uint32_t cores) {
  const ptx_test::Program program(kernel_text(body));
  std::uint64_t instructions = 0;
  for (auto _ : state) {
    const ptx_test::Device::Result result = program.run(blocks, kThreads, 1u << 20, cores);
    if (!result.ran()) std::abort();
    instructions += result.outcome.instructions;
  }
  state.counters["instructions"] = benchmark::Counter(static_cast<double>(instructions), benchmark::Counter::kIsRate);
}

// Basic blocks: what begins at a label, or behind what jumps.
std::size_t blocks_of(const simulator::ptx::Function& function) {
  std::set<std::size_t> begins{0};
  for (std::size_t i = 0; i < function.code.size(); ++i) {
    const simulator::ptx::Instruction& instruction = function.code[i];
    if (instruction.opcode == "ret" || instruction.opcode == "bra") begins.insert(i + 1);
    for (const simulator::ptx::Operand& operand : instruction.operands) {
      if (operand.form == simulator::ptx::Operand::Form::kLabel) begins.insert(operand.index);
    }
  }
  begins.erase(function.code.size());
  return begins.size();
}

// All kernels of a text, from the text to native code.
void compile(benchmark::State& state, const std::string& text) {
  const auto module = simulator::ptx::parse(text);
  std::size_t blocks = 0, instructions = 0;
  for (const simulator::ptx::Function& function : module->functions) {
    blocks += blocks_of(function);
    instructions += function.code.size();
  }
  for (auto _ : state) {
    if (!ptx_test::compiles(text, *module)) std::abort();
  }
  state.counters["blocks"] = static_cast<double>(blocks);
  state.counters["instructions"] = static_cast<double>(instructions);
  state.counters["a block"] = benchmark::Counter(static_cast<double>(blocks) * static_cast<double>(state.iterations()),
                                                 benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

// The PTX that nvcc makes of examples/digits; empty if there was no nvcc.
std::string digits() {
  std::ifstream file(DIGITS_PTX);
  return {std::istreambuf_iterator<char>(file), {}};
}

void compile_digits(benchmark::State& state) {
  const std::string text = digits();
  if (text.empty()) return state.SkipWithError("it needs nvcc");
  compile(state, text);
}

BENCHMARK_CAPTURE(compile, streaming, kernel_text(streaming()))->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(compile, product, kernel_text(product()))->Unit(benchmark::kMillisecond);
BENCHMARK(compile_digits)->Unit(benchmark::kMillisecond);

BENCHMARK_CAPTURE(run, arithmetic, arithmetic(), 8, 1)->UseRealTime();
BENCHMARK_CAPTURE(run, streaming, streaming(), (200'000 + kThreads - 1) / kThreads, 1)->UseRealTime();
BENCHMARK_CAPTURE(run, product, product(), 128 * 128 / kThreads, 1)->UseRealTime();
BENCHMARK_CAPTURE(run, barriers, barriers(), 8, 1)->UseRealTime();
BENCHMARK_CAPTURE(run, arithmetic_at_once, arithmetic(), 64, 2)->UseRealTime();
BENCHMARK_CAPTURE(run, arithmetic_in_turn, arithmetic(), 64, 1)->UseRealTime();

}  // namespace

BENCHMARK_MAIN();
