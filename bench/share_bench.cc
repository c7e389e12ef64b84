// SPDX-License-Identifier: Apache-2.0
// The work that two programs do that share a device under budget = "shared", in simulated time, compared with each
// having the device to itself in turn.
//
// share_bench SIMULATOR_LIBRARY DEVICE...
//
// Each DEVICE is a name or a profile file. Prints one JSON object (scripts/share.sh). Two engines on one simulated
// device stand for two processes; leases follow offload/sharing/lease_policy.h, with a look every 10 ms. Each program
// reads and writes buffers that fill 70 % of the device, one after the other. In `bursts` one works for a second while
// the other rests; in `at_once` both work all the time. In `thrashing` both work all the time, with operations that are
// far shorter than it takes to fetch what they need; without time slices, and with slices of 10 s at most
// (offload/sharing/slice_watch.h).
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
#include "offload/sharing/lease_ledger.h"
#include "offload/sharing/lease_policy.h"
#include "offload/sharing/slice_watch.h"
#include "simulator/profile.h"
#include "trace/simulated_device.h"

namespace thermocline::bench {
namespace {

constexpr Bytes kStep = 256 * kMiB;
constexpr std::int64_t kBetweenLooksNs = 10'000'000;
constexpr int kBursts = 10;
// Until it shows what goes on all the time: thrashing does so at once, slices have found their length after a few.
constexpr int kThrashingBursts = 2, kSlicedBursts = 30;
constexpr std::uint64_t kLongestSliceNs = 10'000'000'000;

// The work of the programs.
struct Work {
  Bytes buffer;
  double operation_ms;
  std::uint64_t longest_slice_ns = 0;
  int operations_a_burst() const { return static_cast<int>(1000 / operation_ms); }
};
constexpr Work kLong{.buffer = 64 * kMiB, .operation_ms = 5}, kShort{.buffer = 256 * kMiB, .operation_ms = 0.4},
    kInSlices{.buffer = kShort.buffer, .operation_ms = kShort.operation_ms, .longest_slice_ns = kLongestSliceNs};

struct Process;

// Both processes, in the place of the ledger.
struct Together {
  Bytes capacity = 0;
  std::vector<Sharer> sharers;
  std::vector<SliceSharer> slices;
  std::vector<std::unique_ptr<Process>> processes;

  // As LeaseLedger::look shows them.
  std::vector<Sharer> view() const {
    std::vector<Sharer> now = sharers;
    rest_out_of_turn(slices, now_ns, now);
    return now;
  }
  bool lacks_memory() const {
    return LeaseView{.capacity = capacity, .sharers = sharers, .slices = slices, .self = 0}.lacks_memory();
  }
  std::uint64_t now_ns = 0;
};

struct Process final : BudgetSource {
  Process(Together& all_in, std::size_t self_in, const Work& work_in)
      : all(all_in), self(self_in), work(work_in), slices(work_in.longest_slice_ns) {}

  Bytes raise(Bytes wanted) override {
    sharer().demand = std::max(sharer().demand, wanted);
    return grow();
  }
  Bytes grow() override {
    return sharer().lease = std::max(sharer().lease, next_lease(all.capacity, all.view(), self));
  }
  void lowered(Bytes budget) override { sharer().lease = budget; }
  bool may_have_later(Bytes) override { return false; }
  Bytes share() override { return fair_share(all.capacity, all.sharers, self); }
  bool needs_times() const override { return work.longest_slice_ns > 0; }
  Sharer& sharer() { return all.sharers[self]; }

  void look(std::uint64_t now_ns) {
    const auto use = engine->try_budget_use();
    sharer().demand = use->demand;
    // A process that waits for its slice is not at rest.
    const std::uint64_t active_until_ns = watch.look(now_ns, use->activity, use->works);
    sharer().is_active = slices.is_out_of_turn() || active_until_ns >= now_ns;
    all.slices[self].is_active = sharer().is_active;
    all.slices[self].record = slices.look(now_ns, use->times, all.slices, self, all.lacks_memory());
  }
  // As hooks/entry/lease_thread.cc.
  void change() {
    const Bytes next = next_lease(all.capacity, all.view(), self);
    const Bytes now = sharer().lease;
    if (next > now) engine->raise_budget();
    if (next < now) static_cast<void>(engine->lower_budget(std::max(next, now - std::min(now, kStep))));
  }

