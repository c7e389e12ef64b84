// SPDX-License-Identifier: Apache-2.0
// Random programs against a model that knows every pair of operations: the checker reports something exactly when two
// conflicting operations are unordered, whatever the order in which they happened to run.
#include <array>
#include <random>

#include "tests/simulator/core_fixture.h"
#include "tests/support/seeds.h"

namespace simulator {
namespace {

// Happens-before as a set of predecessors for each operation, by CUDA's rules alone.
class Model {
 public:
  using Behind = std::vector<bool>;

  explicit Model(std::size_t streams) : tails_(streams) {}

  struct Access {
    Address at;
    Bytes bytes;
    bool writes;
  };

  void submit(std::size_t stream, bool blocking, const std::vector<Access>& accesses) {
    Behind behind = host_;
    join(behind, tails_[stream]);
    if (stream == 0) join(behind, blocking_);
    if (blocking) join(behind, tails_[0]);
    for (const Access& access : accesses) {
      for (std::size_t id = 0; id < accessed_.size(); ++id) {
        if (id < behind.size() && behind[id]) continue;
        for (const Access& earlier : accessed_[id]) {
          racy_ |= (earlier.writes || access.writes) && earlier.at < access.at + access.bytes &&
                   access.at < earlier.at + earlier.bytes;
        }
      }
    }
    behind.resize(accessed_.size() + 1);
    behind[accessed_.size()] = true;
    accessed_.push_back(accesses);
    tails_[stream] = behind;
    if (blocking || stream == 0) join(blocking_, behind);
  }

  Behind record(std::size_t stream, bool blocking) {
    submit(stream, blocking, {});
    return tails_[stream];
  }
  // A wait is an operation of its stream too.
  void wait(std::size_t stream, bool blocking, const Behind& event) {
    if (event.empty()) return;
    join(tails_[stream], event);
    submit(stream, blocking, {});
  }
  void host_waits(std::size_t stream) { join(host_, tails_[stream]); }
  void host_waits(const Behind& event) { join(host_, event); }
  bool racy() const { return racy_; }

 private:
  static void join(Behind& into, const Behind& other) {
    if (into.size() < other.size()) into.resize(other.size());
    for (std::size_t i = 0; i < other.size(); ++i) {
      if (other[i]) into[i] = true;
    }
  }

  std::vector<Behind> tails_;
  Behind host_, blocking_;
  std::vector<std::vector<Access>> accessed_;
  bool racy_ = false;
};

class RaceOrderTest : public CoreTest {
 protected:
  static constexpr std::size_t kStreams = 5;  // legacy, two blocking, two non-blocking
  static constexpr Bytes kArena = 5 * kPageBytes;

  struct Outcome {
    bool found, racy;
  };

  // `careful`: percentage of operations before which a stream waits for everything recorded so far.
  static Outcome run(unsigned number, const char* seed, unsigned careful) {
    start({{"seed", seed}, {"check", "1"}, {"memory", "tagged"}});
    const auto m = Machine::enter();
    std::mt19937 random(number);
    const auto chance = [&random](unsigned percent) { return random() % 100 < percent; };
    StreamId streams[kStreams] = {kLegacyStream};
    for (std::size_t i = 1; i < kStreams; ++i) streams[i] = m->create_stream(i > 2);
    const auto blocking = [](std::size_t stream) { return stream == 1 || stream == 2; };
    Model model(kStreams);
    const Address arena = buffer(*m, kArena);
    struct Event {
      EventId id;
      Model::Behind behind;
    };
    std::vector<Event> events;
    for (std::size_t i = 0; i < 6; ++i) events.push_back({m->create_event(), {}});
    for (int i = 0; i < 40; ++i) {
      const std::size_t stream = random() % kStreams;
      if (chance(careful)) {
        for (const Event& event : events) {
          m->stream_wait_event(streams[stream], event.id);
          model.wait(stream, blocking(stream), event.behind);
        }
      }
      Operator op = timed(static_cast<double>(1 + random() % 50));
      std::vector<Model::Access> accesses;
      for (unsigned operands = 1 + random() % 2; operands > 0; --operands) {
        const bool whole = chance(50);
        const Bytes at = whole ? random() % 5 * kPageBytes : random() % (kArena - 5000);
        const Bytes bytes = whole ? (1 + random() % (5 - at / kPageBytes)) * kPageBytes : 1 + random() % 5000;
        const bool writes = chance(30);
        op.operands.push_back({arena + at, bytes, !writes, writes, false});
        accesses.push_back({at, bytes, writes});
      }
      m->submit(streams[stream], op);
      model.submit(stream, blocking(stream), accesses);
      // Careful programs record an event after each operation, so that waiting for all events is waiting for
      // everything.
      if (chance(careful > 0 ? 100 : 60)) {
        Event& event = events[careful > 0 ? stream : random() % events.size()];
        m->record_event(event.id, streams[stream]);
        event.behind = model.record(stream, blocking(stream));
      }
      if (chance(5)) {
        const std::size_t waited = 1 + random() % (kStreams - 1);
        m->wait_stream(streams[waited]);
        model.host_waits(waited);
      }
      if (chance(5)) {
        const Event& event = events[random() % events.size()];
        if (m->query(m->recorded(event.id))) model.host_waits(event.behind);
      }
    }
    m->wait_all();
    m->validate();
    SimulatedStatistics statistics{};
    statistics.size = sizeof statistics;
    m->statistics(&statistics);
    return {statistics.races > 0, model.racy()};
  }
};

TEST_F(RaceOrderTest, SomethingIsFoundExactlyWhenSomethingHasNoOrder) {
  const std::uint64_t programs = thermocline::scaled_seeds(1500) + 10;
  std::uint64_t racy = 0;
  testing::internal::CaptureStderr();
  for (unsigned number = 1; number <= programs && !HasFailure(); ++number) {
    const std::string seed = number % 4 == 0 ? "time" : std::to_string(number);
    const unsigned careful = std::array{0U, 50U, 90U, 97U, 100U}[number % 5];
    const Outcome outcome = run(number, seed.c_str(), careful);
    EXPECT_EQ(outcome.found, outcome.racy) << "program " << number << ", seed " << seed << ", careful " << careful;
    racy += outcome.racy ? 1 : 0;
  }
  testing::internal::GetCapturedStderr();
  // There must be programs of both kinds, or the test would prove nothing.
  EXPECT_GT(racy, programs / 20);
  EXPECT_LT(racy, programs - programs / 20);
}

}  // namespace
}  // namespace simulator
