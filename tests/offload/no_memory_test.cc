// SPDX-License-Identifier: Apache-2.0
// The engine in a process whose host memory is exhausted from some request on, each in turn. A call that has begun is right
// (host_reserve.h). Without a reserve, calls are refused before anything has changed, and are right once there is memory.
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <memory>
#include <new>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "driver/host_reserve.h"
#include "driver/table.h"
#include "tests/offload/engine_fixture.h"
#include "tests/offload/refused_memory.h"

extern "C" void* __real_malloc(std::size_t bytes);  // NOLINT: the linker's names
extern "C" void* __wrap_malloc(std::size_t bytes);  // NOLINT
void* __wrap_malloc(std::size_t bytes) { return thermocline::refuses() ? nullptr : __real_malloc(bytes); }  // NOLINT

namespace thermocline {
namespace {

// The simulated driver has memory of its own.
template <class Function, int kLine>
class Apart;
template <class Result, class... Arguments, int kLine>
class Apart<Result (*)(Arguments...), kLine> {
 public:
  static void put(Result (**entry)(Arguments...)) {
    if (*entry == nullptr) return;
    real_ = *entry;
    *entry = [](Arguments... arguments) {
      const Granted granted;
      return real_(arguments...);
    };
  }

 private:
  static inline Result (*real_)(Arguments...) = nullptr;
};

enum Entries : int {
#define THERMOCLINE_ENTRY(function, required) kEntry_##function,
  THERMOCLINE_DRIVER_FUNCTIONS(THERMOCLINE_ENTRY)
#undef THERMOCLINE_ENTRY
};

DriverTable apart(DriverTable table) {
#define THERMOCLINE_APART(function, required) Apart<decltype(table.function), kEntry_##function>::put(&table.function);
  THERMOCLINE_DRIVER_FUNCTIONS(THERMOCLINE_APART)
#undef THERMOCLINE_APART
  return table;
}

class NoMemoryTest : public EngineTest {
 protected:
  void start(EngineOptions options) {
    EngineTest::start(options);
    engine_.reset();
    table_ = apart(device_->driver().table());
    driver_ = std::make_unique<Driver>(table_);
    ASSERT_TRUE(Engine::create(*driver_, options, &engine_).ok());
    engine_->set_report_handler([](const std::string&) {});
  }

  void TearDown() override {
    HostReserve::system_has_memory = nullptr;
    EngineTest::TearDown();
  }

  DriverTable table_;
  std::unique_ptr<Driver> driver_;
};

struct Live {
  DeviceAddress address;
  Bytes bytes = 0;
};

// Some allocations, frees and operators, the same for each seed.
class Program {
 public:
  Program(std::uint64_t seed, const SimulatedDevice& device, Engine& engine)
      : random_(seed), device_(device), engine_(engine) {}

  void step(std::int64_t granted_to_call) {
    const auto of_ten = random_() % 10;
    const Bytes bytes = random_() % 2 == 0 ? 1 + random_() % (64 * kKiB) : 1 + random_() % (3 * kPage);
    const std::size_t one = random_() % kMostLive, other = random_() % kMostLive;
    const auto with_little_memory = [&](auto call) {
      granted = granted_to_call;
      const bool was_right = call();
      granted = -1;
      EXPECT_TRUE(was_right);
      engine_.validate();
    };
    if (live_.size() < 4 || (of_ten < 3 && live_.size() < kMostLive)) {
      DeviceAddress address;
      with_little_memory([&] { return engine_.allocate(bytes, std::nullopt, &address).ok(); });
      live_.push_back({address, bytes});
    } else if (of_ten < 7) {
      with_little_memory([&] { return operate({live_[one % live_.size()], live_[other % live_.size()]}); });
    } else {
      const auto at = live_.begin() + static_cast<std::ptrdiff_t>(one % live_.size());
      with_little_memory([&] { return engine_.free(at->address, kStream).ok(); });
      live_.erase(at);
    }
  }

 private:
  static constexpr std::size_t kMostLive = 40;

