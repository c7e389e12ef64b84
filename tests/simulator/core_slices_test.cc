// SPDX-License-Identifier: Apache-2.0
// Operators of slices: whatever number of launches computes them, and wherever their operands are, the results are the
// same.
#include <cmath>

#include "simulator/control.h"
#include "tests/simulator/core_fixture.h"

namespace simulator {
namespace {

constexpr std::uint32_t kRead = SIMULATED_OPERAND_READ, kWrite = SIMULATED_OPERAND_WRITE,
                        kSliced = SIMULATED_OPERAND_SLICED, kContinues = SIMULATED_OPERAND_CONTINUES;
constexpr std::uint32_t kSlices = 6;
constexpr Bytes kSlice = 1000;  // no multiple of a word or a page
constexpr Bytes kAll = kSlices * kSlice;

class CoreSlicesTest : public CoreTest, public testing::WithParamInterface<const char*> {
 protected:
  const SimulatedDeviceControl& control_ = *simulated_device_control();

  struct Program {
    std::vector<std::uint32_t> ends{kSlices};  // by part: the slice behind it
    bool apart = false;                        // each part's slices are a buffer of their own
    bool in_order = true;
    bool spoils_second = false;  // something else overwrites what the second part wrote
  };

  Address allocated(Bytes bytes) {
    const auto machine = Machine::enter();
    const Address at = buffer(*machine, bytes + 128);
    return at + 64;  // in the middle of a page
  }

  // The buffer, whole or a piece for each part.
  std::vector<SimulatedOperand> pieces(const Program& program, std::uint32_t flags) {
    std::vector<SimulatedOperand> out;
    std::uint32_t begin = 0;
    if (!program.apart) return {{allocated(kAll), kAll, flags}};
    for (const std::uint32_t end : program.ends) {
      out.push_back({allocated((end - begin) * kSlice), (end - begin) * kSlice, flags | (begin > 0 ? kContinues : 0)});
      begin = end;
    }
    return out;
  }

  static SimulatedOperand part_of(const std::vector<SimulatedOperand>& all, bool apart, std::size_t part,
                                  std::uint32_t begin, std::uint32_t end, std::uint32_t flags) {
    if (apart) return {all[part].address, all[part].bytes, flags};
    return {all[0].address + begin * kSlice, (end - begin) * kSlice, flags};
  }

  void launch(const char* name, const std::vector<SimulatedOperand>& operands) {
    EXPECT_EQ(control_.launch_operator(nullptr, name, 1, 1, NAN, operands.data(), operands.size()), CUDA_SUCCESS);
  }

