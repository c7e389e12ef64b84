// SPDX-License-Identifier: Apache-2.0
// Kernels without an implementation, fresh buffers, host implementations and their faults.
#include <unistd.h>

#include <csignal>
#include <cstring>

#include "simulator/core/execution/fault_guard.h"
#include "tests/simulator/core_fixture.h"

namespace simulator {
namespace {

class MixingTest : public CoreTest {};

class CoreMixingTest : public CoreTest, public testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override { start({{"memory", GetParam()}}); }

  // Two buffers mixed twice, with a set in between; `shift` other allocations come first, so that all addresses differ.
  static std::uint64_t program(int shift, Bytes lost = 0, Bytes argument_offset = 0) {
    start({{"memory", GetParam()}});
    const auto machine = Machine::enter();
    for (int i = 0; i < shift; ++i) {
      Address other = 0;
      EXPECT_EQ(machine->allocate(1000 + 5000 * static_cast<Bytes>(i), false, &other), CUDA_SUCCESS);
    }
    const Address first = buffer(*machine, 5001);
    const Address second = buffer(*machine, 3 * kPageBytes + 17);
    machine->submit(kLegacyStream, set(second, 4000, 3));
    machine->submit(kLegacyStream, mixing({first, second + argument_offset}));
    if (lost > 0) machine->submit(kLegacyStream, set(second + lost, 1, 0));
    machine->submit(kLegacyStream, mixing({second, first}));
    EXPECT_EQ(machine->wait_all(), CUDA_SUCCESS);
    return machine->checksum();
  }

  // A kernel over one word, a structure that is completely known and one of which nothing is known; the 8 bytes from
  // `changed` on are different: an address, or none.
  struct Seen {
    std::uint64_t checksum = 0;
    bool is_named = false;  // whether the buffer of that address is named
  };