  bool operate(const std::array<Live, 2>& on) {
    const std::array<MemoryAccess, 2> accesses = {
        {{on[0].address, 0, Access::kUnknown}, {on[1].address, 0, Access::kUnknown}}};
    Operation operation = engine_.begin(kStream, accesses, {.kind = 7, .nanoseconds = 1000});
    if (!operation.status().ok()) return false;
    {
      const Granted all;
      std::array<SimulatedOperand, 2> operands{};
      for (std::size_t i = 0; i < 2; ++i)
        operands[i] = {on[i].address.value, on[i].bytes, SIMULATED_OPERAND_READ | SIMULATED_OPERAND_WRITE};
      const std::size_t count = on[0].address == on[1].address ? 1 : 2;
      EXPECT_EQ(device_.control().launch_operator(nullptr, "operator", 1e9, 1e6, 1, operands.data(), count), 0);
    }
    operation.commit();
    return true;
  }

  std::mt19937_64 random_;
  const SimulatedDevice& device_;
  Engine& engine_;
  std::vector<Live> live_;
};

TEST_F(NoMemoryTest, CallsThatHaveBegunAreRight) {
  for (const PolicyEntry* const policy : {kReactivePolicy, kLearnedPolicy}) {
    std::uint64_t expected = 0;
    // Without a limit first; then without memory from the start of each call, or from its second request on, and so on.
    for (const std::int64_t granted_to_call : {-1, 0, 1, 2, 4}) {
      EngineOptions options;
      options.budget_bytes = 10 * kPage;
      options.policy = policy;
      start(options);
      Program program(1, *device_, *engine_);
      refused = 0;
      for (int i = 0; i < 300 && !HasFailure(); ++i) program.step(granted_to_call);
      EXPECT_GE(engine_->statistics().evictions, 10u);
      if (granted_to_call < 0) expected = checksum();
      EXPECT_EQ(checksum(), expected) << granted_to_call;
      EXPECT_EQ(refused == 0, granted_to_call < 0);
      TearDown();
    }
  }
}

TEST_F(NoMemoryTest, CallsAreRefusedWhereNoReserveIsLeft) {
  EngineOptions options;
  options.budget_bytes = 10 * kPage;
  start(options);
  const DeviceAddress small = allocate(1000), large = allocate(2 * kPage);
  EXPECT_TRUE(operate({{small, 1000}, {large, 2 * kPage}}).ok());
  std::vector<void*> taken;
  HostReserve::system_has_memory = [] { return false; };
  for (void* at = nullptr; (at = HostReserve::take(HostReserve::kRegionBytes / 8, 64)) != nullptr;) taken.push_back(at);
  EXPECT_EQ(taken.size(), 8u);
  EXPECT_FALSE(HostReserve::has_enough());

  DeviceAddress address;
  const MemoryAccess accesses[] = {{small, 1000, Access::kRead}};
  EXPECT_THROW(static_cast<void>(engine_->allocate(1000, std::nullopt, &address)), std::bad_alloc);
  EXPECT_THROW(static_cast<void>(engine_->begin(kStream, accesses)), std::bad_alloc);
  EXPECT_THROW(static_cast<void>(engine_->begin_unknown(kStream)), std::bad_alloc);
  engine_->validate();
  EXPECT_TRUE(engine_->free(large, kStream).ok());

  // There is memory for another region.
  HostReserve::system_has_memory = nullptr;
  EXPECT_TRUE(operate({{small, 1000}}).ok());
  for (void* const at : taken) EXPECT_TRUE(HostReserve::give(at));
  EXPECT_TRUE(operate({{small, 1000}}).ok());
}

TEST(HostReserve, GivesItsMemoryOutAgain) {
  ASSERT_TRUE(HostReserve::has_enough());
  int other = 0;
  EXPECT_FALSE(HostReserve::give(&other));
  for (int round = 0; round < 100; ++round) {
    void* const first = HostReserve::take(HostReserve::kRegionBytes / 4, 8);
    void* const second = HostReserve::take(3, 4096);
    ASSERT_TRUE(first != nullptr && second != nullptr);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(second) % 4096, 0u);
    EXPECT_TRUE(HostReserve::has_enough());
    EXPECT_TRUE(HostReserve::give(second));
    EXPECT_TRUE(HostReserve::give(first));
  }
  EXPECT_EQ(HostReserve::take(HostReserve::kRegionBytes + 1, 8), nullptr);
  std::thread([] {
    HostReserve::leave_alone();
    EXPECT_EQ(HostReserve::take(8, 8), nullptr);
  }).join();
}

}  // namespace
}  // namespace thermocline
