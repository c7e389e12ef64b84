// SPDX-License-Identifier: Apache-2.0
// The work that two programs do that share a device under budget = "shared", in simulated time, compared with each
// having the device to itself in turn.
//
// share_bench SIMULATOR_LIBRARY DEVICE...
//
// Each DEVICE is a name or a profile file. Prints one JSON object (scripts/share.sh). Two engines on one simulated
// device stand for two processes; leases follow offload/sharing/lease_policy.h, with a look every 10 ms. Each program
// reads and writes buffers that fill 70 % of the device, one after the other. In `bursts` one works for a second while
// the other rests; in `at_once` both work all the time.
#include <algorithm>
#include <array>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "driver/check.h"
#include "offload/engine/engine.h"
#include "offload/sharing/activity_watch.h"
#include "offload/sharing/budget_source.h"
#include "offload/sharing/lease_policy.h"
#include "simulator/profile.h"
#include "trace/simulated_device.h"

namespace thermocline::bench {
namespace {

constexpr Bytes kBuffer = 64 * kMiB;
constexpr Bytes kStep = 256 * kMiB;
constexpr std::int64_t kBetweenLooksNs = 10'000'000;
constexpr double kOperationMs = 5;
constexpr int kOperationsABurst = 200;  // a second
constexpr int kBursts = 10;

struct Process;

// Both processes, in the place of the ledger.
struct Together {
  Bytes capacity = 0;
  std::vector<Sharer> sharers;
  std::vector<std::unique_ptr<Process>> processes;
};

struct Process final : BudgetSource {
  Process(Together& all_in, std::size_t self_in) : all(all_in), self(self_in) {}

  Bytes raise(Bytes wanted) override {
    sharer().demand = std::max(sharer().demand, wanted);
    return grow();
  }
  Bytes grow() override {
    return sharer().lease = std::max(sharer().lease, next_lease(all.capacity, all.sharers, self));
  }
  void lowered(Bytes budget) override { sharer().lease = budget; }
  bool may_have_later(Bytes) override { return false; }
  Bytes share() override { return fair_share(all.capacity, all.sharers, self); }
  Sharer& sharer() { return all.sharers[self]; }

  void look(std::uint64_t now_ns) {
    const auto use = engine->try_budget_use();
    sharer().demand = use->demand;
    sharer().is_active = watch.look(now_ns, use->activity, use->works) >= now_ns;
  }
  // As hooks/entry/lease_thread.cc.
  void change() {
    const Bytes next = next_lease(all.capacity, all.sharers, self);
    const Bytes now = sharer().lease;
    if (next > now) engine->raise_budget();
    if (next < now) static_cast<void>(engine->lower_budget(std::max(next, now - std::min(now, kStep))));
  }

