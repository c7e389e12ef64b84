// SPDX-License-Identifier: Apache-2.0
// Uploads that leave their contents on the host (offload/engine/upload_copies.cc), on the simulated device with real
// memory. The source is overwritten as soon as the caller may do that.
#include <vector>

#include "tests/offload/real_memory_fixture.h"

namespace thermocline {
namespace {

using Source = OperationInfo::Source;

class UploadCopiesTest : public RealMemoryTest {
 protected:
  EngineOptions options(UploadCopies which = UploadCopies::kAll) const {
    return {.budget_bytes = 8 * kPage, .policy = kReactivePolicy, .host_fallback = GetParam(), .upload_copies = which};
  }
  // As hooks submit it. The result: how many bytes went by way of the host.
  Bytes upload(DeviceAddress at, Bytes bytes, unsigned char value, Source source = Source::kAtOnce) {
    synchronize();
    std::memset(pinned_, value, bytes);
    const MemoryAccess access{at, bytes, Access::kWrite};
    Operation operation = engine_->begin(kStream, {&access, 1}, {.overwrites = true, .source = source});
    EXPECT_TRUE(operation.status().ok());
    Bytes by_way = 0, done = 0;
    const auto copy = [&](Bytes end, const void* from) {
      if (done == end) return;
      EXPECT_TRUE(driver().copy_to_device(at + done, from, end - done, kStream).ok());
      done = end;
    };
    for (const UploadCopy& part : operation.upload_copies()) {
      copy(part.offset, static_cast<const char*>(pinned_) + done);
      std::memcpy(part.host, static_cast<const char*>(pinned_) + part.offset, part.bytes);
      copy(part.offset + part.bytes, part.host);
      by_way += part.bytes;
    }
    const bool is_all_by_way = by_way == bytes;
    copy(bytes, static_cast<const char*>(pinned_) + done);
    operation.commit();
    engine_->validate();
    if (!is_all_by_way) synchronize();
    std::memset(pinned_, 0xee, bytes);
    return by_way;
  }
  std::vector<unsigned char> bytes_at(DeviceAddress at, Bytes bytes) {
    const MemoryAccess access{at, bytes, Access::kRead};
    Operation operation = engine_->begin(kStream, {&access, 1});
    EXPECT_TRUE(operation.status().ok());
    EXPECT_TRUE(driver().copy_to_host(pinned_, at, bytes, kStream).ok());
    operation.commit();
    synchronize();
    const auto* const found = static_cast<const unsigned char*>(pinned_);
    return {found, found + bytes};
  }
};

TEST_P(UploadCopiesTest, WhatIsOnlyReadNeverGoesOut) {
  start(options());
  std::vector<DeviceAddress> weights;
  for (unsigned char i = 0; i < 8; ++i) {
    weights.push_back(allocate(3 * kPage));
    EXPECT_EQ(upload(weights.back(), 3 * kPage, i), 3 * kPage);
  }
  for (int round = 0; round < 3; ++round) {
    for (unsigned char i = 0; i < 8; ++i) ASSERT_TRUE(holds(weights[i], 3 * kPage, i)) << "round " << round;
  }
  const EngineStatistics s = statistics();
  EXPECT_EQ(s.evicted_bytes, 0u);
  EXPECT_GT(s.evictions, 16u);
  EXPECT_EQ(s.upload_copies, 8u);
  EXPECT_EQ(s.upload_copy_bytes, 24 * kPage);
  EXPECT_EQ(s.useless_upload_copies, 0u);
}

TEST_P(UploadCopiesTest, WhatIsWrittenAfterwardsIsCopied) {
  start(options());
  const DeviceAddress a = allocate(5 * kPage), b = allocate(5 * kPage);
  upload(a, 5 * kPage, 1);
  upload(b, 5 * kPage, 2);
  write(a, 1, 9, 4 * kPage);
  use(b);
  ASSERT_TRUE(holds(a, 1, 9, 4 * kPage));
  ASSERT_TRUE(holds(a, 4 * kPage, 1));
  ASSERT_TRUE(holds(b, 5 * kPage, 2));
  EXPECT_GT(statistics().evicted_bytes, 0u);
}

// The first write is submitted before anything has left; the digest of the upload is behind the upload, and before it.
TEST_P(UploadCopiesTest, AWriteDirectlyBehindTheUploadIsNotInTheCopy) {
  for (std::uint64_t seed = 1; seed <= 2; ++seed) {
    start(options(), seed);
    const DeviceAddress a = allocate(5 * kPage), b = allocate(5 * kPage);
    upload(a, 5 * kPage, 1);
    write_at_once(a, 64, 3, kPage);
    upload(b, 5 * kPage, 2);
    use(a), use(b);
    ASSERT_TRUE(holds(a, 64, 3, kPage));
    ASSERT_TRUE(holds(a, kPage, 1));
    ASSERT_TRUE(holds(b, 5 * kPage, 2));
    TearDown();
    engine_.reset();
  }
}

TEST_P(UploadCopiesTest, AutoWaitsUntilMoreIsLiveThanFits) {
  start(options(UploadCopies::kAuto));
  const DeviceAddress a = allocate(5 * kPage);
  EXPECT_EQ(upload(a, 5 * kPage, 1), 0u);
  EXPECT_FALSE(engine_->wants_upload_copy({a, 5 * kPage}, Source::kAtOnce));
  const DeviceAddress b = allocate(5 * kPage);
  EXPECT_TRUE(engine_->wants_upload_copy({b, 5 * kPage}, Source::kAtOnce));
  EXPECT_FALSE(engine_->wants_upload_copy({b, 5 * kPage}, Source::kInStream));
  EXPECT_EQ(upload(b, 5 * kPage, 2), 5 * kPage);
  for (int turn = 0; turn < 4; ++turn) {
    ASSERT_TRUE(holds(a, 5 * kPage, 1));
    ASSERT_TRUE(holds(b, 5 * kPage, 2));
  }
  EXPECT_LE(statistics().evicted_bytes, 2 * 5 * kPage) << "of the first, with a digest from the second time on";
}

TEST_P(UploadCopiesTest, OffLeavesNone) {
  start(options(UploadCopies::kOff));
  const DeviceAddress a = allocate(5 * kPage), b = allocate(5 * kPage);
  EXPECT_EQ(upload(a, 5 * kPage, 1), 0u);
  EXPECT_EQ(upload(b, 5 * kPage, 2), 0u);
  EXPECT_FALSE(engine_->may_want_upload_copies());
  EXPECT_EQ(statistics().upload_copies, 0u);
}

// An upload of several units leaves copies of those that it fills; a part of a unit is copied as before.
TEST_P(UploadCopiesTest, OfAPartOfABufferTheUnitsThatItFills) {
  start({.budget_bytes = 96 * kMiB,
         .policy = kReactivePolicy,
         .host_fallback = GetParam(),
         .upload_copies = UploadCopies::kAll});
  constexpr Bytes kUnit = 24 * kMiB, kBytes = 3 * kUnit;
  const DeviceAddress a = allocate(kBytes), b = allocate(kBytes);
  EXPECT_EQ(upload(a, kBytes - kUnit / 2, 5), 2 * kUnit);
  EXPECT_EQ(upload(a + (kBytes - kUnit / 2), kUnit / 2, 6), 0u);
  EXPECT_EQ(upload(b + kUnit, kUnit, 7), kUnit);
  EXPECT_EQ(upload(b, kUnit, 8), kUnit);
  EXPECT_EQ(upload(b + 2 * kUnit, kUnit - kUnit / 16, 9), kUnit - kUnit / 16) << "the rest was never defined";
  for (int turn = 0; turn < 2; ++turn) {
    ASSERT_TRUE(holds(a, kBytes - kUnit / 2, 5));
    ASSERT_TRUE(holds(a, kUnit / 2, 6, kBytes - kUnit / 2));
    ASSERT_TRUE(holds(b, kUnit, 7, kUnit));
    ASSERT_TRUE(holds(b, kUnit, 8));
    ASSERT_TRUE(holds(b, kUnit - kUnit / 16, 9, 2 * kUnit));
  }
  EXPECT_LE(statistics().evicted_bytes, 2 * kUnit) << "the third unit of a";
}

// The end of the copy is undefined. What the program writes there may be what is there already.
TEST_P(UploadCopiesTest, WhatIsWrittenBehindAnUploadThatFillsNearlyAllIsKept) {
  start(options());
  const Bytes bytes = 5 * kPage, most = bytes - bytes / 16;
  // Pages and host memory that are used again, with different bytes at the end.
  const DeviceAddress before = allocate(bytes);
  upload(before, bytes, 0x77);
  write(before, bytes - most, 0x11, most);
  synchronize();
  ASSERT_TRUE(engine_->free(before, std::nullopt).ok());
  const DeviceAddress a = allocate(bytes), b = allocate(bytes);
  EXPECT_EQ(upload(a, most, 1), most);
  const std::vector<unsigned char> there = bytes_at(a + most, bytes - most);
  synchronize();
  std::memcpy(pinned_, there.data(), there.size());
  const MemoryAccess end{a + most, there.size(), Access::kWrite};
  Operation operation = engine_->begin(kStream, {&end, 1});
  ASSERT_TRUE(driver().copy_to_device(end.address, pinned_, there.size(), kStream).ok());
  operation.commit();
  use(b), use(b);
  EXPECT_GT(statistics().evictions, 0u);
  ASSERT_EQ(bytes_at(a + most, bytes - most), there);
  ASSERT_TRUE(holds(a, most, 1));
}

// Work of another stream may still write the buffer, for example a kernel that waits for the host.
TEST_P(UploadCopiesTest, WhatOthersMayStillWriteHasNone) {
  start(options());
  const DeviceAddress a = allocate(5 * kPage);
  StreamHandle other{};
  ASSERT_TRUE(driver().create_stream(&other).ok());
  auto* const word = static_cast<volatile std::uint32_t*>(pinned_);
  *word = 0;
  const MemoryAccess all{a};
  Operation kernel = engine_->begin(other, {&all, 1});
  ASSERT_TRUE(kernel.status().ok());
  ASSERT_TRUE(driver().wait_for_value(other, pinned_, 1).ok());
  kernel.commit();
  const MemoryAccess range{a, 5 * kPage, Access::kWrite};
  {
    Operation operation = engine_->begin(kStream, {&range, 1}, {.overwrites = true, .source = Source::kAtOnce});
    ASSERT_TRUE(operation.status().ok());
    EXPECT_TRUE(operation.upload_copies().empty());
    operation.commit();
  }
  *word = 1;
  synchronize();
  EXPECT_EQ(upload(a, 5 * kPage, 1), 5 * kPage);
  ASSERT_TRUE(engine_->free(a, std::nullopt).ok());
  ASSERT_TRUE(driver().destroy_stream(other).ok());
}

// The copy comes to the host in the program's stream, which may take as long as it likes.
TEST_P(UploadCopiesTest, ASleepLeavesWhatIsStillBeingUploaded) {
  start(options());
  const DeviceAddress a = allocate(5 * kPage);
  StreamHandle stream{};
  ASSERT_TRUE(driver().create_stream(&stream).ok());
  auto* const word = static_cast<volatile std::uint32_t*>(pinned_);
  *word = 0;
  const MemoryAccess range{a, 5 * kPage, Access::kWrite};
  {
    Operation operation = engine_->begin(stream, {&range, 1}, {.overwrites = true, .source = Source::kInStream});
    ASSERT_TRUE(operation.status().ok());
    ASSERT_EQ(operation.upload_copies().size(), 1u);
    void* const host = operation.upload_copies()[0].host;
    std::memset(host, 3, 5 * kPage);
    ASSERT_TRUE(driver().wait_for_value(stream, pinned_, 1).ok());
    ASSERT_TRUE(driver().copy_to_device(a, host, 5 * kPage, stream).ok());
    operation.commit();
  }
  SleepReport report;
  ASSERT_TRUE(engine_->sleep({.waits = false}, &report).ok());
  EXPECT_TRUE(report.is_busy);
  EXPECT_EQ(report.in_use_bytes, 5 * kPage);
  *word = 1;
  synchronize();
  ASSERT_TRUE(engine_->sleep({.waits = true}, &report).ok());
  EXPECT_EQ(report.asleep_bytes, 5 * kPage);
  EXPECT_EQ(report.copied_bytes, 0u);
  ASSERT_TRUE(holds(a, 5 * kPage, 3));
  ASSERT_TRUE(driver().destroy_stream(stream).ok());
}

TEST_P(UploadCopiesTest, AnInputIsNoWeight) {
  start(options());
  const DeviceAddress input = allocate(2 * kPage);
  EXPECT_EQ(upload(input, 2 * kPage, 1), 2 * kPage);
  for (unsigned char turn = 2; turn < 6; ++turn) {
    EXPECT_EQ(upload(input, 2 * kPage, turn), turn == 2 ? 2 * kPage : 0);
    ASSERT_TRUE(holds(input, 2 * kPage, turn));
  }
  EXPECT_EQ(statistics().upload_copies, 2u);
  EXPECT_GE(statistics().useless_upload_copies, 1u);
  // The next owner of the memory is another buffer.
  ASSERT_TRUE(engine_->free(input, kStream).ok());
  const DeviceAddress weights = allocate(2 * kPage);
  EXPECT_EQ(upload(weights, 2 * kPage, 1), 2 * kPage);
}

TEST_P(UploadCopiesTest, AnUploadThatIsNotSubmittedLeavesNothing) {
  start(options());
  const DeviceAddress a = allocate(5 * kPage), b = allocate(5 * kPage);
  upload(a, 5 * kPage, 1);
  use(b), use(a), use(b), synchronize();
  const Bytes before = statistics().host_live_bytes;
  for (const bool partly : {false, true}) {
    const MemoryAccess access{a, 5 * kPage, Access::kWrite};
    Operation operation = engine_->begin(kStream, {&access, 1}, {.overwrites = true, .source = Source::kAtOnce});
    ASSERT_TRUE(operation.status().ok());
    if (!partly) continue;
    // The failed upload was submitted in part, and the one submitted in its place reads other memory.
    for (const UploadCopy& part : operation.upload_copies())
      ASSERT_TRUE(driver().copy_to_device(a + part.offset, part.host, 64, kStream).ok());
    operation.forget_upload_copies();
    EXPECT_TRUE(operation.upload_copies().empty());
    std::memset(pinned_, 4, 5 * kPage);
    ASSERT_TRUE(driver().copy_to_device(a, pinned_, 5 * kPage, kStream).ok());
    operation.commit();
  }
  synchronize();
  engine_->validate();
  ASSERT_TRUE(holds(a, 5 * kPage, 4));
  use(b), synchronize();
  ASSERT_TRUE(holds(a, 5 * kPage, 4));
  EXPECT_LE(statistics().host_live_bytes, before + 10 * kPage);
}

// A limit that all live memory does not fit under is never exceeded, and no copy out finds the host full.
TEST_P(UploadCopiesTest, WithinTheHostLimit) {
  for (const Bytes limit : {8 * kPage, 24 * kPage}) {
    EngineOptions with = options();
    with.host_limit_bytes = limit;
    start(with);
    std::vector<DeviceAddress> all;
    for (unsigned char i = 0; i < 8; ++i) {
      DeviceAddress at;
      if (!engine_->allocate(2 * kPage, std::nullopt, &at).ok()) break;
      all.push_back(at);
      upload(at, 2 * kPage, i);
    }
    for (int turn = 0; turn < 2; ++turn) {
      for (std::size_t i = 0; i < all.size(); ++i)
        ASSERT_TRUE(holds(all[i], 2 * kPage, static_cast<unsigned char>(i))) << limit / kPage;
    }
    EXPECT_LE(statistics().peak_host_bytes, limit);
    TearDown();
    engine_.reset();
  }
}

TEST_P(UploadCopiesTest, WithoutTheKernelsThereAreNone) {
  start(options(), {}, refuse_modules);
  const DeviceAddress a = allocate(5 * kPage), b = allocate(5 * kPage);
  upload(a, 5 * kPage, 1);
  upload(b, 5 * kPage, 2);
  for (int turn = 0; turn < 3; ++turn) {
    ASSERT_TRUE(holds(a, 5 * kPage, 1));
    ASSERT_TRUE(holds(b, 5 * kPage, 2));
  }
  EXPECT_LE(statistics().upload_copies, 1u) << "whether they load is found out by the first one";
}

TEST_P(UploadCopiesTest, AdversarialOrders) {
  for (std::uint64_t seed = 1; seed <= 2; ++seed) {
    start(options(seed == 2 ? UploadCopies::kAuto : UploadCopies::kAll), seed);
    std::vector<DeviceAddress> all;
    std::vector<unsigned char> values(6);
    for (std::size_t i = 0; i < values.size(); ++i) {
      all.push_back(allocate(2 * kPage));
      upload(all.back(), 2 * kPage, 0);
    }
    for (unsigned turn = 0; turn < 30; ++turn) {
      const std::size_t which = (turn * 7 + seed) % 6;
      const auto value = static_cast<unsigned char>(turn);
      if ((turn * 5 + seed) % 11 == 0) upload(all[which], 2 * kPage, values[which] = value, Source::kInStream);
      if ((turn * 3 + seed) % 13 == 0) write(all[which], 2 * kPage, values[which] = value);
      if (turn % 9 == 8) {
        ASSERT_TRUE(engine_->free(all[which], std::nullopt).ok());
        all[which] = allocate(2 * kPage);
        upload(all[which], 2 * kPage, values[which] = value);
      }
      if (turn % 4 == 0) {
        ASSERT_TRUE(holds(all[which], 2 * kPage, values[which])) << "seed " << seed << ", turn " << turn;
      } else {
        use(all[which]);
      }
    }
    TearDown();
    engine_.reset();
  }
}

INSTANTIATE_TEST_SUITE_P(Nets, UploadCopiesTest, testing::Values(HostFallback::kOff, HostFallback::kAuto),
                         [](const auto& named) { return named.param == HostFallback::kOff ? "Off" : "Auto"; });

}  // namespace
}  // namespace thermocline
