// SPDX-License-Identifier: Apache-2.0
// An operation that comes again, with the same addresses: what has changed since must be seen, although nothing is
// looked up.
#include "offload/pointers/references.h"
#include "tests/offload/engine_fixture.h"

namespace thermocline {
namespace {

class KnownOperationsTest : public EngineTest {
 protected:
  static constexpr OperationInfo kKernel{.kind = 11, .nanoseconds = 1000, .name = "kernel", .follows = true};

  Status launch(const Operands& given, StreamHandle stream = kStream) {
    std::vector<MemoryAccess> accesses;
    std::vector<SimulatedOperand> operands;
    for (const auto& [address, bytes] : given) {
      accesses.push_back({address});
      operands.push_back({address.value, bytes, SIMULATED_OPERAND_READ | SIMULATED_OPERAND_WRITE});
    }
    Operation operation = engine_->begin(stream, accesses, kKernel);
    if (!operation.status().ok()) return operation.status();
    auto* const in = reinterpret_cast<void*>(static_cast<std::uintptr_t>(stream));
    EXPECT_EQ(device_->control().launch_operator(in, "kernel", 1e9, 1e6, 5, operands.data(), operands.size()), 0);
    operation.commit();
    engine_->validate();
    return {};
  }
  // From the third time on the operation is known.
  void learn(const Operands& given) {
    const std::uint64_t before = engine_->statistics().repeated_operations;
    for (int times = 0; times < 4; ++times) ASSERT_TRUE(launch(given).ok());
    EXPECT_GT(engine_->statistics().repeated_operations, before);
  }
  // From now on nobody waits for what has been submitted.
  void let_all_end() {
    ASSERT_TRUE(device_->driver().synchronize_context().ok());
    engine_->synchronized_all();
  }
  // Twice, so that it is known itself.
  void evict_by(const Operands& others) {
    for (int times = 0; times < 2; ++times) ASSERT_TRUE(operate(others).ok());
  }
};

TEST_F(KnownOperationsTest, WhatHasBeenEvictedIsFetched) {
  start({.budget_bytes = 8 * kPage});
  const DeviceAddress a = allocate(4 * kPage), b = allocate(4 * kPage), other = allocate(7 * kPage);
  learn({{a, 4 * kPage}, {b, 4 * kPage}});
  evict_by({{other, 7 * kPage}});
  ASSERT_FALSE(engine_->find(a)->resident && engine_->find(b)->resident);
  let_all_end();
  ASSERT_TRUE(launch({{a, 4 * kPage}, {b, 4 * kPage}}).ok());
  EXPECT_TRUE(engine_->find(a)->resident && engine_->find(b)->resident);
}

TEST_F(KnownOperationsTest, AnOperationWithAnotherAddressInTheMiddleIsAnother) {
  start({.budget_bytes = 8 * kPage});
  const DeviceAddress a = allocate(2 * kPage), b = allocate(2 * kPage), c = allocate(2 * kPage),
                      d = allocate(2 * kPage);
  ASSERT_TRUE(operate({{d, 2 * kPage}}).ok());
  const DeviceAddress other = allocate(8 * kPage);
  evict_by({{other, 8 * kPage}});
  ASSERT_FALSE(engine_->find(d)->resident);
  // Fetched memory is waited for until the host knows that it is there.
  ASSERT_TRUE(launch({{a, kPage}, {b, kPage}, {c, kPage}}).ok());
  let_all_end();
  learn({{a, kPage}, {b, kPage}, {c, kPage}});
  ASSERT_TRUE(launch({{a, kPage}, {d, kPage}, {c, kPage}}).ok());
  EXPECT_TRUE(engine_->find(d)->resident);
}

// The memory in which its caller has found an address may hold another one by now.
TEST_F(KnownOperationsTest, AnOperationWithAnAddressThatWasFoundIsLookedUp) {
  start({.budget_bytes = 8 * kPage});
  const MemoryAccess accesses[] = {{allocate(2 * kPage)}, {.address = allocate(2 * kPage), .found = 1}};
  for (const std::size_t number : {2, 1}) {
    for (int times = 0; times < 4; ++times) {
      Operation operation = engine_->begin(kStream, {accesses, number}, kKernel);
      ASSERT_TRUE(operation.status().ok());
      operation.commit();
    }
    EXPECT_EQ(engine_->statistics().repeated_operations > 0, number == 1);
  }
}

// The copy in is under way, and its pages are there.
TEST_F(KnownOperationsTest, WhatIsBeingPrefetchedIsWaitedFor) {
  start({.budget_bytes = 8 * kPage});
  const DeviceAddress a = allocate(4 * kPage), other = allocate(8 * kPage);
  learn({{a, 4 * kPage}});
  evict_by({{other, 8 * kPage}});
  ASSERT_FALSE(engine_->find(a)->resident);
  let_all_end();
  ASSERT_TRUE(engine_->free(other, std::nullopt).ok());
  ASSERT_TRUE(engine_->prefetch(a).ok());
  ASSERT_TRUE(engine_->find(a)->resident);
  ASSERT_TRUE(launch({{a, 4 * kPage}}).ok());
  EXPECT_TRUE(device_->driver().synchronize_context().ok());
  EXPECT_EQ(races(), 0u);
}

// Other buffers have its addresses by now, and its block's number.
TEST_F(KnownOperationsTest, AnAddressThatAnotherBufferHasMeansThatOne) {
  start({.budget_bytes = 8 * kPage});
  const DeviceAddress a = allocate(4 * kPage), inside = a + 3 * kPage;
  learn({{inside, kPage}});
  ASSERT_TRUE(engine_->free(a, std::nullopt).ok());
  // No guard stands behind them.
  constexpr Bytes kSize = 2 * kPage - 600;
  const DeviceAddress first = allocate(kSize), second = allocate(kSize);
  ASSERT_EQ(first, a);
  ASSERT_EQ(second, a + 2 * kPage);
  ASSERT_TRUE(operate({{second, kSize}}).ok());
  // The block that has that one's index by now is on the device.
  ASSERT_TRUE(operate({{first, kSize}}).ok());
  const DeviceAddress other = allocate(6 * kPage);
  evict_by({{other, 6 * kPage}});
  ASSERT_TRUE(engine_->find(first)->resident);
  ASSERT_FALSE(engine_->find(second)->resident);
  let_all_end();
  ASSERT_TRUE(launch({{inside, 600}}).ok());
  EXPECT_TRUE(engine_->find(second)->resident);
}

// Its last bytes mean what begins behind them, once something does.
TEST_F(KnownOperationsTest, AnAddressBehindABufferMeansTheOneThatBeginsThereLater) {
  start({.budget_bytes = 8 * kPage});
  const DeviceAddress a = allocate(4 * kPage - 600);
  const DeviceAddress near_the_end = a + (4 * kPage - 8);
  for (int times = 0; times < 4; ++times) ASSERT_TRUE(launch({{a, kPage}, {near_the_end, 0}}).ok());
  const DeviceAddress behind = allocate(4 * kPage - 600);
  ASSERT_EQ(behind, a + 4 * kPage);
  ASSERT_TRUE(operate({{behind, kPage}}).ok());
  const DeviceAddress other = allocate(4 * kPage);
  evict_by({{a, kPage}, {other, 4 * kPage}});
  ASSERT_FALSE(engine_->find(behind)->resident);
  ASSERT_TRUE(launch({{a, kPage}, {near_the_end, 0}}).ok());
  EXPECT_TRUE(engine_->find(behind)->resident);
}

TEST_F(KnownOperationsTest, WhoHadTheBytesOfASmallBufferOnAnotherStreamIsWaitedFor) {
  start({.budget_bytes = 8 * kPage});
  StreamHandle second{};
  ASSERT_TRUE(device_->driver().create_stream(&second).ok());
  constexpr Bytes kSmall = 300 << 10;
  const DeviceAddress a = allocate(kSmall), b = allocate(kSmall), aside = allocate(kPage);
  learn({{a, kSmall}, {b, kSmall}});
  let_all_end();
  ASSERT_TRUE(launch({{b, kSmall}}, second).ok());
  ASSERT_TRUE(engine_->free(b, std::nullopt).ok());
  const DeviceAddress c = allocate(kSmall);
  ASSERT_EQ(c, b);
  // The same slab and the same addresses, and what has been allocated is noted.
  ASSERT_TRUE(operate({{aside, kPage}}).ok());
  ASSERT_TRUE(launch({{a, kSmall}, {c, kSmall}}).ok());
  EXPECT_TRUE(device_->driver().synchronize_context().ok());
  EXPECT_EQ(races(), 0u);
  engine_->retire(second);
  EXPECT_TRUE(device_->driver().destroy_stream(second).ok());
}

TEST_F(KnownOperationsTest, APointerThatIsStoredThereSinceIsFollowed) {
  start({.budget_bytes = 8 * kPage});
  const DeviceAddress table = allocate(kPage), target = allocate(kPage), other = allocate(7 * kPage);
  ASSERT_TRUE(operate({{target, kPage}}).ok());
  learn({{table, kPage}});
  const HeldWord word{table, target.value};
  engine_->hold({&word, 1});
  evict_by({{other, 7 * kPage}});
  ASSERT_FALSE(engine_->find(target)->resident);
  ASSERT_TRUE(engine_->find(table)->resident);
  let_all_end();
  ASSERT_FALSE(engine_->find(target)->resident);
  ASSERT_TRUE(launch({{table, kPage}}).ok());
  EXPECT_TRUE(engine_->find(target)->resident);
}

TEST_F(KnownOperationsTest, ATableThatHasTheAddressSinceIsProbed) {
  start({.budget_bytes = 32 * kPage});
  const DeviceAddress large = allocate(kPage / 4), beside = allocate(kPage / 4), target = allocate(kPage);
  learn({{large, kPage / 4}, {target, kPage}});
  EXPECT_EQ(engine_->statistics().pointer_probes, 0u);
  ASSERT_TRUE(engine_->free(large, std::nullopt).ok());
  const DeviceAddress table = allocate(References::kMostTableBytes);
  ASSERT_EQ(table, large);
  ASSERT_TRUE(launch({{table, References::kMostTableBytes}, {target, kPage}}).ok());
  EXPECT_EQ(engine_->statistics().pointer_probes, 1u);
  EXPECT_TRUE(engine_->find(beside)->resident);
}

TEST_F(KnownOperationsTest, WhatIsPinnedMeanwhileStaysUntilItIsUnpinned) {
  start({.budget_bytes = 8 * kPage});
  const DeviceAddress a = allocate(4 * kPage), other = allocate(8 * kPage);
  learn({{a, 4 * kPage}});
  ASSERT_TRUE(engine_->pin(a, "the test").ok());
  ASSERT_TRUE(launch({{a, 4 * kPage}}).ok());
  EXPECT_TRUE(operate({{other, 8 * kPage}}).is_out_of_memory());
  engine_->unpin(a, engine_->find(a)->number);
  EXPECT_TRUE(operate({{other, 8 * kPage}}).ok());
  EXPECT_FALSE(engine_->find(a)->resident);
}

// Operations that are known, and in the end not told one by one, teach the same as if they were told one by one: an
// operation that may fail halfway is never known.
class WhatIsLearned : public KnownOperationsTest {
 protected:
  static constexpr int kLayers = 9;

