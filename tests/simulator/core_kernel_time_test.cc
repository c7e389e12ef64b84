// SPDX-License-Identifier: Apache-2.0
// How long kernels take whose code runs: by what they counted, on several devices; and who else decides.
#include "simulator/core/streams/kernel_time.h"
#include "tests/simulator/core_fixture.h"

namespace simulator {
namespace {

// Blocks that the multiprocessors of an A100 (108), an RTX 4090 (128) and an H200 (132) share evenly.
constexpr Dim3 kManyBlocks{38'016, 1, 1}, kBlock{256, 1, 1};

class Counted final : public RealKernel {
 public:
  explicit Counted(const KernelCounts& counts) : counts_(counts) {}
  std::optional<KernelFault> run(const Kernel&, const PageTable&, const MayTouch&, KernelCounts* counts,
                                 std::vector<AccessedRange>*) const override {
    *counts = counts_;
    return std::nullopt;
  }

 private:
  const KernelCounts counts_;
};

class KernelTimeTest : public CoreTest {
 protected:
  static Kernel kernel(const KernelCounts& counts, Dim3 grid = kManyBlocks, Dim3 block = kBlock) {
    Kernel made;
    made.name = "counted";
    made.grid = grid;
    made.block = block;
    made.real = std::make_shared<Counted>(counts);
    return made;
  }

  // In nanoseconds, without what every launch takes.
  static Time on(const char* device, const KernelCounts& counts, Dim3 grid = kManyBlocks, Dim3 block = kBlock) {
    Settings settings;
    settings.profile = find_profile(device);
    return time_of(kernel(counts, grid, block), counts, settings) - settings.profile->launch.value;
  }

  static Time elapsed(Machine& machine, Kernel&& kernel) {
    const EventId begin = machine.create_event(), end = machine.create_event();
    machine.submit(kLegacyStream, timed(1000));  // until the host has submitted all of it
    machine.record_event(begin, kLegacyStream);
    machine.submit(kLegacyStream, std::move(kernel));
    machine.record_event(end, kLegacyStream);
    machine.wait_all();
    Time took = 0;
    EXPECT_EQ(machine.elapsed(begin, end, &took), CUDA_SUCCESS);
    return took;
  }
};

TEST_F(KernelTimeTest, BytesTakeTheBandwidthOfTheDevice) {
  const KernelCounts copy{.instructions = 1000, .accessed = 1'008'000'000, .reached = 2'000'000'000};
  EXPECT_EQ(on("rtx-4090", copy), 1'000'000);
  EXPECT_EQ(on("h200", copy), 210'000);
}

TEST_F(KernelTimeTest, BytesThatAreAccessedAgainAreInACache) {
  const KernelCounts again{.accessed = 1'008'000'000'000, .reached = 1'008'000};
  EXPECT_EQ(on("rtx-4090", again), 1000);
}

TEST_F(KernelTimeTest, ArithmeticTakesThePeakRateOfItsKind) {
  EXPECT_EQ(on("h200", {.flops = 67'000'000'000}), 1'000'000);
  EXPECT_EQ(on("rtx-4090", {.flops = 82'600'000'000}), 1'000'000);
  EXPECT_EQ(on("h200", {.tensor_flops = 989'500'000'000}), 1'000'000);
  EXPECT_EQ(on("h200", {.doubles = 33'500'000'000}), 1'000'000);     // half of the 32-bit rate
  EXPECT_EQ(on("rtx-4090", {.doubles = 1'290'625'000}), 1'000'000);  // a sixty-fourth
}

// A multiply-add is two operations of one instruction; an A100's schedulers issue twice as many lanes as it has cores.
TEST_F(KernelTimeTest, InstructionsTakeTheSchedulers) {
  EXPECT_EQ(on("h200", {.instructions = 33'500'000'000}), 1'000'000);
  EXPECT_EQ(on("a100-80g", {.instructions = 19'500'000'000}), 1'000'000);
  EXPECT_EQ(on("h200", {.instructions = 33'500'000'000}, kManyBlocks, {16, 1, 1}), 2'000'000);  // half warps
}

TEST_F(KernelTimeTest, AGridThatDoesNotFillTheDeviceHasAPartOfIt) {
  const KernelCounts work{.instructions = 33'500'000'000};
  EXPECT_EQ(on("h200", work, {132, 1, 1}, {128, 1, 1}), 1'000'000);
  EXPECT_EQ(on("h200", work, {66, 1, 1}, {128, 1, 1}), 2'000'000);
  EXPECT_EQ(on("h200", work, {132, 1, 1}, {32, 1, 1}), 4'000'000);
  EXPECT_EQ(on("h200", work, {1, 1, 1}, {32, 1, 1}), 132 * 4'000'000);
}

TEST_F(KernelTimeTest, MoreBlocksOrWarpsOfTheSameWorkNeverTakeLessTime) {
  for (const char* const device : {"h200", "p100-16g", "rtx-4090"}) {
    for (const std::uint32_t warps : {1U, 2U, 3U, 5U}) {
      Time before = 0;
      for (std::uint32_t blocks = 1; blocks < 700; ++blocks) {
        const std::uint64_t threads = std::uint64_t{blocks} * warps * 32;
        const KernelCounts work{
            .instructions = threads * 100'000, .flops = threads * 100'000, .doubles = threads * 100};
        const Time took = on(device, work, {blocks, 1, 1}, {warps * 32, 1, 1});
        ASSERT_GE(took, before) << device << ", " << blocks << " blocks of " << warps;
        before = took;
      }
    }
  }
}

// An RTX 4090's two units for 64 bits serve whichever scheduler asks; a quarter of an H200's are each scheduler's own.
TEST_F(KernelTimeTest, OneWarpHasTheFewUnitsFor64BitsToItself) {
  EXPECT_EQ(on("rtx-4090", {.doubles = 1'290'625'000}, {128, 1, 1}, {32, 1, 1}), 1'000'000);
  EXPECT_EQ(on("h200", {.doubles = 33'500'000'000}, {132, 1, 1}, {32, 1, 1}), 4'000'000);
}

TEST_F(KernelTimeTest, HostMemoryComesOverTheLink) { EXPECT_EQ(on("h200", {.of_host = 55'300'000}), 1'000'000); }

TEST_F(KernelTimeTest, TheTimeLineHasWhatWasCounted) {
  start({{"device", "h200"}});
  const auto machine = Machine::enter();
  const Time launch = machine->profile().launch.value;
  EXPECT_EQ(elapsed(*machine, kernel({.flops = 67'000'000})), 1000 + launch);
  EXPECT_EQ(elapsed(*machine, kernel({.flops = 134'000'000})), 2000 + launch);
  machine->validate();
}

TEST_F(KernelTimeTest, TimesThatAreGivenWin) {
  start({{"device", "h200"}, {"kernel-time", "5-5"}});
  EXPECT_EQ(elapsed(*Machine::enter(), kernel({.flops = 67'000'000'000})), 5000);
}

TEST_F(KernelTimeTest, WhatAKernelDeclaresWins) {
  start({{"device", "h200"}});
  const auto machine = Machine::enter();
  const Address at = buffer(*machine, 4'800'000);
  Kernel declared = kernel({.flops = 67'000'000'000});
  declared.declared = Declared{{at, Shape{4'800'000}}};
  EXPECT_EQ(elapsed(*machine, std::move(declared)), 1000 + machine->profile().launch.value);
}

// Its effects are there before its end is known, but it is not over.
TEST_F(KernelTimeTest, ARunningKernelIsNotOver) {
  start({{"device", "h200"}});
  const auto machine = Machine::enter();
  const OperationId id = machine->submit(kLegacyStream, kernel({.flops = 67'000'000}));
  machine->poll();
  EXPECT_FALSE(machine->is_done(id));
  int polls = 0;
  for (; !machine->is_done(id); ++polls) machine->charge(Cost::kStreamCall);
  EXPECT_GT(polls, 3);
  machine->validate();
}

}  // namespace
}  // namespace simulator
