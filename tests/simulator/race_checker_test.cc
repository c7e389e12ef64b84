// SPDX-License-Identifier: Apache-2.0
// Every kind of report in both directions: a wrong program is reported, and its ordered twin is not, whatever the order
// in which the device happens to run them.
#include <algorithm>
#include <functional>

#include "tests/simulator/core_fixture.h"
#include "tests/support/seeds.h"

namespace simulator {
namespace {

constexpr Bytes kBytes = 4096;
constexpr Bytes kLarge = 3 * kPageBytes;
constexpr Operand reads(Address at, Bytes bytes = kBytes) { return {at, bytes, true, false, false}; }
constexpr Operand writes(Address at, Bytes bytes = kBytes) { return {at, bytes, false, true, false}; }

class RaceCheckerTest : public CoreTest {
 protected:
  struct Streams {
    StreamId a, b;  // non-blocking
    StreamId blocking_a, blocking_b;
  };
  using Program = std::function<void(Machine&, const Streams&)>;

  static std::uint64_t races(Machine& machine) {
    SimulatedStatistics statistics{};
    statistics.size = sizeof statistics;
    machine.statistics(&statistics);
    return statistics.races;
  }

  // How many findings the program has, and their text.
  static std::uint64_t run(const Program& program, const char* seed, std::string* said, const char* level = "1") {
    start({{"seed", seed}, {"check", level}});
    const auto machine = Machine::enter();
    const Streams streams{machine->create_stream(true), machine->create_stream(true), machine->create_stream(false),
                          machine->create_stream(false)};
    testing::internal::CaptureStderr();
    program(*machine, streams);
    machine->wait_all();
    machine->validate();
    *said = testing::internal::GetCapturedStderr();
    return races(*machine);
  }

  static std::vector<std::string> seeds() {
    std::vector<std::string> all{"time"};
    // At least two, because a single one has only its own order.
    const std::uint64_t seeds = std::max<std::uint64_t>(2, thermocline::scaled_seeds(20));
    for (std::uint64_t seed = 1; seed <= seeds; ++seed) all.push_back(std::to_string(seed));
    return all;
  }

  static void expect_silent(const Program& program, const char* level = "1") {
    for (const std::string& seed : seeds()) {
      std::string said;
      EXPECT_EQ(run(program, seed.c_str(), &said, level), 0u) << "seed " << seed << "\n" << said;
      EXPECT_EQ(said, "") << "seed " << seed;
    }
  }

  // Expects one finding, in each order, that contains all of these names.
  static void expect_one(const Program& program, std::initializer_list<const char*> names, const char* level = "1") {
    for (const std::string& seed : seeds()) {
      std::string said;
      EXPECT_EQ(run(program, seed.c_str(), &said, level), 1u) << "seed " << seed << "\n" << said;
      for (const char* name : names) EXPECT_NE(said.find(name), std::string::npos) << "seed " << seed << "\n" << said;
    }
  }

