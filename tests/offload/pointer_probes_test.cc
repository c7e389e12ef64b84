// SPDX-License-Identifier: Apache-2.0
#include "offload/pointers/pointer_probes.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/allocator/fake_driver.h"

namespace thermocline {
namespace {

constexpr Bytes kPage = FakeDriver::kPage;

class PointerProbesTest : public testing::Test {
 protected:
  void SetUp() override {
    fake.on_copy_to_host = [this](std::byte* to, DeviceAddress from, Bytes bytes) {
      for (Bytes at = 0; at < bytes; at += 8) {
        const std::uint64_t word = memory[from.value + at];
        std::memcpy(to + at, &word, std::min<Bytes>(sizeof word, bytes - at));
      }
      return CUDA_SUCCESS;
    };
    HeapOptions options;
    options.page_bytes = kPage;
    options.limit = 320 * kPage;
    ASSERT_TRUE(Heap::create(driver, clock, options, &heap).ok());
    references = std::make_unique<References>(*heap);
    looks = std::make_unique<PointerProbes>(driver, clock, *heap, *references, false);
    table = allocate(256);
    target = allocate(kPage);
    other = allocate(kPage);
  }
  void TearDown() override {
    fake.run_all();
    looks->evaluate_completed(Wait::kYes);
    references->validate();
    looks.reset();
    EXPECT_EQ(fake.host_taken(), 0u);
  }

  Buffer* allocate(Bytes bytes) {
    Buffer* buffer = nullptr;
    EXPECT_TRUE(heap->allocate(bytes, stream, &buffer).ok());
    return buffer;
  }
  // Launches a kernel of that name with these arguments.
  void launch(const char* name, const std::vector<Buffer*>& given) {
    std::vector<MemoryAccess> accesses;
    for (const Buffer* buffer : given) accesses.push_back({buffer->address()});
    std::vector<DeviceAddress> reachable;
    references->follow(accesses, &reachable);
    looks->arriving({.name = name, .follows = true}, accesses, !reachable.empty());
    fake.submit(handle);
    if (looks->has_arrived()) looks->submitted(stream);
    clock.advance(stream);
    references->validate();
  }
  void write(const Buffer* to, Bytes at, const Buffer* what) {
    memory[to->address().value + at] = what->address().value;
  }
  bool leads(const Buffer* from, const Buffer* to) {
    const References::Targets all = references->targets_of(*from);
    return std::find(all.begin(), all.end(), to) != all.end();
  }
  bool evaluate_completed() {
    fake.run_all();
    return looks->evaluate_completed(Wait::kNo);
  }