  static Seen mix_structures(std::size_t changed, bool address) {
    start({{"memory", GetParam()}});
    const auto machine = Machine::enter();
    const Address named = buffer(*machine, 4096);
    const Address stray = buffer(*machine, 4096);
    const std::uint64_t zero = machine->digest(stray, 4096);
    Kernel kernel = mixing({named});
    kernel.parameters = {{0, 8}, {8, 16}, {24, 16}};
    kernel.block_of_parameters.resize(40);
    std::vector<CountedByte> counted(40, CountedByte::kYes);
    std::fill(counted.begin() + 8, counted.begin() + 16, CountedByte::kNo);
    std::fill(counted.begin() + 24, counted.end(), CountedByte::kInAnAddress);
    kernel.counted = std::make_shared<const std::vector<CountedByte>>(counted);
    if (changed != 0) std::memset(kernel.block_of_parameters.data() + changed, 0x11, 8);
    if (address) std::memcpy(kernel.block_of_parameters.data() + changed, &stray, 8);
    machine->submit(kLegacyStream, std::move(kernel));
    EXPECT_EQ(machine->wait_all(), CUDA_SUCCESS);
    return {machine->checksum(), machine->digest(stray, 4096) != zero};
  }
};

INSTANTIATE_TEST_SUITE_P(Memory, CoreMixingTest, testing::Values("real", "tagged"),
                         [](const auto& p) { return std::string(p.param); });

TEST_P(CoreMixingTest, ResultDoesNotDependOnAddresses) {
  EXPECT_EQ(program(0), program(5));
  EXPECT_NE(program(0), 0u);
}

TEST_P(CoreMixingTest, OneLostByteChangesTheResult) {
  EXPECT_NE(program(0), program(0, 1));
  EXPECT_NE(program(0), program(0, 3 * kPageBytes + 16));
}

TEST_P(CoreMixingTest, OffsetOfAPointerInsideItsBufferCounts) {
  EXPECT_NE(program(0), program(0, 0, 8));
  EXPECT_EQ(program(0, 0, 3 * kPageBytes + 17), program(3, 0, 3 * kPageBytes + 17));  // one past the end
}

TEST_P(CoreMixingTest, PointersInsideStructsAreFoundAtEveryByte) {
  const auto machine = Machine::enter();
  const Address first = buffer(*machine, 4096);
  const Address second = buffer(*machine, 4096);
  Kernel kernel;
  kernel.name = "packed";
  kernel.parameters = {{0, 4}, {8, 8}, {16, 27}};
  kernel.block_of_parameters.resize(43);
  const std::uint64_t no_address = 12345;
  std::memcpy(kernel.block_of_parameters.data() + 8, &no_address, 8);
  std::memcpy(kernel.block_of_parameters.data() + 16 + 3, &second, 8);
  std::memcpy(kernel.block_of_parameters.data() + 16 + 19, &first, 8);
  const std::uint64_t zero = machine->digest(first, 4096);
  machine->submit(kLegacyStream, std::move(kernel));
  machine->wait_all();
  EXPECT_NE(machine->digest(first, 4096), zero);
  EXPECT_NE(machine->digest(second, 4096), zero);
  EXPECT_NE(machine->digest(second, 4096), machine->digest(first, 4096));
}

TEST_P(CoreMixingTest, BytesThatAKernelDoesNotLoadCountForNothing) {
  const std::uint64_t expected = mix_structures(0, false).checksum;
  EXPECT_EQ(mix_structures(8, false).checksum, expected);
  EXPECT_EQ(mix_structures(8, true).checksum, expected);
  EXPECT_NE(mix_structures(16, false).checksum, expected);
  EXPECT_EQ(mix_structures(32, false).checksum, expected);
}

TEST_P(CoreMixingTest, AnAddressCountsWhereAllOfItMayBeLoaded) {
  EXPECT_FALSE(mix_structures(8, true).is_named);
  EXPECT_FALSE(mix_structures(12, true).is_named);
  EXPECT_TRUE(mix_structures(16, true).is_named);
  EXPECT_TRUE(mix_structures(32, true).is_named);
}

TEST_P(CoreMixingTest, KernelTakesTheTimeToReadAndWriteWhatItNames) {
  const auto machine = Machine::enter();
  const Address at = buffer(*machine, 35'000'000);
  machine->submit(kLegacyStream, mixing({at, at + 64}));
  machine->wait_all();
  SimulatedStatistics statistics{};
  statistics.size = sizeof statistics;
  machine->statistics(&statistics);
  EXPECT_EQ(statistics.compute_busy_ns, 2 * 10'000 + 4000);  // 35 MB at 3,500 GB/s, twice
}

TEST_P(CoreMixingTest, FreshBufferCountsAsZeroWhateverLivedThere) {
  const auto machine = Machine::enter();
  const Address keep = buffer(*machine, 4096);  // keeps the shared page, so that the address is reused
  const Address old = buffer(*machine, 4096);
  const std::uint64_t zero = machine->digest(old, 4096);
  machine->submit(kLegacyStream, set(old, 4096, 0x77));
  machine->wait_all();
  drop(*machine, old);
  const Address at = buffer(*machine, 4096);
  ASSERT_EQ(at, old);
  EXPECT_NE(machine->digest(at, 4096), zero);  // nothing has accessed it yet
  machine->submit(kLegacyStream, copy(Direction::kOnDevice, keep, at + 100, 8));
  machine->wait_all();
  EXPECT_EQ(machine->digest(at, 4096), zero);
  EXPECT_EQ(machine->digest(keep, 4096), zero);
}

TEST_P(CoreMixingTest, PendingWorkOnTheOldBufferDoesNotSpoilTheNewOne) {
  const auto machine = Machine::enter();
  const Address at = buffer(*machine, 4096);
  const std::uint64_t zero = machine->digest(at, 2048);
  const StreamId stream = machine->create_stream(true);
  machine->submit(stream, set(at, 4096, 0x77));
  // Freed and handed out again in stream order, before the set has run.
  ASSERT_EQ(machine->unregister_buffer(at), CUDA_SUCCESS);
  ASSERT_EQ(machine->register_buffer(at, 2048, Fresh::kYes), CUDA_SUCCESS);
  machine->submit(stream, set(at, 8, 0));
  machine->wait_all();
  EXPECT_EQ(machine->digest(at, 2048), zero);
  EXPECT_NE(machine->digest(at + 2048, 2048), zero);
}

TEST_P(CoreMixingTest, BuffersDoNotOverlapAndHeapsHideNothingElse) {
  const auto machine = Machine::enter();
  const Address at = buffer(*machine, 4096);
  EXPECT_EQ(machine->register_buffer(at + 4095, 10, Fresh::kNo), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(machine->register_buffer(at, 4096, Fresh::kNo), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(machine->unregister_buffer(at + 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(machine->buffer_at(at + 4095)->number, 1u);
  EXPECT_FALSE(machine->buffer_at(at + 4096));
  machine->register_heap(at, 100);
  EXPECT_TRUE(machine->is_heap(at + 99));
  EXPECT_FALSE(machine->is_heap(at + 100));
  machine->unregister_heap(at);
  EXPECT_FALSE(machine->is_heap(at));
  machine->validate();
}

void add_one(void** args, Dim3 grid, Dim3 block) {
  auto* const data = *static_cast<int**>(args[0]);
  const auto count = grid.x * block.x;
  for (unsigned i = 0; i < count; ++i) ++data[i];
}

TEST_F(MixingTest, HostImplementationRunsWithItsArguments) {
  const auto machine = Machine::enter();
  const Address at = buffer(*machine, 1024);
  Kernel kernel = mixing({at});
  kernel.function = add_one;
  kernel.grid.x = 8;
  kernel.block.x = 16;
  machine->submit(kLegacyStream, kernel);
  machine->submit(kLegacyStream, kernel);
  int back[256] = {};
  machine->submit(kLegacyStream, to_host(back, at, sizeof back));
  ASSERT_EQ(machine->wait_all(), CUDA_SUCCESS);
  for (int i = 0; i < 256; ++i) EXPECT_EQ(back[i], i < 128 ? 2 : 0);
}

TEST_F(MixingTest, FaultOfAHostImplementationIsAnIllegalAddress) {
  const auto machine = Machine::enter();
  Address at = 0;
  ASSERT_EQ(machine->reserve(kPageBytes, 0, 0, &at), CUDA_SUCCESS);
  Kernel kernel = mixing({at});
  kernel.function = add_one;
  machine->submit(kLegacyStream, std::move(kernel));
  testing::internal::CaptureStderr();
  EXPECT_EQ(machine->wait_all(), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_NE(testing::internal::GetCapturedStderr().find("in mixing"), std::string::npos);
}

using FaultGuardDeathTest = CoreTest;

void leave(int) { _exit(42); }

void access_nothing() {
  volatile std::uintptr_t nowhere = 16;
  *reinterpret_cast<volatile int*>(nowhere) = 1;
}

TEST_F(FaultGuardDeathTest, OtherFaultsGoToTheHandlerThatWasThereBefore) {
  EXPECT_EXIT(
      {
        signal(SIGSEGV, leave);
        auto nothing = [] {};
        run_guarded(nothing);
        access_nothing();
      },
      testing::ExitedWithCode(42), "");
  EXPECT_EXIT(
      {
        signal(SIGSEGV, SIG_DFL);
        auto nothing = [] {};
        run_guarded(nothing);
        access_nothing();
      },
      testing::KilledBySignal(SIGSEGV), "");
}

// Kernels run on whichever thread makes a call, such as one of the library's, which block all signals. A blocked fault
// would end the process.
TEST(FaultGuard, CatchesFaultsOnAThreadThatBlocksSignals) {
  sigset_t all, before, after;
  sigfillset(&all);
  ASSERT_EQ(pthread_sigmask(SIG_SETMASK, &all, &before), 0);
  auto access = [] { *reinterpret_cast<volatile int*>(8) = 0; };
  auto nothing = [] {};
  EXPECT_EQ(run_guarded(access), Address{8});
  EXPECT_EQ(run_guarded(nothing), std::nullopt);
  ASSERT_EQ(pthread_sigmask(SIG_SETMASK, &before, &after), 0);
  EXPECT_TRUE(sigismember(&after, SIGSEGV) == 1 && sigismember(&after, SIGBUS) == 1) << "the thread's mask is restored";
}

}  // namespace
}  // namespace simulator