  Together& all;
  const std::size_t self;
  const Work work;
  SliceWatch slices;
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
  for (Bytes done = 0; done + process.work.buffer <= bytes; done += process.work.buffer) {
    DeviceAddress at;
    THERMOCLINE_CHECK(process.engine->allocate(process.work.buffer, std::nullopt, &at).ok(), "There is room.");
    process.buffers.push_back(at);
  }
}

// The host keeps one operation ahead: it waits for the one before, while this one runs.
void operate(const SimulatedDevice& device, Process& process) {
  const DeviceAddress at = process.buffers[process.next_buffer++ % process.buffers.size()];
  const MemoryAccess access{at, process.work.buffer, Access::kUnknown};
  Operation operation = process.engine->begin(process.stream, {&access, 1});
  THERMOCLINE_CHECK(operation.status().ok(), "It runs.");
  const SimulatedOperand operand{at.value, process.work.buffer, SIMULATED_OPERAND_READ | SIMULATED_OPERAND_WRITE};
  device.control().launch_operator(reinterpret_cast<void*>(process.stream), "work", 0, 0,
                                   process.work.operation_ms * 1e3, &operand, 1);
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
  all.now_ns = static_cast<std::uint64_t>(now);
  for (const auto& one : all.processes) one->look(static_cast<std::uint64_t>(now));
  for (const auto& one : all.processes) one->change();
}

// Milliseconds for `bursts` bursts. `burst`: operations of one before the other's turn.
double run_once(const std::string& library, const char* profile, Bytes device_bytes, std::size_t count, int burst,
                const Work& work, int bursts) {
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
    all.slices.push_back({.is_active = true});
    all.processes.push_back(std::make_unique<Process>(all, i, work));
  }
  for (const auto& one : all.processes)
    begin(*device, *one, count == 1 ? all.capacity : minimum, device_bytes / 10 * 7);
  std::int64_t begun_ns = 0, looked_ns = 0;
  const int all_operations = bursts * work.operations_a_burst();
  // The first two bursts fill the memory of both.
  const int filling = 2 * work.operations_a_burst();
  for (int i = 0; i < all_operations + filling; ++i) {
    if (i == filling) begun_ns = device->control().now_ns();
    std::size_t turn = static_cast<std::size_t>(i / burst) % count;
    if (all.processes[turn]->slices.is_out_of_turn()) turn = 1 - turn;
    Process& process = *all.processes[turn];
    operate(*device, process);
    if ((i + 1) % burst == 0) end_turn(*device, process);
    if (count > 1) look_at_all(*device, all, &looked_ns);
  }
  return static_cast<double>(device->control().now_ns() - begun_ns) / 1e6;
}

void measure(const std::string& library, const char* profile, Bytes device_bytes, bool is_first) {
  const auto run = [&](std::size_t count, int burst, const Work& work, int bursts) {
    return run_once(library, profile, device_bytes, count, burst, work, bursts);
  };
  const int burst = kLong.operations_a_burst();
  const double alone_ms = run(1, burst, kLong, kBursts);
  const double bursts_ms = run(2, burst, kLong, kBursts);
  const double at_once_ms = run(2, 1, kLong, kBursts);
  const double burst_ms = run(1, 1, kShort, kThrashingBursts) / kThrashingBursts;
  const double thrashing_ms = run(2, 1, kShort, kThrashingBursts);
  const double sliced_ms = run(2, 1, kInSlices, kSlicedBursts);
  std::printf(
      "%s\n    {\"device\": \"%s\", \"memory_gib\": %.0f, \"exclusive_ms\": %.0f, \"bursts_ms\": %.0f, "
      "\"bursts_throughput\": %.3f, \"at_once_ms\": %.0f, \"at_once_throughput\": %.3f, "
      "\"thrashing_throughput\": %.3f, \"sliced_throughput\": %.3f}",
      is_first ? "" : ",", profile, static_cast<double>(device_bytes) / static_cast<double>(kGiB), alone_ms, bursts_ms,
      alone_ms / bursts_ms, at_once_ms, alone_ms / at_once_ms, burst_ms * kThrashingBursts / thrashing_ms,
      burst_ms * kSlicedBursts / sliced_ms);
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
