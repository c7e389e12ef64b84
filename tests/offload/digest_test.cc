// SPDX-License-Identifier: Apache-2.0
// The digest of the host, and that of the kernel on the simulated device, which runs its PTX.
#include "offload/digest/digest.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "offload/digest/digests.h"
#include "tests/offload/fake_driver.h"
#include "trace/simulated_device.h"

namespace thermocline {
namespace {

std::vector<std::byte> noise(std::size_t bytes, std::uint32_t seed) {
  std::vector<std::byte> all(bytes);
  for (std::byte& one : all) {
    seed = seed * 1664525 + 1013904223;
    one = static_cast<std::byte>(seed >> 24);
  }
  return all;
}

TEST(DigestTest, EveryBitOfAUnitCounts) {
  std::vector<std::byte> memory = noise(5 * kDigestUnit + 3, 1);
  std::set<std::pair<std::uint64_t, std::uint64_t>> seen;
  const auto note = [&] {
    const Digest digest = digest_of(memory);
    return seen.emplace(digest.low, digest.high).second;
  };
  EXPECT_TRUE(note());
  for (std::size_t bit = 0; bit < 8 * memory.size(); ++bit) {
    memory[bit / 8] ^= std::byte{1} << (bit % 8);
    EXPECT_TRUE(note()) << "bit " << bit;
    memory[bit / 8] ^= std::byte{1} << (bit % 8);
  }
  EXPECT_FALSE(note());
}

TEST(DigestTest, PlacesCount) {
  const std::vector<std::byte> memory = noise(64 * kDigestUnit, 2);
  const Digest before = digest_of(memory);
  for (const std::size_t unit : {std::size_t{4}, std::size_t{8}, std::size_t{16}, std::size_t{512}}) {
    std::vector<std::byte> swapped = memory;
    std::swap_ranges(swapped.begin(), swapped.begin() + static_cast<std::ptrdiff_t>(unit),
                     swapped.begin() + static_cast<std::ptrdiff_t>(unit));
    EXPECT_NE(digest_of(swapped), before) << unit;
  }
  std::vector<std::byte> rotated = memory;
  std::rotate(rotated.begin(), rotated.begin() + kDigestUnit, rotated.end());
  EXPECT_NE(digest_of(rotated), before);
}

// Changes that programs make: signs, small increments, the same change everywhere, exchanged neighbors, zeros. If the
// sums kept any structure, truncated digests would be equal more often than by chance: 14,000 of them have an equal
// pair in 32 bits in 2.3 % of all cases, so in one of these 20 windows about every second time. With one round less,
// signs alone made 500 pairs in half of the windows.
TEST(DigestTest, StructuredChangesCollideNoMoreThanChance) {
  constexpr std::size_t kWords = 64;
  std::vector<std::array<std::uint32_t, kWords>> contents;
  std::array<std::uint32_t, kWords> base{};
  for (std::size_t i = 0; i < kWords; ++i) base[i] = 0x3f800000u + static_cast<std::uint32_t>(i * 4096);
  for (std::size_t i = 0; i < kWords; ++i) {
    for (std::size_t j = 0; j < kWords; ++j) {
      const auto add = [&](auto change) {
        std::array<std::uint32_t, kWords> changed = base;
        change(changed);
        contents.push_back(changed);
      };
      if (i < j) {
        add([&](auto& c) { c[i] ^= 0x80000000u, c[j] ^= 0x80000000u; });
        add([&](auto& c) { ++c[i], --c[j]; });
        add([&](auto& c) { std::swap(c[i], c[j]); });
        add([&](auto& c) { c[i] = c[j] = 0; });
        add([&](auto& c) {
          for (std::size_t k = i; k < j; ++k) ++c[k];
        });
        add([&](auto& c) {
          for (std::size_t k = i; k < j; ++k) c[k] ^= 0x80000000u;
        });
        add([&](auto& c) {
          for (std::size_t k = i; k < j; ++k) c[k] = 0;
        });
      }
    }
  }
  std::sort(contents.begin(), contents.end());
  contents.erase(std::unique(contents.begin(), contents.end()), contents.end());
  ASSERT_GT(contents.size(), 10000u);
  std::size_t met = 0;
  for (unsigned window = 0; window < 20; ++window) {
    std::set<std::uint32_t> seen;
    for (const auto& one : contents) {
      const Digest digest = digest_of(std::as_bytes(std::span(one)));
      const std::uint64_t word = window < 10 ? digest.low : digest.high;
      seen.insert(static_cast<std::uint32_t>(word >> (window % 10 * 3)));
    }
    met += contents.size() - seen.size();
  }
  EXPECT_LE(met, 4u);
}

class DeviceDigestTest : public testing::Test {
 protected:
  static constexpr Bytes kMost = 4 * kMiB;