  struct Outcome {
    std::uint64_t plans, divergences, evictions, restores, prefetches, predicted_ns;
    std::uint64_t checksum;
  };

  void operation(std::uint64_t kind, const Operands& buffers) {
    const OperationInfo info{
        .kind = kind, .nanoseconds = timed_ ? 1'000'000u : 0u, .follows = follows_, .may_fail_halfway = one_by_one_};
    ASSERT_TRUE(submit(buffers, Access::kUnknown, info, 1000).ok());
  }
  void step(std::uint64_t kind, const std::vector<DeviceAddress>& layers) {
    for (std::size_t i = 0; i < 2 * layers.size(); ++i) {
      const std::size_t layer = i < layers.size() ? i : 2 * layers.size() - 1 - i;
      operation(kind + i, {{layers[layer], 4 * kPage}, {layers[(layer + 1) % layers.size()], 4 * kPage}});
    }
    if (marks_) engine_->step();
  }
  enum class Interruption : std::uint8_t { kFree, kOther, kPin };
  // In the middle of a step.
  void interrupt(std::vector<DeviceAddress>& layers) {
    for (std::size_t i = 0; i < layers.size() / 2; ++i)
      operation(1000 + i, {{layers[i], 4 * kPage}, {layers[i + 1], 4 * kPage}});
    DeviceAddress& one = layers[layers.size() / 3];
    switch (interruption_) {
      case Interruption::kFree:
        EXPECT_TRUE(engine_->free(one, std::nullopt).ok());
        one = allocate(4 * kPage);
        break;
      case Interruption::kOther:
        operation(4000, {{one, 4 * kPage}});
        break;
      case Interruption::kPin:
        EXPECT_TRUE(engine_->pin(one, "the test").ok());
        engine_->unpin(one, engine_->find(one)->number);
        break;
    }
  }
  Outcome run(bool one_by_one) {
    one_by_one_ = one_by_one;
    start({.budget_bytes = 48 * kPage});
    std::vector<DeviceAddress> layers;
    for (int i = 0; i < kLayers; ++i) layers.push_back(allocate(4 * kPage));
    // All fits: the iteration, another one, back.
    for (int i = 0; i < 12; ++i) step(1000, layers);
    for (int i = 0; i < 7; ++i) step(2000, {layers[1], layers[4]});
    for (int i = 0; i < 8; ++i) step(1000, layers);
    // One buffer comes and goes in each.
    for (int i = 0; i < 8; ++i) {
      step(1000, layers);
      EXPECT_TRUE(engine_->free(layers[3], std::nullopt).ok());
      layers[3] = allocate(4 * kPage);
    }
    // Another one takes its turn in one operation; then something is pinned, and let go.
    for (int i = 0; i < 6; ++i) step(1000, {layers.begin() + i % 2, layers.end() - 1 + i % 2});
    EXPECT_TRUE(engine_->pin(layers[0], "the test").ok());
    for (int i = 0; i < 4; ++i) step(1000, layers);
    engine_->unpin(layers[0], engine_->find(layers[0])->number);
    for (int i = 0; i < 4; ++i) step(1000, layers);
    // The iteration is a part of a longer one. In the end nothing is learned from it, until something happens.
    for (int i = 0; i < 9; ++i) {
      for (int part = 0; part < 3; ++part) step(1000, layers);
      operation(3000, {{layers[5], 4 * kPage}});
    }
    interrupt(layers);
    // It does not fit any more.
    for (int i = 0; i < 6; ++i) layers.push_back(allocate(4 * kPage));
    for (int i = 0; i < 8; ++i) step(1000, layers);
    for (int i = 0; i < 3; ++i) step(2000, {layers[1], layers[4]});
    for (int i = 0; i < 6; ++i) step(1000, layers);
    const EngineStatistics all = engine_->statistics();
    repeated_ = all.repeated_operations;
    const Outcome outcome{all.plans,      all.divergences,       all.evictions, all.restores,
                          all.prefetches, all.predicted_step_ns, checksum()};
    TearDown();
    return outcome;
  }