  // The contents of device memory, by address. Copies take their data at once; when a probe is complete depends on the
  // fake driver's streams.
  std::map<std::uint64_t, std::uint64_t> memory;
  FakeDriver fake;
  Driver driver{fake.table()};
  StreamClock clock{driver};
  StreamHandle handle = fake.create_stream();
  StreamIndex stream = clock.index_of(handle);
  std::unique_ptr<Heap> heap;
  std::unique_ptr<References> references;
  std::unique_ptr<PointerProbes> looks;
  std::vector<std::unique_ptr<std::string>> own_names;  // kernels are known by the addresses of their names
  Buffer *table = nullptr, *target = nullptr, *other = nullptr;
};

TEST_F(PointerProbesTest, WhatAWriterWroteIsConfirmedAndTheNextOnesAreNotLookedAt) {
  write(table, 8, target);
  launch("setup", {table, target});
  EXPECT_TRUE(evaluate_completed());
  EXPECT_TRUE(leads(table, target));
  write(table, 16, other);
  launch("setup", {table, other});
  EXPECT_TRUE(evaluate_completed());
  EXPECT_EQ(looks->kernels(), 1u);
  Buffer* const third = allocate(kPage);
  launch("setup", {table, third});
  EXPECT_FALSE(looks->any_under_way());
  EXPECT_TRUE(leads(table, third));
}

// A neighbor of what is known to be stored is none of that.
TEST_F(PointerProbesTest, AWriterIsFoundThatStoresTheNeighbourOfWhatIsThere) {
  for (const Bytes bytes : {64, 500, 512}) {
    for (const bool is_left : {true, false}) {
      Buffer *const root = allocate(64), *const a = allocate(bytes), *const b = allocate(bytes);
      ASSERT_EQ(b->address() - a->address(), 512U);
      Buffer *const known = is_left ? b : a, *const stored = is_left ? a : b;
      const HeldWord word{root->address(), known->address().value};
      references->hold({&word, 1});
      write(root, 0, known);
      write(root, 8, stored);
      const std::string name = "link" + std::to_string(bytes) + std::to_string(is_left);
      own_names.push_back(std::make_unique<std::string>(name));
      launch(own_names.back()->c_str(), {root, stored});
      EXPECT_TRUE(evaluate_completed());
      EXPECT_TRUE(leads(root, stored)) << name;
    }
  }
}

// After a module was unloaded: the name is another kernel's.
TEST_F(PointerProbesTest, AnotherKernelOfTheNameIsProbedAtItsFirstLaunch) {
  for (const bool is_under_way : {false, true}) {
    const char* const name = is_under_way ? "second" : "first";
    for (int i = 0; i < 4; ++i) {
      launch(name, {table, target});
      if (i < 3 || !is_under_way) evaluate_completed();
    }
    EXPECT_EQ(looks->writes_none(name), true);
    looks->kernels_may_be_others();
    EXPECT_FALSE(looks->writes_none(name));
    write(table, 8, other);
    launch(name, {table, other});
    EXPECT_TRUE(leads(table, other));
    evaluate_completed();
    EXPECT_TRUE(leads(table, other));
    references->forget(*table);
    memory.clear();
  }
}

// As of structures without padding.
TEST_F(PointerProbesTest, AddressesAreFoundAtEveryMultipleOfFour) {
  Buffer* const packed = allocate(12);
  memory[packed->address().value] = target->address().value << 32;
  memory[packed->address().value + 8] = target->address().value >> 32;
  launch("pack", {packed, target});
  EXPECT_TRUE(evaluate_completed());
  EXPECT_TRUE(leads(packed, target));
}

TEST_F(PointerProbesTest, AWriterOfTheSameAddressesIsOneToo) {
  write(table, 8, target);
  for (int i = 0; i < 2; ++i) {
    launch("setup", {table, target});
    evaluate_completed();
  }
  EXPECT_EQ(looks->kernels(), 1u);
}

TEST_F(PointerProbesTest, UntilTheFirstLookIsOverAnythingMayHaveBeenWrittenAndThenNothing) {
  launch("bias", {table, target});
  launch("bias", {table, other});
  EXPECT_TRUE(leads(table, target));
  EXPECT_TRUE(leads(table, other));
  EXPECT_EQ(looks->looks(), 1u);
  EXPECT_TRUE(evaluate_completed());
  EXPECT_EQ(references->runs(), 0u);
  launch("bias", {table, target});
  EXPECT_EQ(references->runs(), 0u);
}

TEST_F(PointerProbesTest, SayOfWhichKernelsTheyFoundTwiceThatTheyWriteNone) {
  static const char* const bias = "bias";
  for (int i = 0; i < 2; ++i) {
    EXPECT_FALSE(looks->writes_none(bias));
    launch(bias, {table, target});
    evaluate_completed();
  }
  EXPECT_TRUE(looks->writes_none(bias));
  EXPECT_FALSE(looks->writes_none(nullptr));
  write(table, 8, target);
  for (int i = 0; i < 2; ++i) launch(bias, {table, target});
  evaluate_completed();
  EXPECT_FALSE(looks->writes_none(bias));
}

// The next caller must not take it for his own.
TEST_F(PointerProbesTest, AKernelThatWasNotSubmittedIsForgottenByTheNext) {
  launch("bias", {table, target});
  evaluate_completed();
  for (int i = 0; i < 2; ++i) launch("bias", {table, target});
  evaluate_completed();
  const std::vector<MemoryAccess> accesses = {{table->address()}, {target->address()}};
  looks->arriving({.name = "other", .follows = true}, accesses, false);
  ASSERT_TRUE(looks->has_arrived());
  static const char* const known = "bias";
  looks->arriving({.name = known, .follows = true}, accesses, false);
  EXPECT_FALSE(looks->has_arrived());
}

TEST_F(PointerProbesTest, LooksBecomeRare) {
  for (int i = 0; i < 1000; ++i) {
    launch("bias", {table, target});
    evaluate_completed();
  }
  EXPECT_EQ(looks->looks(), 10u) << "1, 2, 4, ..., 512";
}

TEST_F(PointerProbesTest, WhoOnlyReadsATableWritesNone) {
  const HeldWord word{table->address() + 8, target->address().value};
  references->hold({&word, 1});
  write(table, 8, target);
  Buffer* const bias = allocate(64);
  for (int i = 0; i < 3; ++i) {
    launch("grouped", {table, bias, other});
    evaluate_completed();
  }
  EXPECT_EQ(looks->kernels(), 0u);
  EXPECT_FALSE(leads(bias, target));
  EXPECT_TRUE(leads(table, target)) << "the host has put it there";
}

TEST_F(PointerProbesTest, WhoMovesWordsIsLookedAtAnewWhereTheyAreAddresses) {
  Buffer* const from = allocate(64);
  for (int i = 0; i < 100; ++i) {
    launch("move", {table, from});
    evaluate_completed();
  }
  const HeldWord word{from->address(), target->address().value};
  references->hold({&word, 1});
  write(table, 0, target);
  launch("move", {table, from});
  evaluate_completed();
  EXPECT_TRUE(leads(table, target));
}

TEST_F(PointerProbesTest, WhatALaterLookFindsIsHeld) {
  launch("sometimes", {table, target});
  evaluate_completed();
  write(table, 8, target);
  launch("sometimes", {table, target});
  EXPECT_FALSE(leads(table, target));
  evaluate_completed();
  EXPECT_TRUE(leads(table, target));
}

TEST_F(PointerProbesTest, CopiesOfWhatMayBeATableAreTakenBackWithIt) {
  Buffer* const copy = allocate(256);
  launch("bias", {table, target});
  references->copied({copy->address(), 256}, {table->address(), 256}, true);
  references->validate();
  EXPECT_TRUE(leads(copy, target));
  evaluate_completed();
  EXPECT_FALSE(leads(copy, target));
  write(table, 8, target);
  launch("setup", {table, target});
  references->copied({copy->address(), 256}, {table->address(), 256}, true);
  evaluate_completed();
  EXPECT_TRUE(leads(copy, target));
}

TEST_F(PointerProbesTest, NumbersThatAreNoAddressesOfWhatItWasGivenSayNothing) {
  write(table, 8, other);
  launch("bias", {table, target});
  evaluate_completed();
  EXPECT_EQ(references->runs(), 0u);
}

TEST_F(PointerProbesTest, WhatIsWrittenWhileAnyStreamRecordsIsLookedAtLater) {
  clock.recording(true);
  launch("setup", {table, target});
  EXPECT_FALSE(looks->any_under_way());
  EXPECT_TRUE(leads(table, target));
  clock.recording(false);
  launch("setup", {table, other});
  EXPECT_TRUE(looks->any_under_way());
  evaluate_completed();
  EXPECT_EQ(references->runs(), 0u);
}

TEST_F(PointerProbesTest, KnownWritersWriteWhileAnyStreamRecords) {
  write(table, 8, target);
  for (int i = 0; i < 2; ++i) {
    launch("setup", {table, target});
    evaluate_completed();
  }
  ASSERT_EQ(looks->kernels(), 1u);
  clock.recording(true);
  launch("setup", {table, other});
  EXPECT_TRUE(leads(table, other));
  clock.recording(false);
}

// No probe is possible, so what may have been written remains assumed, and is only a possibility.
TEST_F(PointerProbesTest, WithoutPinnedMemoryAnythingMayBeATable) {
  fake.fail("cuMemHostAlloc", 1, CUDA_ERROR_OUT_OF_MEMORY);
  for (const char* const name : {"setup", "bias"}) {
    launch(name, {table, target});
    EXPECT_TRUE(leads(table, target));
  }
  EXPECT_EQ(fake.calls("cuMemHostAlloc"), 1u);
  EXPECT_EQ(looks->kernels(), 0u);
}

TEST_F(PointerProbesTest, AFailureToCopyIsNoVerdict) {
  fake.fail("cuMemcpyDtoHAsync", 1, CUDA_ERROR_UNKNOWN);
  launch("setup", {table, target});
  EXPECT_TRUE(leads(table, target));
  write(table, 8, target);
  launch("setup", {table, target});
  evaluate_completed();
  EXPECT_TRUE(leads(table, target));
}

// The memory for probes is small: as many are pending as fit in it, and none overwrites another's data.
TEST_F(PointerProbesTest, EachLookSeesItsOwnBuffers) {
  std::mt19937_64 random(7);
  std::vector<Buffer*> tables;
  for (const Bytes bytes : {64 * kKiB, 100 * kKiB, 200 * kKiB, 256 * kKiB, 8 * kKiB}) tables.push_back(allocate(bytes));
  std::vector<std::string> names;
  // Fewer than a table can point to.
  for (int i = 0; i < 250; ++i) names.push_back(std::to_string(i));
  std::set<const Buffer*> written;
  std::uint64_t made = 0;
  for (const std::string& name : names) {
    Buffer* const one = tables[random() % tables.size()];
    Buffer* const unlike = allocate(kPage);
    memory.clear();
    const bool writes = random() % 2 == 0;
    if (writes) write(one, one->requested() - 8, unlike);
    const std::uint64_t before = looks->looks();
    launch(name.c_str(), {one, unlike});
    if (looks->looks() > before && writes) written.insert(unlike);
    made += looks->looks() - before;
    for (std::uint64_t steps = random() % 3; steps > 0; --steps) fake.step(handle);
    looks->evaluate_completed(Wait::kNo);
    references->validate();
  }
  fake.run_all();
  looks->evaluate_completed(Wait::kYes);
  EXPECT_GT(made, 50u);
  std::set<const Buffer*> reachable;
  for (const Buffer* const one : tables) {
    for (const Buffer* const to : references->targets_of(*one)) reachable.insert(to);
  }
  for (const Buffer* const one : written) EXPECT_TRUE(reachable.contains(one));
  EXPECT_LT(written.size(), made);
}

}  // namespace
}  // namespace thermocline