  void SetUp() override {
    std::string why;
    SimulatedDeviceOptions simulated;
    simulated.library = THERMOCLINE_SIMULATED_CUDA;
    simulated.check = true;
    simulated.tagged = false;
    device_ = SimulatedDevice::open(simulated, &why);
    ASSERT_NE(device_, nullptr) << why;
    clock_.emplace(driver());
    digests_.emplace(driver(), *clock_, Digests::Uses{.wanted = true, .tested = true, .annotate = false});
    ASSERT_TRUE(driver().allocate_host(kMost, &pinned_).ok());
  }
  void TearDown() override {
    digests_.reset();
    clock_.reset();
    EXPECT_TRUE(driver().free_host(pinned_).ok());
  }

  const Driver& driver() const { return device_->driver(); }
  // The device reads pinned memory as it reads its own.
  AddressRange range(Bytes bytes) const { return {{reinterpret_cast<std::uintptr_t>(pinned_)}, bytes}; }
  void pass() {
    EXPECT_TRUE(driver().synchronize_context().ok());
    digests_->poll();
  }
  bool take(Bytes bytes, TakenDigest* out) { return digests_->take(range(bytes), {}, {}, out); }
  // From the beginning of the pinned memory to its second half.
  void* host() const { return static_cast<std::byte*>(pinned_) + kMost / 2; }
  bool copy_if_changed(Bytes bytes, TakenDigest* copied) {
    UseSet submitted;
    const bool copies = digests_->copy_if_changed(range(bytes), host(), {}, {}, copied, &submitted);
    EXPECT_EQ(submitted.size(), 1u);
    return copies;
  }
  bool is_copied(Bytes bytes) const { return std::memcmp(pinned_, host(), bytes) == 0; }
  // The first one begins the test of the kernels, and comes to something only if that is over by then.
  void begin() {
    TakenDigest first;
    static_cast<void>(take(1, &first));
    pass();
    digests_->release(&first);
  }
  Digest by_device(Bytes bytes) {
    TakenDigest taken;
    EXPECT_TRUE(take(bytes, &taken)) << digests_->why_off();
    pass();
    EXPECT_EQ(taken.state, TakenDigest::State::kKnown);
    return taken.value;
  }