  bool one_by_one_ = false, follows_ = false, timed_ = true;
  bool marks_ = false;  // the ends of steps: each counts the operations since the one before
  Interruption interruption_ = Interruption::kFree;
  std::uint64_t repeated_ = 0;
};

TEST_F(WhatIsLearned, IsTheSameOneByOne) {
  for (const auto& [follows, timed, marks, interruption] : {std::tuple(false, true, false, Interruption::kFree),
                                                            {true, true, false, Interruption::kOther},
                                                            {true, true, true, Interruption::kOther},
                                                            {true, false, false, Interruption::kPin}}) {
    SCOPED_TRACE(std::string("follows: ") + (follows ? "yes" : "no") + ", timed: " + (timed ? "yes" : "no") +
                 ", marks: " + (marks ? "yes" : "no"));
    follows_ = follows, timed_ = timed, marks_ = marks, interruption_ = interruption;
    const Outcome expected = run(true);
    EXPECT_EQ(repeated_, 0u);
    EXPECT_GT(expected.plans, 3u);
    EXPECT_GT(expected.divergences, 3u);
    EXPECT_GT(expected.restores, 10u);
    const Outcome found = run(false);
    EXPECT_EQ(found.plans, expected.plans);
    EXPECT_EQ(found.divergences, expected.divergences);
    EXPECT_EQ(found.evictions, expected.evictions);
    EXPECT_EQ(found.restores, expected.restores);
    EXPECT_EQ(found.prefetches, expected.prefetches);
    EXPECT_EQ(found.predicted_ns, expected.predicted_ns);
    EXPECT_EQ(found.checksum, expected.checksum);
    EXPECT_GT(repeated_, 1000u);
  }
}

}  // namespace
}  // namespace thermocline
