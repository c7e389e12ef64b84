// SPDX-License-Identifier: Apache-2.0
// Settings, the control table, reset, fork, and the line at exit.
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cmath>
#include <cstdlib>
#include <set>

#include "simulator/profile.h"
#include "tests/simulator/core_fixture.h"

namespace simulator {
namespace {

class CoreLifeTest : public CoreTest {
 protected:
  const SimulatedDeviceControl& control_ = *simulated_device_control();

  static SimulatedStatistics statistics() {
    SimulatedStatistics s{};
    s.size = sizeof s;
    simulated_device_control()->statistics(&s);
    return s;
  }
};

TEST_F(CoreLifeTest, SettingsAreCheckedAndNamed) {
  control_.reset();
  EXPECT_STREQ(control_.configure("memory", "imaginary"), "memory=imaginary does not hold: expected real or tagged");
  EXPECT_NE(
      std::string(control_.configure("colour", "blue")).find("unknown key colour; known are device, memory, seed"),
      std::string::npos);
  EXPECT_NE(control_.configure("device", "abacus"), nullptr);
  EXPECT_NE(control_.configure("seed", "-1"), nullptr);
  EXPECT_NE(control_.configure("link-scale", "0"), nullptr);
  EXPECT_EQ(control_.configure("link-scale", "0.5"), nullptr);
  for (const char* wrong : {"5", "0-5", "9-5", "5-", "5-x"})
    EXPECT_NE(control_.configure("kernel-time", wrong), nullptr);
  EXPECT_EQ(control_.configure("kernel-time", "5-100.5"), nullptr);
  EXPECT_EQ(control_.configure("kernel-time", "off"), nullptr);
  EXPECT_EQ(control_.configure("device", "h200"), nullptr);
  const auto machine = Machine::enter();
  ASSERT_EQ(machine->initialize(), CUDA_SUCCESS);
  EXPECT_STREQ(machine->profile().name, "h200");
  EXPECT_NE(machine->configure("device", "reference"), nullptr);
  machine->reset();
  EXPECT_EQ(machine->configure("link-scale", "1"), nullptr);
}

TEST_F(CoreLifeTest, OperatorsReadWriteAndCount) {
  Address at = 0;
  {
    const auto machine = Machine::enter();
    at = buffer(*machine, 8192);
  }
  const SimulatedOperand operands[] = {{at, 4096, SIMULATED_OPERAND_READ | SIMULATED_OPERAND_WRITE}};
  EXPECT_EQ(control_.launch_operator(nullptr, "gemm", 40e6, 0, NAN, operands, 1), CUDA_SUCCESS);
  EXPECT_EQ(control_.launch_operator(nullptr, "gemm", 0, 0, 10, operands, 1), CUDA_SUCCESS);
  EXPECT_EQ(control_.launch_operator(nullptr, nullptr, 0, 0, 10, operands, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(control_.launch_operator(nullptr, "gemm", -1, 0, NAN, operands, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(control_.launch_operator(reinterpret_cast<void*>(99), "gemm", 0, 0, 1, operands, 1),
            CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(control_.checksum(), 0u);
  Machine::enter()->wait_all();
  EXPECT_NE(control_.checksum(), 0u);
  const SimulatedStatistics s = statistics();
  EXPECT_EQ(s.kernels, 2u);
  EXPECT_EQ(s.compute_busy_ns, 1000 + 4000 + 10'000);
  EXPECT_EQ(s.last_end_ns, control_.device_now_ns());
  EXPECT_EQ(s.peak_live_bytes, 8192u);
  EXPECT_EQ(s.peak_physical_bytes, kPageBytes);
}

// The same data is written again, also at other addresses, and readers can not tell the difference.
TEST_F(CoreLifeTest, RelaunchWritesWhatTheFirstLaunchWrote) {
  std::uint64_t results[3];
  for (const int variant : {0, 1, 2}) {
    start();
    Address from = 0, first = 0, second = 0;
    {
      const auto machine = Machine::enter();
      from = buffer(*machine, 4096);
      first = buffer(*machine, 4096);
      second = buffer(*machine, 4096);
    }
    const auto operands = [&](Address to) {
      return std::array{SimulatedOperand{from, 4096, SIMULATED_OPERAND_READ},
                        SimulatedOperand{to, 4096, SIMULATED_OPERAND_WRITE}};
    };
    EXPECT_EQ(control_.launch_operator(nullptr, "make", 1, 1, NAN, operands(first).data(), 2), CUDA_SUCCESS);
    const Address again = variant == 0 ? first : second;
    if (variant == 1) {
      EXPECT_EQ(control_.relaunch_operator(nullptr, "make", 1, 1, NAN, operands(again).data(), 2, 1), CUDA_SUCCESS);
    }
    const SimulatedOperand read{again, 4096, SIMULATED_OPERAND_READ};
    EXPECT_EQ(control_.launch_operator(nullptr, "use", 1, 1, NAN, &read, 1), CUDA_SUCCESS);
    Machine::enter()->wait_all();
    results[variant] = control_.checksum();
    EXPECT_EQ(control_.relaunch_operator(nullptr, "make", 1, 1, NAN, operands(again).data(), 2, 0),
              CUDA_ERROR_INVALID_VALUE);
  }
  EXPECT_EQ(results[0], results[1]);
  EXPECT_NE(results[0], results[2]) << "what is not made again is missed";
}

TEST_F(CoreLifeTest, FreshOperandCountsAsZero) {
  std::uint64_t results[2];
  for (const std::uint64_t stale : {std::uint64_t{0}, std::uint64_t{1}}) {
    start();
    {
      const auto machine = Machine::enter();
      const Address at = buffer(*machine, 4096);
      machine->submit(kLegacyStream, set(at, 4096, stale));
      machine->submit(kLegacyStream, timed(1, {{at, 4096, true, true, true}}));
      machine->wait_all();
    }
    results[stale] = control_.checksum();
  }
  EXPECT_EQ(results[0], results[1]);
}

TEST_F(CoreLifeTest, ResetGoesBackToTheStart) {
  std::uint64_t first[3] = {};
  for (std::uint64_t* result : {&first[0], &first[1]}) {
    start();
    const auto machine = Machine::enter();
    const Address at = buffer(*machine, 4096);
    machine->submit(machine->create_stream(true), mixing({at}));
    machine->wait_all();
    *result = machine->checksum() ^ machine->order_hash() ^ static_cast<std::uint64_t>(machine->now());
  }
  EXPECT_EQ(first[0], first[1]);
  control_.reset();
  EXPECT_EQ(control_.now_ns(), 0);
  EXPECT_EQ(statistics().operations, 0u);
}

TEST_F(CoreLifeTest, StatisticsFillOnlyWhatTheCallerKnows) {
  SimulatedStatistics s{};
  s.size = offsetof(SimulatedStatistics, h2d_copies);
  s.h2d_copies = 77;
  control_.statistics(&s);
  EXPECT_EQ(s.size, offsetof(SimulatedStatistics, h2d_copies));
  EXPECT_EQ(s.h2d_copies, 77u);
}

TEST_F(CoreLifeTest, ForkedChildHasNoDevice) {
  start({{"progress", "on"}});
  Machine::enter()->submit(kLegacyStream, timed(1000));  // the progress thread exists now
  const pid_t child = fork();
  if (child == 0) {
    const bool refused = Machine::enter()->error() == CUDA_ERROR_NOT_INITIALIZED;
    // Not exit(): LeakSanitizer would wait for a lock of its allocator that the progress thread may have held here.
    _exit(refused ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(Machine::enter()->wait_all(), CUDA_SUCCESS);
}

TEST_F(CoreLifeTest, HostFunctionsKnowThatTheyMayNotCallTheDriver) {
  bool inside = false;
  int refused = 0;
  {
    const auto machine = Machine::enter();
    machine->submit(kLegacyStream, HostFunction{[&] {
                      inside = Machine::in_host_function();
                      refused = simulated_device_control()->launch_operator(nullptr, "x", 0, 0, 1, nullptr, 0);
                    }});
    machine->wait_all();
  }
  EXPECT_TRUE(inside);
  EXPECT_EQ(refused, CUDA_ERROR_NOT_PERMITTED);
  EXPECT_FALSE(Machine::in_host_function());
}

using CoreLifeDeathTest = CoreLifeTest;

TEST_F(CoreLifeDeathTest, StatisticsAreOneLineAtExit) {
  EXPECT_EXIT(
      {
        start({{"stats", "1"}});
        {
          const auto machine = Machine::enter();
          const Address at = buffer(*machine, 4096);
          machine->submit(kLegacyStream, to_device(at, "12345678", 8));
          machine->submit(kLegacyStream, timed(1000, {{at, 8, true, false, false}}));
          machine->wait_all();
        }
        std::exit(0);
      },
      testing::ExitedWithCode(0),
      "simulated device reference: time_ms=1\\.[0-9]+ kernels=1 h2d_bytes=8 d2h_bytes=0 peak_device_bytes=2097152 "
      "peak_live_bytes=4096");
}

TEST_F(CoreLifeDeathTest, EnvironmentChoosesTheDeviceAndIsChecked) {
  EXPECT_EXIT(
      {
        Machine::enter()->reset();
        setenv("THERMOCLINE_SIMULATE_DEVICE", "abacus", 1);
        std::_Exit(Machine::enter()->initialize() == CUDA_ERROR_NO_DEVICE ? 0 : 1);
      },
      testing::ExitedWithCode(0), "THERMOCLINE_SIMULATE_DEVICE=abacus does not hold");
}

TEST(ProfileTest, EveryFigureHasASourceAndEveryNameIsFound) {
  std::set<std::string> names;
  for (const Profile& profile : profiles()) {
    EXPECT_TRUE(names.insert(profile.name).second) << profile.name;
    EXPECT_EQ(find_profile(profile.name), &profile);
    EXPECT_GE(profile.tensor_flops.value, profile.fp32_flops.value) << profile.name;
    for (const char* source :
         {profile.memory_bytes.source, profile.fp32_flops.source, profile.tensor_flops.source,
          profile.memory_bandwidth.source, profile.link_to_device.source, profile.link_to_host.source,
          profile.launch.source, profile.compute_capability.source, profile.multiprocessors.source,
          profile.page_bytes.source, profile.host.launch.source, profile.host.map.source}) {
      EXPECT_GT(std::string(source).size(), 10u) << profile.name;
    }
  }
  EXPECT_STREQ(profiles()[0].name, "reference");
  EXPECT_EQ(find_profile("abacus"), nullptr);
}

}  // namespace
}  // namespace simulator
