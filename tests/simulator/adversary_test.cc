// SPDX-License-Identifier: Apache-2.0
// Properties of adversarial orders: they are reproducible, they vary, and they reach every order of two operations that
// the rules leave open, on whatever engines or streams, and none that the rules forbid.
#include <algorithm>
#include <map>
#include <set>

#include "tests/simulator/core_fixture.h"

namespace simulator {
namespace {

constexpr Bytes kBytes = 4096;
constexpr int kSeeds = 200;

class AdversaryTest : public CoreTest {
 protected:
  enum Kind { kKernel, kToDevice, kToHost, kSet, kHostFunction, kKinds };

  struct Arena {
    Address buffers[kKinds];
    Address pinned;
    std::vector<int>* order;
  };

  // One piece of work of the given kind, followed in its stream by a host function that records its position.
  static void submit(Machine& m, StreamId stream, int kind, const Arena& arena, int tell) {
    const Address at = arena.buffers[kind];
    void* const pinned = reinterpret_cast<void*>(arena.pinned + static_cast<Bytes>(kind) * kBytes);
    switch (kind) {
      case kKernel:
        m.submit(stream, timed(10, {{at, kBytes, true, true, false}}));
        break;
      case kToDevice:
        m.submit(stream, to_device(at, pinned, kBytes));
        break;
      case kToHost:
        m.submit(stream, to_host(pinned, at, kBytes));
        break;
      case kSet:
        m.submit(stream, set(at, kBytes, 1));
        break;
      default:
        break;
    }
    m.submit(stream, HostFunction{[order = arena.order, tell] { order->push_back(tell); }});
  }

  static Arena arena(Machine& m, std::vector<int>* order) {
    Arena made{{}, 0, order};
    for (Address& at : made.buffers) at = buffer(m, kBytes);
    void* host = nullptr;
    EXPECT_EQ(m.allocate_host(kKinds * kBytes, &host), CUDA_SUCCESS);
    made.pinned = reinterpret_cast<Address>(host);
    return made;
  }

  static std::string seed(int number) { return std::to_string(number); }
};

TEST_F(AdversaryTest, ReachesBothOrdersOfAnyTwoKindsOfWorkInAnyTwoStreams) {
  std::map<std::pair<int, int>, int> before;  // how often the first came before the second
  for (int s = 1; s <= kSeeds; ++s) {
    start({{"seed", seed(s).c_str()}});
    const auto m = Machine::enter();
    std::vector<int> order;
    const Arena a = arena(*m, &order);
    for (int kind = 0; kind < kKinds; ++kind) submit(*m, m->create_stream(kind % 2 == 0), kind, a, kind);
    m->wait_all();
    ASSERT_EQ(order.size(), std::size_t{kKinds});
    for (std::size_t i = 0; i < order.size(); ++i) {
      for (std::size_t j = i + 1; j < order.size(); ++j) ++before[{order[i], order[j]}];
    }
  }
  for (int one = 0; one < kKinds; ++one) {
    for (int other = 0; other < kKinds; ++other) {
      if (one == other) continue;
      EXPECT_GE((before[{one, other}]), kSeeds / 10) << one << " before " << other;
    }
  }
}

TEST_F(AdversaryTest, LetsOneStreamRunAheadOfAnotherAllTheWay) {
  bool first_far_ahead = false, second_far_ahead = false;
  constexpr int kEach = 20;
  for (int s = 1; s <= kSeeds; ++s) {
    start({{"seed", seed(s).c_str()}});
    const auto m = Machine::enter();
    std::vector<int> order;
    const Arena a = arena(*m, &order);
    const StreamId streams[] = {m->create_stream(true), m->create_stream(true)};
    for (int i = 0; i < kEach; ++i) {
      for (int stream = 0; stream < 2; ++stream) submit(*m, streams[stream], i % kKinds, a, stream);
    }
    m->wait_all();
    const auto firsts = std::count(order.begin(), order.begin() + kEach, 0);
    first_far_ahead |= firsts > kEach * 3 / 4;
    second_far_ahead |= firsts < kEach / 4;
  }
  EXPECT_TRUE(first_far_ahead);
  EXPECT_TRUE(second_far_ahead);
}

TEST_F(AdversaryTest, NeverBreaksTheOrderOfAStreamOrOfAnEvent) {
  for (int s = 1; s <= kSeeds; ++s) {
    start({{"seed", seed(s).c_str()}});
    const auto m = Machine::enter();
    std::vector<int> order;
    const Arena a = arena(*m, &order);
    const StreamId first = m->create_stream(true), second = m->create_stream(true);
    const EventId event = m->create_event();
    for (int kind = 0; kind < kKinds; ++kind) submit(*m, first, kind, a, kind);
    m->record_event(event, first);
    m->stream_wait_event(second, event);
    for (int kind = 0; kind < kKinds; ++kind) submit(*m, second, kind, a, kKinds + kind);
    m->wait_all();
    ASSERT_TRUE(std::is_sorted(order.begin(), order.end())) << "seed " << s;
    ASSERT_EQ(order.size(), std::size_t{2 * kKinds});
  }
}

TEST_F(AdversaryTest, TheSameSeedGivesTheSameOrderAndOthersGiveOthers) {
  const auto run = [](const char* with) {
    start({{"seed", with}});
    const auto m = Machine::enter();
    std::vector<int> order;
    const Arena a = arena(*m, &order);
    StreamId streams[3];
    for (StreamId& stream : streams) stream = m->create_stream(true);
    for (int i = 0; i < 60; ++i) submit(*m, streams[i % 3], i * 7 % kKinds, a, i);
    m->wait_all();
    SimulatedStatistics statistics{};
    statistics.size = sizeof statistics;
    m->statistics(&statistics);
    EXPECT_EQ(statistics.order_hash, m->order_hash());
    return statistics.order_hash;
  };
  std::set<std::uint64_t> hashes;
  for (int s = 1; s <= 50; ++s) {
    const std::uint64_t hash = run(seed(s).c_str());
    EXPECT_EQ(run(seed(s).c_str()), hash) << "seed " << s;
    hashes.insert(hash);
  }
  hashes.insert(run("time"));
  EXPECT_EQ(run("time"), run("time"));
  EXPECT_EQ(hashes.size(), 51u);
}

}  // namespace
}  // namespace simulator