  // Two buffers are made; an operator reads both, one of them whole, and writes a third by slices, and accumulates into
  // a fourth; then all are used.
  std::uint64_t run(const Program& program) {
    start({{"memory", GetParam()}});
    const std::vector<SimulatedOperand> in = pieces(program, kWrite), out = pieces(program, kRead);
    const SimulatedOperand whole{allocated(500), 500, kRead}, sum{allocated(300), 300, kWrite};
    launch("make", in);
    launch("make", {{whole.address, whole.bytes, kWrite}});
    std::vector<std::size_t> order;
    for (std::size_t part = 0; part < program.ends.size(); ++part) order.push_back(part);
    if (!program.in_order) std::swap(order[1], order[2]);
    constexpr std::uint64_t kOrdinal = 3;
    const auto compute = [&](std::size_t part) {
      const std::uint32_t begin = part == 0 ? 0 : program.ends[part - 1], end = program.ends[part];
      const std::uint32_t goes_on = begin > 0 ? kRead : 0;
      const SimulatedOperand operands[] = {whole,
                                           part_of(in, program.apart, part, begin, end, kRead | kSliced),
                                           {sum.address, sum.bytes, kWrite | goes_on},
                                           part_of(out, program.apart, part, begin, end, kWrite | kSliced)};
      const SimulatedSlices slices{kSlices, begin, end - begin, 0, begin == 0 ? 0 : kOrdinal};
      EXPECT_EQ(control_.launch_slices(nullptr, "compute", 1, 1, NAN, operands, 4, &slices), CUDA_SUCCESS);
    };
    for (const std::size_t part : order) compute(part);
    if (program.spoils_second) {
      launch("make", {part_of(out, program.apart, 1, program.ends[0], program.ends[1], kWrite)});
    }
    launch("use", out);
    launch("use", {{sum.address, sum.bytes, kRead}});
    Machine::enter()->wait_all();
    return control_.checksum();
  }
};

INSTANTIATE_TEST_SUITE_P(Memory, CoreSlicesTest, testing::Values("real", "tagged"));

TEST_P(CoreSlicesTest, PartsComputeWhatTheWholeDoes) {
  const std::uint64_t whole = run({});
  EXPECT_EQ(run({.ends = {3, 6}}), whole);
  EXPECT_EQ(run({.ends = {1, 2, 3, 4, 5, 6}}), whole);
  EXPECT_EQ(run({.ends = {5, 6}}), whole);
}

TEST_P(CoreSlicesTest, PiecesMayBeAnywhere) {
  const std::uint64_t whole = run({});
  EXPECT_EQ(run({.ends = {3, 6}, .apart = true}), whole);
  EXPECT_EQ(run({.ends = {1, 4, 6}, .apart = true}), whole);
}

TEST_P(CoreSlicesTest, WhatIsWrongShows) {
  const std::uint64_t whole = run({});
  EXPECT_NE(run({.ends = {1, 4, 6}, .in_order = false}), whole) << "accumulating keeps the order";
  EXPECT_NE(run({.ends = {3, 6}, .spoils_second = true}), whole) << "what a part wrote is used";
}

TEST_P(CoreSlicesTest, APartRunsAgain) {
  std::uint64_t results[3];
  for (const int variant : {0, 1, 2}) {
    start({{"memory", GetParam()}});
    const Address in = allocated(kAll), out = allocated(kAll), again = allocated(kAll / 2);
    launch("make", {{in, kAll, kWrite}});
    const auto part = [&](std::uint32_t first, Address to, bool is_relaunch) {
      const SimulatedOperand operands[] = {{in + first * kSlice, kAll / 2, kRead | kSliced},
                                           {to, kAll / 2, kWrite | kSliced}};
      const SimulatedSlices slices{kSlices, first, kSlices / 2, is_relaunch ? 1U : 0U, first == 0 ? 0U : 2U};
      EXPECT_EQ(control_.launch_slices(nullptr, "compute", 1, 1, NAN, operands, 2, &slices), CUDA_SUCCESS);
    };
    part(0, out, false);
    part(kSlices / 2, out + kAll / 2, false);
    if (variant == 1) part(kSlices / 2, again, true);
    const Address second = variant == 0 ? out + kAll / 2 : again;
    launch("use", {{out, kAll / 2, kRead}, {second, kAll / 2, kRead | kContinues}});
    Machine::enter()->wait_all();
    results[variant] = control_.checksum();
  }
  EXPECT_EQ(results[0], results[1]);
  EXPECT_NE(results[0], results[2]) << "what is not made again is missed";
}

TEST_P(CoreSlicesTest, WhatIsNoPartIsRefused) {
  start({{"memory", GetParam()}});
  const Address at = allocated(kAll);
  const auto result = [&](SimulatedSlices slices, std::vector<SimulatedOperand> operands) {
    return control_.launch_slices(nullptr, "x", 1, 1, NAN, operands.data(), operands.size(), &slices);
  };
  const SimulatedOperand sliced{at, kAll, kWrite | kSliced};
  EXPECT_EQ(result({6, 0, 6, 0, 0}, {sliced}), CUDA_SUCCESS);
  EXPECT_EQ(result({6, 0, 0, 0, 0}, {sliced}), CUDA_ERROR_INVALID_VALUE) << "no slice";
  EXPECT_EQ(result({6, 3, 4, 0, 1}, {sliced}), CUDA_ERROR_INVALID_VALUE) << "beyond the last one";
  EXPECT_EQ(result({6, 3, 3, 0, 0}, {sliced}), CUDA_ERROR_INVALID_VALUE) << "of which operator?";
  EXPECT_EQ(result({6, 0, 6, 1, 0}, {sliced}), CUDA_ERROR_INVALID_VALUE) << "of which operator?";
  EXPECT_EQ(result({7, 0, 7, 0, 0}, {sliced}), CUDA_ERROR_INVALID_VALUE) << "slices of different sizes";
  EXPECT_EQ(result({6, 0, 6, 0, 0}, {sliced, {at, 6, kWrite | kContinues}}), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(result({6, 0, 6, 0, 0}, {{at, kAll, kWrite | kSliced | kContinues}}), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(control_.launch_slices(nullptr, "x", 1, 1, NAN, &sliced, 1, nullptr), CUDA_ERROR_INVALID_VALUE);
}

}  // namespace
}  // namespace simulator