  Together& all;
  const std::size_t self;
  std::unique_ptr<Engine> engine;
  StreamHandle stream;
  std::array<EventHandle, 2> ends{};  // of its last two operations
  std::vector<DeviceAddress> buffers;
  std::size_t next_buffer = 0;
  ActivityWatch watch;
};

void begin(const SimulatedDevice& device, Process& process, Bytes budget, Bytes bytes) {
  EngineOptions options;
  options.host_is_readable = false;
  options.budget_bytes = budget;
  options.budget_source = process.all.sharers.size() > 1 ? &process : nullptr;
  THERMOCLINE_CHECK(Engine::create(device.driver(), options, &process.engine).ok(), "An engine begins.");
  THERMOCLINE_CHECK(device.driver().create_stream(&process.stream).ok(), "A stream begins.");
  for (EventHandle& end : process.ends)
    THERMOCLINE_CHECK(device.driver().create_event(false, &end).ok(), "An event begins.");
  for (Bytes done = 0; done < bytes; done += kBuffer) {
    DeviceAddress at;
    THERMOCLINE_CHECK(process.engine->allocate(kBuffer, std::nullopt, &at).ok(), "There is room.");
    process.buffers.push_back(at);
  }
}

// The host keeps one operation ahead: it waits for the one before, while this one runs.
void operate(const SimulatedDevice& device, Process& process) {
  const DeviceAddress at = process.buffers[process.next_buffer++ % process.buffers.size()];
  const MemoryAccess access{at, kBuffer, Access::kUnknown};
  Operation operation = process.engine->begin(process.stream, {&access, 1});
  THERMOCLINE_CHECK(operation.status().ok(), "It runs.");
  const SimulatedOperand operand{at.value, kBuffer, SIMULATED_OPERAND_READ | SIMULATED_OPERAND_WRITE};
  device.control().launch_operator(reinterpret_cast<void*>(process.stream), "work", 0, 0, kOperationMs * 1e3, &operand,
                                   1);
  operation.commit();
  const std::size_t turn = process.next_buffer % process.ends.size();
  THERMOCLINE_CHECK(device.driver().record(process.ends[turn], process.stream).ok(), "An event is recorded.");
  THERMOCLINE_CHECK(device.driver().synchronize(process.ends[1 - turn]).ok(), "The device runs.");
}

void end_turn(const SimulatedDevice& device, Process& process) {
  THERMOCLINE_CHECK(device.driver().synchronize_stream(process.stream).ok(), "The device runs.");
  process.engine->synchronized(process.stream);
}

void look_at_all(const SimulatedDevice& device, Together& all, std::int64_t* looked_ns) {
  const std::int64_t now = device.control().now_ns();
  if (now - *looked_ns < kBetweenLooksNs) return;
  *looked_ns = now;
  for (const auto& one : all.processes) one->look(static_cast<std::uint64_t>(now));
  for (const auto& one : all.processes) one->change();
}

// Milliseconds for kBursts bursts. `burst`: operations of one before the other's turn.
double run_once(const std::string& library, const char* profile, Bytes device_bytes, std::size_t count, int burst) {
  std::string why;
  SimulatedDeviceOptions simulated;
  simulated.library = library;
  simulated.profile = profile;
  simulated.memory_bytes = device_bytes;
  const auto device = SimulatedDevice::open(simulated, &why);
  THERMOCLINE_CHECK(device != nullptr, "The simulated device opens.");
  Together all;
  all.capacity = device_bytes - count * reserve_of_process(device_bytes);
  const Bytes minimum = device_bytes / 10;
  for (std::size_t i = 0; i < count; ++i) {
    all.sharers.push_back({.minimum = minimum, .lease = minimum, .is_active = true});
    all.processes.push_back(std::make_unique<Process>(all, i));
  }
  for (const auto& one : all.processes)
    begin(*device, *one, count == 1 ? all.capacity : minimum, device_bytes / 10 * 7 / kBuffer * kBuffer);
  std::int64_t begun_ns = 0, looked_ns = 0;
  const int all_operations = kBursts * kOperationsABurst;
  // The first two bursts fill the memory of both.
  for (int i = 0; i < all_operations + 2 * kOperationsABurst; ++i) {
    if (i == 2 * kOperationsABurst) begun_ns = device->control().now_ns();
    Process& process = *all.processes[static_cast<std::size_t>(i / burst) % count];
    operate(*device, process);
    if ((i + 1) % burst == 0) end_turn(*device, process);
    if (count > 1) look_at_all(*device, all, &looked_ns);
  }
  return static_cast<double>(device->control().now_ns() - begun_ns) / 1e6;
}

void measure(const std::string& library, const char* profile, Bytes device_bytes, bool is_first) {
  const double alone_ms = run_once(library, profile, device_bytes, 1, kOperationsABurst);
  const double bursts_ms = run_once(library, profile, device_bytes, 2, kOperationsABurst);
  const double at_once_ms = run_once(library, profile, device_bytes, 2, 1);
  std::printf(
      "%s\n    {\"device\": \"%s\", \"memory_gib\": %.0f, \"exclusive_ms\": %.0f, \"bursts_ms\": %.0f, "
      "\"bursts_throughput\": %.3f, \"at_once_ms\": %.0f, \"at_once_throughput\": %.3f}",
      is_first ? "" : ",", profile, static_cast<double>(device_bytes) / static_cast<double>(kGiB), alone_ms, bursts_ms,
      alone_ms / bursts_ms, at_once_ms, alone_ms / at_once_ms);
}

}  // namespace
}  // namespace thermocline::bench

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: share_bench SIMULATOR_LIBRARY DEVICE...\n");
    return 2;
  }
  std::printf("{\"schema\": \"thermocline-bench-share/1\", \"rows\": [");
  bool is_first = true;
  for (int i = 2; i < argc; ++i) {
    for (const thermocline::Bytes gib : {4, 16}) {
      thermocline::bench::measure(argv[1], argv[i], gib << 30, is_first);
      is_first = false;
    }
  }
  std::printf("\n]}\n");
  return 0;
}
