// SPDX-License-Identifier: Apache-2.0
// Random programs over several streams. With all the event waits that they need, every order that CUDA allows and both
// kinds of memory give the same result; with a wait left out, some order gives another.
#include <algorithm>
#include <array>
#include <random>
#include <set>

#include "tests/simulator/core_fixture.h"
#include "tests/support/seeds.h"

namespace simulator {
namespace {

struct Outcome {
  std::uint64_t checksum = 0;
  std::uint64_t order = 0;
  Time end = 0;

  friend bool operator==(const Outcome&, const Outcome&) = default;
};

// Tracks happens-before between uses of buffers: is anything unordered?
class Hazards {
 public:
  static constexpr std::size_t kStreams = 3;

  explicit Hazards(std::size_t buffers) : last_(buffers), event_(buffers) {}

  // Stream `waiter` is ordered after the newest use of `buffer`.
  void wait(std::size_t waiter, std::size_t buffer) { raise(clocks_[waiter], event_[buffer]); }
  void use(std::size_t stream, std::size_t first, std::size_t second) {
    for (const std::size_t buffer : {first, second}) {
      for (std::size_t other = 0; other < kStreams; ++other) racy_ |= last_[buffer][other] > clocks_[stream][other];
    }
    ++clocks_[stream][stream];
    for (const std::size_t buffer : {first, second}) {
      last_[buffer][stream] = clocks_[stream][stream];
      event_[buffer] = clocks_[stream];
    }
  }
  // The host has waited for the stream; everything submitted later is ordered after it.
  void synchronize(std::size_t stream) {
    for (auto& clock : clocks_) raise(clock, clocks_[stream]);
  }
  bool racy() const { return racy_; }

 private:
  using Clock = std::array<int, kStreams>;
  static void raise(Clock& clock, const Clock& other) {
    for (std::size_t i = 0; i < kStreams; ++i) clock[i] = std::max(clock[i], other[i]);
  }

  std::array<Clock, kStreams> clocks_{};
  std::vector<Clock> last_;   // newest use by each stream
  std::vector<Clock> event_;  // what the event after the newest use covers
  bool racy_ = false;
};

class CoreOrderTest : public CoreTest {
 protected:
  static constexpr std::size_t kStreams = Hazards::kStreams;
  static constexpr std::size_t kBuffers = 8;
  static constexpr Bytes kBytes = 20'000;
  static constexpr int kOperations = 60;
  static constexpr unsigned kOneBuffer = 3;  // kinds of operation below this use one buffer

  struct Facts {
    int waits = 0;
    bool racy = false;
  };

  // Runs program number `number`; leaves out the wait with that ordinal, if any. Each use of a buffer, read or write,
  // is ordered after the one before it by an event that is recorded directly after that.
  static Outcome run(unsigned number, std::initializer_list<Setting> settings, int left_out = -1,
                     Facts* facts = nullptr) {
    start(settings);
    const auto machine = Machine::enter();
    std::mt19937 random(number);
    StreamId streams[kStreams];
    for (StreamId& stream : streams) stream = machine->create_stream(true);
    struct Used {
      Address at = 0;
      std::size_t stream = 0;
      EventId event = 0;
    } buffers[kBuffers];
    for (Used& used : buffers) used = {buffer(*machine, kBytes), 0, machine->create_event()};
    void* host = nullptr;
    EXPECT_EQ(machine->allocate_host(kBuffers * kBytes, &host), CUDA_SUCCESS);
    const auto host_at = reinterpret_cast<Address>(host);

    int wait = 0;
    Hazards hazards(kBuffers);
    for (int i = 0; i < kOperations; ++i) {
      const std::size_t stream = random() % kStreams;
      const std::size_t first = random() % kBuffers;
      const auto kind = static_cast<unsigned>(random() % 6);
      const std::size_t second = kind < kOneBuffer ? first : (first + 1 + random() % (kBuffers - 1)) % kBuffers;
      for (const std::size_t use : {first, second}) {
        if (buffers[use].stream == stream) continue;
        if (wait++ != left_out) {
          machine->stream_wait_event(streams[stream], buffers[use].event);
          hazards.wait(stream, use);
        }
        buffers[use].stream = stream;
      }
      submit_one(*machine, streams[stream], kind, buffers[first].at, buffers[second].at, host_at + first * kBytes);
      hazards.use(stream, first, second);
      for (const std::size_t use : {first, second}) machine->record_event(buffers[use].event, streams[stream]);
      if (random() % 10 == 0) machine->query_stream(streams[stream]);
      if (random() % 40 == 0) {
        machine->wait_stream(streams[stream]);
        hazards.synchronize(stream);
      }
    }
    EXPECT_EQ(machine->wait_all(), CUDA_SUCCESS);
    for (const Used& used : buffers) machine->submit(kLegacyStream, timed(1, {{used.at, kBytes, true, false, false}}));
    for (std::size_t i = 0; i < kBuffers; ++i) {
      machine->submit(kLegacyStream, copy(Direction::kToDevice, buffers[i].at, host_at + i * kBytes, kBytes));
      machine->submit(kLegacyStream, timed(1, {{buffers[i].at, kBytes, true, false, false}}));
    }
    EXPECT_EQ(machine->wait_all(), CUDA_SUCCESS);
    machine->validate();
    if (facts != nullptr) *facts = {wait, hazards.racy()};
    return {machine->checksum(), machine->order_hash(), machine->now()};
  }