  std::unique_ptr<SimulatedDevice> device_;
  std::optional<StreamClock> clock_;
  std::optional<Digests> digests_;
  void* pinned_ = nullptr;
};

// Lengths around everything that the kernel counts in: bytes, units, threads, four units a thread, blocks.
TEST_F(DeviceDigestTest, HostAndDeviceAgree) {
  begin();
  const std::vector<std::byte> memory = noise(kMost, 3);
  std::memcpy(pinned_, memory.data(), kMost);
  constexpr Bytes kBlock = kDigestThreads * kDigestUnit;
  for (const Bytes around :
       {Bytes{8}, Bytes{64}, kBlock, 3 * kBlock, 4 * kBlock, 8 * kBlock, 12 * kBlock, kMost - 20}) {
    for (const Bytes bytes : {around - 7, around - 1, around, around + 1, around + 15, around + 16, around + 17}) {
      EXPECT_EQ(by_device(bytes), digest_of({memory.data(), static_cast<std::size_t>(bytes)})) << bytes;
    }
  }
}

TEST_F(DeviceDigestTest, WhoeverAskedMayLetGo) {
  begin();
  TakenDigest first, second;
  ASSERT_TRUE(take(kMiB, &first));
  ASSERT_TRUE(take(kMiB, &second));
  digests_->release(&first);
  pass();
  EXPECT_EQ(first.state, TakenDigest::State::kNone);
  EXPECT_EQ(second.state, TakenDigest::State::kKnown);
}

// Lengths as above, against a digest that the host knows and against one that it does not know yet.
TEST_F(DeviceDigestTest, WhatHasChangedIsCopiedAndNothingElse) {
  begin();
  const std::vector<std::byte> memory = noise(kMost, 4);
  constexpr Bytes kBlock = kDigestThreads * kDigestUnit;
  for (const Bytes around : {Bytes{64}, kBlock, 4 * kBlock, 32 * 4 * kBlock}) {
    for (const Bytes bytes : {around - 7, around, around + 17}) {
      for (const bool known : {false, true}) {
        std::memcpy(pinned_, memory.data(), kMost);
        TakenDigest copied;
        ASSERT_TRUE(take(bytes, &copied));
        if (known) pass();
        ASSERT_TRUE(copy_if_changed(bytes, &copied));
        pass();
        EXPECT_EQ(copied.outcome, TakenDigest::Outcome::kEqual) << bytes;
        EXPECT_EQ(digests_->next_outcome(), TakenDigest::Outcome::kEqual);
        EXPECT_FALSE(is_copied(bytes)) << "it has another content, and is left alone";

        static_cast<std::byte*>(pinned_)[bytes - 1] ^= std::byte{1};
        ASSERT_TRUE(copy_if_changed(bytes, &copied));
        // Once more behind that, before anybody knows: it is equal to what has just been copied.
        if (!known) {
          ASSERT_TRUE(copy_if_changed(bytes, &copied));
        }
        pass();
        EXPECT_EQ(copied.outcome, known ? TakenDigest::Outcome::kChanged : TakenDigest::Outcome::kEqual);
        EXPECT_EQ(digests_->next_outcome(), TakenDigest::Outcome::kChanged);
        if (!known) {
          EXPECT_EQ(digests_->next_outcome(), TakenDigest::Outcome::kEqual);
        }
        EXPECT_EQ(digests_->next_outcome(), TakenDigest::Outcome::kNotCompared);
        EXPECT_TRUE(is_copied(bytes)) << bytes;
        EXPECT_EQ(std::memcmp(static_cast<std::byte*>(host()) + bytes, memory.data() + kMost / 2 + bytes, 64), 0)
            << "what is behind it stays";
        EXPECT_EQ(copied.value, digest_of({static_cast<std::byte*>(pinned_), static_cast<std::size_t>(bytes)}));
      }
    }
  }
}

// Repeated requests while the device is full count as one load; the last of them comes long after the first.
TEST_F(DeviceDigestTest, LoadsThatFoundNoRoomAreApart) {
  DriverTable table = driver().table();
  refuse_first_modules(&table, 1000);
  const Driver full(table);
  digests_.emplace(full, *clock_, Digests::Uses{.wanted = true, .tested = true, .annotate = false});
  for (int i = 0; i < 1000; ++i) EXPECT_FALSE(digests_->is_ready());
  EXPECT_EQ(modules_loaded, 1);
  EXPECT_TRUE(digests_->on());
  const StreamIndex program = clock_->index_of(StreamHandle{});
  int operations = 0;
  for (; digests_->on() && operations < 100000; ++operations) {
    clock_->advance(program);
    EXPECT_FALSE(digests_->is_ready());
  }
  EXPECT_FALSE(digests_->on());
  EXPECT_EQ(modules_loaded, 16);
  EXPECT_GT(operations, 5000);
  digests_.reset();  // before the driver that it uses
}

TEST_F(DeviceDigestTest, WithoutADigestOfTheCopyNothingIsSubmitted) {
  begin();
  TakenDigest none;
  UseSet submitted;
  EXPECT_FALSE(digests_->copy_if_changed(range(64), host(), {}, {}, &none, &submitted));
  EXPECT_TRUE(submitted.empty());
  EXPECT_EQ(none.state, TakenDigest::State::kNone);
}

TEST_F(DeviceDigestTest, RecordsAreNotMoreThanThereAre) {
  begin();
  StreamHandle stream{};
  ASSERT_TRUE(driver().create_stream(&stream).ok());
  const StreamIndex busy = clock_->index_of(stream);
  ASSERT_EQ(device_->control().launch_operator(reinterpret_cast<void*>(static_cast<std::uintptr_t>(stream)), "long", 0,
                                               0, 1e6, nullptr, 0),
            0);
  UseSet behind;
  behind.add(Use{busy, clock_->advance(busy)});
  std::deque<TakenDigest> many;
  while (many.size() < 100 && digests_->take(range(64), behind, {}, &many.emplace_back())) {
  }
  EXPECT_LT(many.size(), 100u);
  EXPECT_EQ(digests_->statistics().failed, 1u);
  pass();
  EXPECT_TRUE(take(64, &many.emplace_back()));
  pass();
  for (TakenDigest& one : many) digests_->release(&one);
  EXPECT_TRUE(driver().destroy_stream(stream).ok());
}

// Kernels that mix write no records (and none of the program's memory, for the test names none).
TEST_F(DeviceDigestTest, CodeThatDoesNotDoWhatItShouldIsNotUsed) {
  digests_.reset();
  clock_.reset();
  EXPECT_TRUE(driver().free_host(pinned_).ok());
  const SimulatedDeviceControl& control = device_->control();
  device_.reset();
  ASSERT_EQ(control.configure("kernels", "made-up"), nullptr);
  SetUp();
  begin();
  EXPECT_FALSE(digests_->on());
  EXPECT_NE(digests_->why_off(), "");
  TakenDigest none;
  EXPECT_FALSE(take(kMiB, &none));
  EXPECT_EQ(digests_->statistics().taken, 0u);
  TearDown();
  device_.reset();
  ASSERT_EQ(control.configure("kernels", "real"), nullptr);
  SetUp();
}

}  // namespace
}  // namespace thermocline
