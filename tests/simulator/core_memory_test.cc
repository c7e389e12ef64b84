// SPDX-License-Identifier: Apache-2.0
// Rules of physical memory, addresses and access, with bytes and with tags.
#include "tests/simulator/core_fixture.h"

namespace simulator {
namespace {

class CoreMemoryTest : public CoreTest, public testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override { start({{"memory", GetParam()}}); }
  void TearDown() override {
    Machine::enter()->validate();
    CoreTest::TearDown();
  }

  // Equal contents give the same number.
  static std::uint64_t digest(const Machine& machine, Address at, Bytes bytes) { return machine.digest(at, bytes); }
};

INSTANTIATE_TEST_SUITE_P(Memory, CoreMemoryTest, testing::Values("real", "tagged"),
                         [](const auto& p) { return std::string(p.param); });

TEST_P(CoreMemoryTest, HandlesAreWholePagesWithinTheCapacity) {
  const auto machine = Machine::enter();
  PhysicalId id = 0;
  EXPECT_EQ(machine->create_physical(0, &id), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(machine->create_physical(kPageBytes + 1, &id), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(machine->create_physical(machine->capacity() + kPageBytes, &id), CUDA_ERROR_OUT_OF_MEMORY);
  ASSERT_EQ(machine->create_physical(machine->capacity(), &id), CUDA_SUCCESS);
  EXPECT_EQ(machine->free_bytes(), 0u);
  PhysicalId more = 0;
  EXPECT_EQ(machine->create_physical(kPageBytes, &more), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(machine->release_physical(id), CUDA_SUCCESS);
  EXPECT_EQ(machine->free_bytes(), machine->capacity());
  EXPECT_EQ(machine->release_physical(id), CUDA_ERROR_INVALID_VALUE);
}

TEST_P(CoreMemoryTest, HandlesCostWhatTheyCostOnHardware) {
  const auto machine = Machine::enter();
  PhysicalId id = 0;
  const Time begin = machine->now();
  machine->create_physical(64 * kPageBytes, &id);
  EXPECT_EQ(machine->now() - begin, 64 * 193'000);
  machine->create_physical(65 * kPageBytes, &id);
  EXPECT_EQ(machine->now() - begin, 64 * 193'000 + 12'000'000);
}

TEST_P(CoreMemoryTest, ReservationsAreAlignedAndReleasedWhole) {
  const auto machine = Machine::enter();
  Address at = 0;
  EXPECT_EQ(machine->reserve(kPageBytes / 2, 0, 0, &at), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(machine->reserve(kPageBytes, 3 * kPageBytes, 0, &at), CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(machine->reserve(8 * kPageBytes, 64 * kPageBytes, 0, &at), CUDA_SUCCESS);
  EXPECT_EQ(at % (64 * kPageBytes), 0u);
  EXPECT_EQ(machine->release_addresses(at, kPageBytes), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(machine->release_addresses(at + kPageBytes, 7 * kPageBytes), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(machine->release_addresses(at, 8 * kPageBytes), CUDA_SUCCESS);
  EXPECT_EQ(machine->release_addresses(at, 8 * kPageBytes), CUDA_ERROR_INVALID_VALUE);
  Address again = 0;
  ASSERT_EQ(machine->reserve(8 * kPageBytes, 0, at, &again), CUDA_SUCCESS);
  EXPECT_EQ(again, at);
}

TEST_P(CoreMemoryTest, MappingTakesAWholeHandleIntoFreeReservedAddresses) {
  const auto machine = Machine::enter();
  Address at = 0;
  PhysicalId id = 0;
  ASSERT_EQ(machine->reserve(4 * kPageBytes, 0, 0, &at), CUDA_SUCCESS);
  ASSERT_EQ(machine->create_physical(2 * kPageBytes, &id), CUDA_SUCCESS);
  EXPECT_EQ(machine->map(at, 2 * kPageBytes, kPageBytes, id), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(machine->map(at, kPageBytes, 0, id), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(machine->map(at + 512, 2 * kPageBytes, 0, id), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(machine->map(at + 3 * kPageBytes, 2 * kPageBytes, 0, id), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(machine->map(at, 2 * kPageBytes, 0, id + 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(machine->map(at + kPageBytes, 2 * kPageBytes, 0, id), CUDA_SUCCESS);
  EXPECT_EQ(machine->map(at, 2 * kPageBytes, 0, id), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(machine->map(at + 2 * kPageBytes, 2 * kPageBytes, 0, id), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(machine->release_addresses(at, 4 * kPageBytes), CUDA_ERROR_INVALID_VALUE);
}

TEST_P(CoreMemoryTest, OnlyWholeMappingsAreUnmappedAndGivenAccess) {
  const auto machine = Machine::enter();
  Address at = 0;
  PhysicalId first = 0, second = 0;
  ASSERT_EQ(machine->reserve(6 * kPageBytes, 0, 0, &at), CUDA_SUCCESS);
  ASSERT_EQ(machine->create_physical(2 * kPageBytes, &first), CUDA_SUCCESS);
  ASSERT_EQ(machine->create_physical(kPageBytes, &second), CUDA_SUCCESS);
  ASSERT_EQ(machine->map(at, 2 * kPageBytes, 0, first), CUDA_SUCCESS);
  ASSERT_EQ(machine->map(at + 2 * kPageBytes, kPageBytes, 0, second), CUDA_SUCCESS);
  EXPECT_EQ(machine->set_access(at, kPageBytes, Access::kReadWrite), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(machine->set_access(at, 4 * kPageBytes, Access::kReadWrite), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(machine->set_access(at, 3 * kPageBytes, Access::kReadWrite), CUDA_SUCCESS);
  EXPECT_EQ(machine->access_at(at + 3 * kPageBytes - 1), Access::kReadWrite);
  EXPECT_EQ(machine->unmap(at, kPageBytes), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(machine->unmap(at + kPageBytes, 2 * kPageBytes), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(machine->unmap(at, 4 * kPageBytes), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(machine->unmap(at, 3 * kPageBytes), CUDA_SUCCESS);
  EXPECT_EQ(machine->access_at(at), Access::kNone);
  EXPECT_EQ(machine->release_addresses(at, 6 * kPageBytes), CUDA_SUCCESS);
}

TEST_P(CoreMemoryTest, PhysicalMemoryReturnsWhenReleasedAndUnmappedEverywhere) {
  const auto machine = Machine::enter();
  PhysicalId id = 0;
  const Address at = mapped(*machine, 2 * kPageBytes, &id);
  Address alias = 0;
  ASSERT_EQ(machine->reserve(2 * kPageBytes, 0, 0, &alias), CUDA_SUCCESS);
  ASSERT_EQ(machine->map(alias, 2 * kPageBytes, 0, id), CUDA_SUCCESS);
  EXPECT_EQ(machine->release_physical(id), CUDA_SUCCESS);
  EXPECT_EQ(machine->unmap(at, 2 * kPageBytes), CUDA_SUCCESS);
  EXPECT_EQ(machine->capacity() - machine->free_bytes(), 2 * kPageBytes);
  EXPECT_EQ(machine->map(at, 2 * kPageBytes, 0, id), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(machine->retain_physical(id), CUDA_SUCCESS);
  EXPECT_EQ(machine->unmap(alias, 2 * kPageBytes), CUDA_SUCCESS);
  EXPECT_EQ(machine->capacity() - machine->free_bytes(), 2 * kPageBytes);
  EXPECT_EQ(machine->release_physical(id), CUDA_SUCCESS);
  EXPECT_EQ(machine->free_bytes(), machine->capacity());
}

TEST_P(CoreMemoryTest, TwoAddressesOfOneHandleHoldTheSame) {
  const auto machine = Machine::enter();
  PhysicalId id = 0;
  const Address at = mapped(*machine, 2 * kPageBytes, &id);
  Address alias = 0;
  ASSERT_EQ(machine->reserve(2 * kPageBytes, 0, 0, &alias), CUDA_SUCCESS);
  ASSERT_EQ(machine->map(alias, 2 * kPageBytes, 0, id), CUDA_SUCCESS);
  ASSERT_EQ(machine->set_access(alias, 2 * kPageBytes, Access::kReadWrite), CUDA_SUCCESS);
  const Operand written{at + kPageBytes, 4096, false, true, false};
  machine->submit(kLegacyStream, timed(1, {written}));
  machine->wait_all();
  EXPECT_EQ(digest(*machine, alias + kPageBytes, 4096), digest(*machine, at + kPageBytes, 4096));
  EXPECT_NE(digest(*machine, alias + kPageBytes, 4096), digest(*machine, alias, 4096));
}

TEST_P(CoreMemoryTest, AccessBeforeItIsGivenIsAnIllegalAddressThatSticks) {
  const auto machine = Machine::enter();
  Address at = 0;
  PhysicalId id = 0;
  ASSERT_EQ(machine->reserve(2 * kPageBytes, 0, 0, &at), CUDA_SUCCESS);
  ASSERT_EQ(machine->create_physical(kPageBytes, &id), CUDA_SUCCESS);
  ASSERT_EQ(machine->map(at, kPageBytes, 0, id), CUDA_SUCCESS);
  machine->submit(kLegacyStream, set(at, 16, 1));
  EXPECT_EQ(machine->error(), CUDA_SUCCESS);
  testing::internal::CaptureStderr();
  EXPECT_EQ(machine->wait_all(), CUDA_ERROR_ILLEGAL_ADDRESS);
  const std::string line = testing::internal::GetCapturedStderr();
  EXPECT_NE(line.find("illegal address 0x"), std::string::npos) << line;
  EXPECT_NE(line.find("in set (operation 1, stream 0)"), std::string::npos) << line;
  EXPECT_EQ(machine->error(), CUDA_ERROR_ILLEGAL_ADDRESS);
  machine->submit(kLegacyStream, Marker{});
  EXPECT_EQ(machine->wait_all(), CUDA_ERROR_ILLEGAL_ADDRESS);
}

TEST_P(CoreMemoryTest, ReadOnlyAccessIsReadableAndNotWritable) {
  const auto machine = Machine::enter();
  PhysicalId id = 0;
  const Address at = mapped(*machine, kPageBytes, &id);
  ASSERT_EQ(machine->set_access(at, kPageBytes, Access::kRead), CUDA_SUCCESS);
  machine->submit(kLegacyStream, timed(1, {{at, 64, true, false, false}}));
  EXPECT_EQ(machine->wait_all(), CUDA_SUCCESS);
  machine->submit(kLegacyStream, timed(1, {{at, 64, false, true, false}}));
  testing::internal::CaptureStderr();
  EXPECT_EQ(machine->wait_all(), CUDA_ERROR_ILLEGAL_ADDRESS);
  testing::internal::GetCapturedStderr();
}

TEST_P(CoreMemoryTest, UnmappingDoesNotWaitForWorkThatStillNeedsTheAddress) {
  const auto machine = Machine::enter();
  PhysicalId id = 0;
  const Address at = mapped(*machine, kPageBytes, &id);
  machine->submit(kLegacyStream, timed(1000, {{at, 64, true, true, false}}));
  EXPECT_EQ(machine->unmap(at, kPageBytes), CUDA_SUCCESS);
  testing::internal::CaptureStderr();
  EXPECT_EQ(machine->wait_all(), CUDA_ERROR_ILLEGAL_ADDRESS);
  testing::internal::GetCapturedStderr();
}

TEST_P(CoreMemoryTest, WorkThatHasEndedBeforeTheUnmappingIsFine) {
  const auto machine = Machine::enter();
  PhysicalId id = 0;
  const Address at = mapped(*machine, kPageBytes, &id);
  machine->submit(kLegacyStream, timed(1, {{at, 64, true, true, false}}));
  for (int i = 0; i < 10; ++i) machine->charge(Cost::kStreamCall);
  EXPECT_EQ(machine->unmap(at, kPageBytes), CUDA_SUCCESS);
  EXPECT_EQ(machine->wait_all(), CUDA_SUCCESS);
}

TEST_P(CoreMemoryTest, NewPhysicalMemoryIsZeroAlsoWhereOthersHaveWritten) {
  const auto machine = Machine::enter();
  PhysicalId id = 0;
  Address at = mapped(*machine, kPageBytes, &id);
  const std::uint64_t zero = digest(*machine, at, kPageBytes);
  machine->submit(kLegacyStream, set(at, kPageBytes, 0xab));
  machine->wait_all();
  EXPECT_NE(digest(*machine, at, kPageBytes), zero);
  ASSERT_EQ(machine->unmap(at, kPageBytes), CUDA_SUCCESS);
  ASSERT_EQ(machine->release_physical(id), CUDA_SUCCESS);
  at = mapped(*machine, kPageBytes, &id);
  EXPECT_EQ(digest(*machine, at, kPageBytes), zero);
  machine->submit(kLegacyStream, set(at, 4096, 0xab));
  machine->submit(kLegacyStream, set(at, 4096, 0));
  machine->wait_all();
  EXPECT_EQ(digest(*machine, at, kPageBytes), zero);
}

TEST_P(CoreMemoryTest, AllocationsShareAndReturnTheirPages) {
  const auto machine = Machine::enter();
  std::vector<Address> small;
  for (int i = 0; i < 3000; ++i) {
    Address at = 0;
    ASSERT_EQ(machine->allocate(1000, false, &at), CUDA_SUCCESS);
    EXPECT_EQ(at % 512, 0u);
    small.push_back(at);
  }
  EXPECT_EQ(machine->capacity() - machine->free_bytes(), 2 * kPageBytes);
  Address begin = 0;
  Bytes bytes = 0;
  EXPECT_TRUE(machine->allocation_at(small[5] + 999, &begin, &bytes));
  EXPECT_EQ(begin, small[5]);
  EXPECT_EQ(bytes, 1000u);
  EXPECT_FALSE(machine->allocation_at(small[5] + 1000, &begin, &bytes));
  for (const Address at : small) EXPECT_EQ(machine->free(at), CUDA_SUCCESS);
  EXPECT_EQ(machine->free_bytes(), machine->capacity());
  EXPECT_EQ(machine->free(small[0]), CUDA_ERROR_INVALID_VALUE);
  Address large = 0;
  ASSERT_EQ(machine->allocate(machine->capacity(), false, &large), CUDA_SUCCESS);
  EXPECT_EQ(machine->allocate(1, false, &small[0]), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(machine->free(large), CUDA_SUCCESS);
}

TEST_P(CoreMemoryTest, AllocationUnderPressureWaitsForWorkThatGivesMemoryBack) {
  const auto machine = Machine::enter();
  Address at = 0;
  ASSERT_EQ(machine->allocate(machine->capacity(), false, &at), CUDA_SUCCESS);
  machine->submit(kLegacyStream, timed(1000));
  Address more = 0;
  EXPECT_EQ(machine->allocate(kPageBytes, false, &more), CUDA_ERROR_OUT_OF_MEMORY);
  Machine* const inner = &*machine;
  machine->submit(kLegacyStream, timed(1000));
  machine->submit(kLegacyStream, Internal{[inner, at] { EXPECT_EQ(inner->free(at), CUDA_SUCCESS); }});
  EXPECT_EQ(machine->allocate(kPageBytes, false, &more), CUDA_SUCCESS);
}

TEST_P(CoreMemoryTest, PinnedRangesAreKnownAndDoNotOverlap) {
  const auto machine = Machine::enter();
  void* at = nullptr;
  ASSERT_EQ(machine->allocate_host(10'000, &at), CUDA_SUCCESS);
  Address begin = 0;
  Bytes bytes = 0;
  EXPECT_TRUE(machine->pinned_at(static_cast<char*>(at) + 9'999, &begin, &bytes));
  EXPECT_EQ(begin, reinterpret_cast<Address>(at));
  EXPECT_EQ(bytes, 10'000u);
  EXPECT_EQ(machine->register_host(at, 100), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
  EXPECT_EQ(machine->unregister_host(at), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
  std::vector<char> own(5000);
  EXPECT_EQ(machine->register_host(own.data(), own.size()), CUDA_SUCCESS);
  EXPECT_EQ(machine->free_host(own.data()), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(machine->unregister_host(own.data()), CUDA_SUCCESS);
  EXPECT_EQ(machine->free_host(at), CUDA_SUCCESS);
}

TEST_F(CoreTest, RectanglesAreCopiedRowByRow) {
  const auto machine = Machine::enter();
  const Address at = buffer(*machine, 1024);
  std::vector<unsigned char> from(64), to(64);
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<unsigned char>(i + 1);
  const Shape host{.width = 3, .height = 4, .depth = 2, .row_pitch = 5, .slice_pitch = 25};
  const Shape device{.width = 3, .height = 4, .depth = 2, .row_pitch = 16, .slice_pitch = 128};
  machine->submit(kLegacyStream,
                  Copy{Direction::kToDevice, at, reinterpret_cast<Address>(from.data()), device, host, {}});
  machine->submit(kLegacyStream, Copy{Direction::kToHost, reinterpret_cast<Address>(to.data()), at, host, device, {}});
  ASSERT_EQ(machine->wait_all(), CUDA_SUCCESS);
  for (std::size_t z = 0; z < 2; ++z) {
    for (std::size_t y = 0; y < 4; ++y) {
      for (std::size_t x = 0; x < 5; ++x) {
        const std::size_t i = z * 25 + y * 5 + x;
        EXPECT_EQ(to[i], x < 3 ? from[i] : 0) << x << " " << y << " " << z;
      }
    }
  }
}

TEST_F(CoreTest, StagedSourceIsWhatItWasAtSubmission) {
  const auto machine = Machine::enter();
  const Address at = buffer(*machine, 64);
  const auto staged = std::make_shared<std::byte[]>(64, std::byte{9});
  Copy staging = to_device(at, nullptr, 64);
  staging.staged = staged;
  machine->submit(kLegacyStream, std::move(staging));
  unsigned char back[64] = {};
  machine->submit(kLegacyStream, to_host(back, at, 64));
  machine->wait_all();
  EXPECT_EQ(back[0], 9);
  EXPECT_EQ(back[63], 9);
}

TEST_F(CoreTest, SetsRepeatTheirElement) {
  const auto machine = Machine::enter();
  const Address at = buffer(*machine, 4096);
  machine->submit(kLegacyStream, Set{at, Shape{4000}, 0x01020304, 4});
  std::vector<std::uint32_t> back(1024);
  machine->submit(kLegacyStream, to_host(back.data(), at, 4096));
  machine->wait_all();
  for (std::size_t i = 0; i < 1024; ++i) EXPECT_EQ(back[i], i < 1000 ? 0x01020304u : 0u);
}

}  // namespace
}  // namespace simulator