  static Operator named(const char* name, std::initializer_list<Operand> operands) {
    Operator op = timed(1, operands);
    op.name = name;
    return op;
  }
};

TEST_F(RaceCheckerTest, AWriteBesideAReadIsReportedWithBothOperations) {
  expect_one(
      [](Machine& m, const Streams& s) {
        const Address at = buffer(m, kBytes);
        m.submit(s.a, named("producer", {writes(at)}));
        m.submit(s.b, named("consumer", {reads(at)}));
      },
      {"race: ", "producer", "consumer", "operation 1", "operation 2", "stream 1", "stream 2", "buffer 1", "write of",
       "read of"});
}

TEST_F(RaceCheckerTest, AnEventWaitPutsThemInOrder) {
  expect_silent([](Machine& m, const Streams& s) {
    const Address at = buffer(m, kBytes);
    const EventId event = m.create_event();
    m.submit(s.a, named("producer", {writes(at)}));
    m.record_event(event, s.a);
    m.stream_wait_event(s.b, event);
    m.submit(s.b, named("consumer", {reads(at)}));
  });
}

TEST_F(RaceCheckerTest, AnEventCoversNothingBehindItsRecord) {
  expect_one(
      [](Machine& m, const Streams& s) {
        const Address at = buffer(m, kBytes);
        const EventId event = m.create_event();
        m.record_event(event, s.a);
        m.submit(s.a, named("producer", {writes(at)}));
        m.stream_wait_event(s.b, event);
        m.submit(s.b, named("consumer", {reads(at)}));
      },
      {"producer", "consumer"});
}

TEST_F(RaceCheckerTest, RecordingAgainChangesNothingForEarlierWaits) {
  expect_one(
      [](Machine& m, const Streams& s) {
        const Address at = buffer(m, kBytes);
        const EventId event = m.create_event();
        m.record_event(event, s.a);
        m.stream_wait_event(s.b, event);
        m.submit(s.a, named("producer", {writes(at)}));
        m.record_event(event, s.a);
        m.submit(s.b, named("consumer", {reads(at)}));
      },
      {"producer", "consumer"});
}

TEST_F(RaceCheckerTest, AWaitIsForTheNewestRecord) {
  expect_silent([](Machine& m, const Streams& s) {
    const Address at = buffer(m, kBytes);
    const EventId event = m.create_event();
    m.record_event(event, s.b);
    m.submit(s.a, named("producer", {writes(at)}));
    m.record_event(event, s.a);
    m.stream_wait_event(s.b, event);
    m.submit(s.b, named("consumer", {reads(at)}));
  });
}

TEST_F(RaceCheckerTest, AnEventThatWasNeverRecordedOrdersNothing) {
  expect_one(
      [](Machine& m, const Streams& s) {
        const Address at = buffer(m, kBytes);
        const EventId event = m.create_event();
        m.submit(s.a, named("producer", {writes(at)}));
        m.stream_wait_event(s.b, event);
        m.submit(s.b, named("consumer", {reads(at)}));
      },
      {"producer", "consumer"});
}

TEST_F(RaceCheckerTest, OrderPassesOnThroughAThirdStream) {
  expect_silent([](Machine& m, const Streams& s) {
    const Address at = buffer(m, kBytes);
    const EventId first = m.create_event(), second = m.create_event();
    m.submit(s.a, named("producer", {writes(at)}));
    m.record_event(first, s.a);
    m.stream_wait_event(s.blocking_a, first);
    m.record_event(second, s.blocking_a);
    m.stream_wait_event(s.b, second);
    m.submit(s.b, named("consumer", {reads(at)}));
  });
}

TEST_F(RaceCheckerTest, ReadsBesideEachOtherAreFine) {
  expect_silent([](Machine& m, const Streams& s) {
    const Address at = buffer(m, kLarge);
    void* host = nullptr;
    m.allocate_host(kLarge, &host);
    m.submit(s.a, named("one", {reads(at, kLarge)}));
    m.submit(s.b, named("two", {reads(at, kLarge)}));
    m.submit(s.b, to_host(host, at, kLarge));
  });
}

TEST_F(RaceCheckerTest, NeighboursAreNobodysBusiness) {
  expect_silent([](Machine& m, const Streams& s) {
    const Address at = buffer(m, kLarge);
    m.submit(s.a, named("one", {writes(at, 1000)}));
    m.submit(s.b, named("two", {writes(at + 1000, kPageBytes)}));
    m.submit(s.blocking_a, named("three", {writes(at + 1000 + kPageBytes, 17)}));
  });
}

TEST_F(RaceCheckerTest, OneSharedByteIsEnough) {
  expect_one(
      [](Machine& m, const Streams& s) {
        const Address at = buffer(m, kLarge);
        m.submit(s.a, named("one", {writes(at, kPageBytes + 1)}));
        m.submit(s.b, named("two", {writes(at + kPageBytes, kPageBytes)}));
      },
      {"one", "two"});
}

TEST_F(RaceCheckerTest, AReadThatAWriteMayOvertakeIsReported) {
  const auto program = [](bool waits) {
    return [=](Machine& m, const Streams& s) {
      const Address at = buffer(m, kLarge);
      const EventId read = m.create_event(), again = m.create_event();
      m.submit(s.a, named("read", {reads(at, kLarge)}));
      m.record_event(read, s.a);
      m.submit(s.blocking_a, named("read elsewhere", {reads(at + kPageBytes)}));
      m.record_event(again, s.blocking_a);
      m.stream_wait_event(s.b, read);
      if (waits) m.stream_wait_event(s.b, again);
      m.submit(s.b, set(at, kLarge, 1));
    };
  };
  expect_silent(program(true));
  expect_one(program(false), {"read elsewhere", "set"});
}

TEST_F(RaceCheckerTest, TheLegacyStreamAndBlockingStreamsWaitForEachOther) {
  expect_silent([](Machine& m, const Streams& s) {
    const Address at = buffer(m, kBytes);
    m.submit(s.blocking_a, named("one", {writes(at)}));
    m.submit(kLegacyStream, named("two", {writes(at)}));
    m.submit(s.blocking_b, named("three", {writes(at)}));
  });
  expect_one(
      [](Machine& m, const Streams& s) {
        const Address at = buffer(m, kBytes);
        m.submit(s.blocking_a, named("one", {writes(at)}));
        m.submit(s.blocking_b, named("two", {writes(at)}));
      },
      {"one", "two"});
  expect_one(
      [](Machine& m, const Streams& s) {
        const Address at = buffer(m, kBytes);
        m.submit(s.a, named("one", {writes(at)}));
        m.submit(kLegacyStream, named("two", {writes(at)}));
      },
      {"one", "two"});
}

TEST_F(RaceCheckerTest, ADestroyedBlockingStreamStillCountsForTheLegacyStream) {
  expect_silent([](Machine& m, const Streams& s) {
    const Address at = buffer(m, kBytes);
    m.submit(s.blocking_a, named("one", {writes(at)}));
    m.destroy_stream(s.blocking_a);
    m.create_stream(true);
    m.submit(kLegacyStream, named("two", {writes(at)}));
  });
}

TEST_F(RaceCheckerTest, ANewStreamOfAnOldNumberIsOrderedWithNothing) {
  expect_one(
      [](Machine& m, const Streams& s) {
        const Address at = buffer(m, kBytes);
        m.submit(s.a, named("one", {writes(at)}));
        m.destroy_stream(s.a);
        while (!m.is_done(1)) m.charge(Cost::kStreamCall);  // the device is done; the program has not been told
        const StreamId again = m.create_stream(true);
        m.submit(again, named("two", {writes(at)}));
      },
      {"one", "two"});
}

TEST_F(RaceCheckerTest, WhatTheHostWaitedForIsOver) {
  expect_silent([](Machine& m, const Streams& s) {
    const Address at = buffer(m, kBytes);
    m.submit(s.a, named("one", {writes(at)}));
    m.wait_stream(s.a);
    m.submit(s.b, named("two", {writes(at)}));
    const EventId event = m.create_event();
    m.record_event(event, s.b);
    while (!m.query(m.recorded(event))) m.charge(Cost::kStreamCall);
    m.submit(s.a, named("three", {writes(at)}));
    m.wait_all();
    m.submit(s.b, named("four", {writes(at)}));
  });
}

TEST_F(RaceCheckerTest, ThatItHappenedToBeOverIsNoOrder) {
  expect_one(
      [](Machine& m, const Streams& s) {
        const Address at = buffer(m, kBytes);
        m.submit(s.a, named("one", {writes(at)}));
        while (!m.is_done(1)) m.charge(Cost::kStreamCall);
        m.submit(s.b, named("two", {writes(at)}));
      },
      {"one", "two"});
}

TEST_F(RaceCheckerTest, AHostFunctionThatRanMayHaveToldTheHost) {
  expect_silent([](Machine& m, const Streams& s) {
    const Address at = buffer(m, kBytes);
    bool ran = false;
    m.submit(s.a, named("one", {writes(at)}));
    m.submit(s.a, HostFunction{[&ran] { ran = true; }});
    while (!ran) {
      m.charge(Cost::kStreamCall);
      m.poll();
    }
    m.submit(s.b, named("two", {writes(at)}));
  });
}

TEST_F(RaceCheckerTest, FreeingAndAllocatingAgainForgetsNothingThatIsStillPending) {
  // A caching allocator in the program: one buffer is passed to another stream without a wait.
  expect_one(
      [](Machine& m, const Streams& s) {
        const Address at = buffer(m, kLarge);
        m.submit(s.a, named("last use", {reads(at, kLarge)}));
        EXPECT_EQ(m.unregister_buffer(at), CUDA_SUCCESS);
        EXPECT_EQ(m.register_buffer(at + kPageBytes, kPageBytes, Fresh::kYes), CUDA_SUCCESS);
        m.submit(s.b, named("first use", {writes(at + kPageBytes, kPageBytes)}));
      },
      {"last use", "first use", "buffer 2"});
}

TEST_F(RaceCheckerTest, TwoMappingsOfOnePageCollide) {
  const auto program = [](bool waits) {
    return [=](Machine& m, const Streams& s) {
      PhysicalId id = 0;
      const Address one = mapped(m, kPageBytes, &id);
      Address other = 0;
      m.reserve(kPageBytes, 0, 0, &other);
      m.map(other, kPageBytes, 0, id);
      m.set_access(other, kPageBytes, Access::kReadWrite);
      const EventId event = m.create_event();
      void* host = nullptr;
      m.allocate_host(kPageBytes, &host);
      m.submit(s.a, to_host(host, one, kPageBytes));
      m.record_event(event, s.a);
      if (waits) m.stream_wait_event(s.b, event);
      m.submit(s.b, named("new page_owner", {writes(other, kPageBytes)}));
    };
  };
  expect_silent(program(true));
  expect_one(program(false), {"copy to host", "new page_owner"});
}

TEST_F(RaceCheckerTest, UnmappingUnderAPendingOperationIsReported) {
  const auto program = [](bool waits) {
    return [=](Machine& m, const Streams& s) {
      PhysicalId id = 0, other = 0;
      const Address at = mapped(m, kPageBytes, &id);
      m.create_physical(kPageBytes, &other);
      m.submit(s.a, named("user", {writes(at, kPageBytes)}));
      if (waits) m.wait_stream(s.a);
      m.unmap(at, kPageBytes);
      m.map(at, kPageBytes, 0, other);  // otherwise it would be reported as missing
      m.set_access(at, kPageBytes, Access::kReadWrite);
    };
  };
  expect_silent(program(true));
  expect_one(program(false), {"user", "operation 1", "nmap"});
}

TEST_F(RaceCheckerTest, AccessToWhatIsNotThereIsReported) {
  expect_one(
      [](Machine& m, const Streams& s) {
        PhysicalId id = 0;
        const Address at = mapped(m, kPageBytes, &id);
        m.unmap(at, kPageBytes);
        m.submit(s.a, named("late", {reads(at)}));
        EXPECT_EQ(m.wait_stream(s.a), CUDA_ERROR_ILLEGAL_ADDRESS);
      },
      {"late", "illegal address", "no access"});
}

TEST_F(RaceCheckerTest, PinnedMemoryOfAPendingCopyMustNotBeFreed) {
  const auto program = [](bool waits) {
    return [=](Machine& m, const Streams& s) {
      const Address at = buffer(m, kBytes);
      void* host = nullptr;
      m.allocate_host(kBytes, &host);
      m.submit(s.a, to_device(at, host, kBytes));
      if (waits) m.wait_stream(s.a);
      m.wait_to_free("cuMemFreeHost", reinterpret_cast<Address>(host), kBytes, false);
      m.free_host(host);
    };
  };
  expect_silent(program(true));
  expect_one(program(false), {"cuMemFreeHost", "copy to device"});
}

TEST_F(RaceCheckerTest, TwoCopiesMustNotMeetInPinnedMemory) {
  expect_one(
      [](Machine& m, const Streams& s) {
        const Address at = buffer(m, kLarge);
        void* host = nullptr;
        m.allocate_host(kLarge, &host);
        m.submit(s.a, to_host(host, at, kLarge));
        m.submit(s.b, to_device(at, host, 1));
      },
      {"copy to host", "copy to device"});
}

TEST_F(RaceCheckerTest, FreesThatDriversWaitForAreOnlyReportedOnRequest) {
  const Program program = [](Machine& m, const Streams& s) {
    const Address at = buffer(m, kBytes);
    m.submit(s.a, named("user", {writes(at)}));
    m.wait_to_free("cuMemFree", at, kBytes, true);
    drop(m, at);
  };
  expect_silent(program);
  expect_one(program, {"cuMemFree", "user"}, "strict");
}

TEST_F(RaceCheckerTest, StreamOrderedMemoryBelongsToWhoComesBehindItsAllocation) {
  const auto program = [](StreamId Streams::*freeing, StreamId Streams::*reusing) {
    return [=](Machine& m, const Streams& s) {
      const Address at = buffer(m, kBytes);
      m.submit(s.a, Lifetime{at, kBytes, true});
      m.submit(s.a, named("user", {writes(at)}));
      m.submit(s.*freeing, Lifetime{at, kBytes, false});
      if (reusing != nullptr) m.submit(s.*reusing, named("late", {writes(at)}));
    };
  };
  expect_silent(program(&Streams::a, nullptr));
  expect_one(program(&Streams::a, &Streams::a), {"late", "stream-ordered free"});
  for (const std::string& seed : seeds()) {
    std::string said;
    EXPECT_GT(run(program(&Streams::b, nullptr), seed.c_str(), &said), 0u) << seed;
  }
}

TEST_F(RaceCheckerTest, KernelsThatAreGivenOneBufferMayBothReadIt) {
  expect_silent([](Machine& m, const Streams& s) {
    const Address at = buffer(m, kBytes);
    void* host = nullptr;
    m.allocate_host(kBytes, &host);
    m.submit(s.a, mixing({at}));
    m.submit(s.b, mixing({at}));
    m.submit(s.b, to_host(host, at, kBytes));  // other streams may read, too
    m.wait_all();
    m.submit(s.a, mixing({at}));
    m.submit(s.b, to_device(at, host, 100));  // the kernel may use another part
  });
}

TEST_F(RaceCheckerTest, WhatWritesAWholeBufferIsInTheWayOfAKernelThatIsGivenIt) {
  const auto program = [](bool waits) {
    return [=](Machine& m, const Streams& s) {
      const Address at = buffer(m, kBytes);
      const EventId event = m.create_event();
      m.submit(s.a, mixing({at}));
      m.record_event(event, s.a);
      if (waits) m.stream_wait_event(s.b, event);
      m.submit(s.b, set(at, kBytes, 1));
    };
  };
  expect_silent(program(true));
  expect_one(program(false), {"mixing", "set", "use of"});
}

// parameters: data, words, begin, whether to write
void access_part(void** arguments, Dim3, Dim3) {
  auto* const data = *static_cast<std::uint64_t**>(arguments[0]);
  const auto words = *static_cast<std::uint64_t*>(arguments[1]);
  const auto begin = *static_cast<std::uint64_t*>(arguments[2]);
  const auto writes = *static_cast<std::uint64_t*>(arguments[3]);
  volatile std::uint64_t sum = 0;
  for (std::uint64_t i = begin; i < begin + words; ++i) {
    if (writes != 0) {
      data[i] = i;
    } else {
      sum = sum + data[i];
    }
  }
}

Kernel host_kernel(Address at, std::uint64_t words, std::uint64_t begin, bool writes) {
  Kernel kernel;
  kernel.name = "host kernel";
  kernel.function = &access_part;
  for (const std::uint64_t value : {std::uint64_t{at}, words, begin, std::uint64_t{writes ? 1U : 0U}}) {
    kernel.parameters.push_back({static_cast<std::uint32_t>(kernel.block_of_parameters.size()), sizeof value});
    const auto* const bytes = reinterpret_cast<const std::byte*>(&value);
    kernel.block_of_parameters.insert(kernel.block_of_parameters.end(), bytes, bytes + sizeof value);
  }
  return kernel;
}

TEST_F(RaceCheckerTest, WhatAHostImplementationAccessesIsSeen) {
  const auto program = [](bool writes, bool waits) {
    return [=](Machine& m, const Streams& s) {
      const Address at = buffer(m, kLarge);
      const EventId event = m.create_event();
      void* host = nullptr;
      m.allocate_host(kLarge, &host);
      m.submit(s.a, host_kernel(at, kLarge / 8, 0, writes));
      m.record_event(event, s.a);
      if (waits) m.stream_wait_event(s.b, event);
      m.submit(s.b, to_host(host, at, kLarge));
    };
  };
  expect_one(program(true, false), {"host kernel", "copy to host", "write of"});
  expect_silent(program(true, true));
  expect_silent(program(false, false));
}

TEST_F(RaceCheckerTest, AKernelThatStaysInItsHalfIsInNobodysWay) {
  expect_silent([](Machine& m, const Streams& s) {
    const Address at = buffer(m, kLarge);
    void* host = nullptr;
    m.allocate_host(kLarge, &host);
    m.submit(s.a, to_device(at, host, kLarge / 2));
    m.submit(s.a, host_kernel(at, kLarge / 16, 0, true));
    m.submit(s.b, to_device(at + kLarge / 2, host, kLarge / 2));
    m.submit(s.b, host_kernel(at, kLarge / 16, kLarge / 16, true));
  });
}

TEST_F(RaceCheckerTest, OnlyTheFirstFindingsAreSaidAndAllAreCounted) {
  std::string said;
  const Program program = [](Machine& m, const Streams& s) {
    const Address at = buffer(m, 100 * kBytes);
    for (Bytes i = 0; i < 100; ++i) {
      m.submit(s.a, set(at + i * kBytes, kBytes, 1));
      m.submit(s.b, set(at + i * kBytes, kBytes, 2));
    }
  };
  EXPECT_EQ(run(program, "time", &said), 100u);
  std::size_t lines = 0;
  for (const char c : said) lines += c == '\n' ? 1 : 0;
  EXPECT_EQ(lines, 21u) << said;
}

TEST_F(RaceCheckerTest, TheDeviceRunsTheSameWithAndWithoutIt) {
  const Program program = [](Machine& m, const Streams& s) {
    const Address at = buffer(m, 8 * kBytes);
    const EventId event = m.create_event();
    for (unsigned i = 0; i < 200; ++i) {
      const StreamId stream = i % 3 == 0 ? s.a : i % 3 == 1 ? s.b : s.blocking_a;
      m.submit(stream, named("op", {writes(at + i % 8 * kBytes)}));
      m.record_event(event, stream);
      if (i % 5 == 0) m.stream_wait_event(s.a, event);
      if (i % 50 == 0) m.wait_stream(s.b);
    }
  };
  for (const std::string& seed : seeds()) {
    std::string said;
    run(program, seed.c_str(), &said, "0");
    const std::uint64_t without = Machine::enter()->order_hash();
    EXPECT_GT(run(program, seed.c_str(), &said, "1"), 0u);
    EXPECT_EQ(Machine::enter()->order_hash(), without);
  }
}

}  // namespace
}  // namespace simulator