  // The first buffer's host copy is used only with the first buffer, so it needs no waits of its own.
  static void submit_one(Machine& machine, StreamId stream, unsigned kind, Address first, Address second,
                         Address host) {
    switch (kind) {
      case 0:
        machine.submit(stream, copy(Direction::kToHost, host, first, kBytes));
        break;
      case 1:
        machine.submit(stream, copy(Direction::kToDevice, first, host, kBytes / 2));
        break;
      case 2:
        machine.submit(stream, set(first + kBytes / 3, kBytes / 3, 0x5a));
        break;
      case 3:
        machine.submit(stream, copy(Direction::kOnDevice, first + 512, second, kBytes / 4));
        break;
      case 4:
        machine.submit(stream, mixing({first, second}));
        break;
      default:
        machine.submit(stream, timed(5, {{first, kBytes, true, true, false}, {second, kBytes, true, false, false}}));
    }
  }

  static unsigned seeds() {
    // At least two, because a single one has only its own order.
    return static_cast<unsigned>(std::max<std::uint64_t>(2, thermocline::scaled_seeds(30)));
  }
};

TEST_F(CoreOrderTest, EverySeedGivesTheResultOfTheOrderOfTime) {
  for (unsigned program = 0; program < 6; ++program) {
    for (const char* memory : {"real", "tagged"}) {
      const Outcome in_time = run(program, {{"memory", memory}});
      std::set<std::uint64_t> orders;
      for (unsigned seed = 0; seed < seeds(); ++seed) {
        const Outcome outcome = run(program, {{"memory", memory}, {"seed", std::to_string(seed).c_str()}});
        ASSERT_EQ(outcome.checksum, in_time.checksum) << "program " << program << ", seed " << seed << ", " << memory;
        orders.insert(outcome.order);
      }
      EXPECT_GT(orders.size(), seeds() / 2);
    }
  }
}

// Waits that are implied by others change nothing, whatever the seed. Some of the rest order two reads, or writes that
// are overwritten unread, which no result shows.
TEST_F(CoreOrderTest, SomeSeedFindsAMissingWait) {
  int needed = 0;
  int found = 0;
  for (unsigned program = 0; program < 3; ++program) {
    Facts facts;
    const std::uint64_t right = run(program, {{"memory", "tagged"}}, -1, &facts).checksum;
    ASSERT_FALSE(facts.racy);
    for (int left_out = 0; left_out < facts.waits; ++left_out) {
      Facts less;
      bool differs = false;
      for (unsigned seed = 0; seed < std::max(10u, seeds()) && !differs; ++seed) {
        differs =
            run(program, {{"memory", "tagged"}, {"seed", std::to_string(seed).c_str()}}, left_out, &less).checksum !=
            right;
        if (!less.racy) break;
      }
      EXPECT_FALSE(differs && !less.racy) << "program " << program << " without wait " << left_out;
      needed += less.racy ? 1 : 0;
      found += differs ? 1 : 0;
    }
  }
  EXPECT_GT(needed, 50);
  EXPECT_GT(found, needed / 2);
}

TEST_F(CoreOrderTest, SameSettingsGiveTheSameRunBitForBit) {
  for (const char* seed : {"time", "0", "7"}) {
    for (const char* memory : {"real", "tagged"}) {
      EXPECT_EQ(run(3, {{"memory", memory}, {"seed", seed}}), run(3, {{"memory", memory}, {"seed", seed}}));
    }
  }
}

TEST_F(CoreOrderTest, RealAndTaggedMemoryGiveOneOrderAndOneTime) {
  for (const char* seed : {"time", "5"}) {
    const Outcome real = run(4, {{"memory", "real"}, {"seed", seed}});
    const Outcome tagged = run(4, {{"memory", "tagged"}, {"seed", seed}});
    EXPECT_EQ(real.order, tagged.order);
    EXPECT_EQ(real.end, tagged.end);
  }
}

}  // namespace
}  // namespace simulator
