// SPDX-License-Identifier: Apache-2.0
// The speed of the simulated device itself: operations per second with tagged memory in 2 MiB handles in scattered
// order, as in a replay, and bytes per second of mixing with real memory.
#include <benchmark/benchmark.h>

#include <cmath>
#include <cstdlib>
#include <vector>

#include "simulator/core/hash.h"
#include "simulator/core/machine/machine.h"

namespace {

using namespace simulator;

void start(const char* memory, bool checked = false) {
  const auto machine = Machine::enter();
  machine->reset();
  machine->configure("memory", memory);
  machine->configure("progress", "off");
  machine->configure("check", checked ? "1" : "0");
  if (machine->initialize() != CUDA_SUCCESS) std::abort();
}

// `count` buffers of `bytes` each, whose pages are allocated in turn, so that no two adjacent pages are contiguous in
// the store.
std::vector<Address> scattered_buffers(Machine& machine, std::size_t count, Bytes bytes) {
  std::vector<Address> buffers(count);
  for (Address& at : buffers) machine.reserve(bytes, 0, 0, &at);
  for (Bytes offset = 0; offset < bytes; offset += kPageBytes) {
    for (const Address at : buffers) {
      PhysicalId id = 0;
      machine.create_physical(kPageBytes, &id);
      machine.map(at + offset, kPageBytes, 0, id);
    }
  }
  for (const Address at : buffers) machine.set_access(at, bytes, Access::kReadWrite);
  return buffers;
}

// One step of operators that read two buffers and write one, each after a wait for the other stream's event.
class Operators {
 public:
  Operators(Bytes bytes, bool checked) : bytes_(bytes) {
    start("tagged", checked);
    const auto machine = Machine::enter();
    buffers_ = scattered_buffers(*machine, 16, bytes);
    for (StreamId& stream : streams_) stream = machine->create_stream(true);
    event_ = machine->create_event();
  }

  static constexpr std::int64_t kEvents = 3;  // operator, wait, record

  void run_one() {
    const StreamId stream = streams_[i_ % 2];
    SimulatedOperand operands[3] = {{buffers_[i_ % 16], bytes_, SIMULATED_OPERAND_READ},
                                    {buffers_[(i_ + 5) % 16], bytes_, SIMULATED_OPERAND_READ},
                                    {buffers_[(i_ + 9) % 16], bytes_, SIMULATED_OPERAND_WRITE}};
    Machine::enter()->stream_wait_event(stream, event_);
    simulated_device_control()->launch_operator(reinterpret_cast<void*>(static_cast<std::uintptr_t>(stream)), "gemm",
                                                1e9, 1e6, NAN, operands, 3);
    Machine::enter()->record_event(event_, stream);
    if (++i_ % 64 == 0) Machine::enter()->query_stream(stream);
    if (i_ % 1024 == 0) Machine::enter()->wait_stream(stream);
  }

 private:
  const Bytes bytes_;
  std::vector<Address> buffers_;
  StreamId streams_[2];
  EventId event_ = 0;
  std::size_t i_ = 0;
};

// Arguments: MiB of each buffer; with the race checker or without.
void operators(benchmark::State& state) {
  Operators program(static_cast<Bytes>(state.range(0)) << 20, state.range(1) != 0);
  for (auto _ : state) program.run_one();
  Machine::enter()->wait_all();
  state.SetItemsProcessed(static_cast<std::int64_t>(state.iterations()) * Operators::kEvents);
}
BENCHMARK(operators)->ArgsProduct({{2, 32, 400}, {0, 1}})->ArgNames({"MiB", "check"});

// Many events since the start of a device: the cost of one must not grow with their number.
void run_of_events(benchmark::State& state) {
  const std::int64_t events = state.range(0);
  for (auto _ : state) {
    Operators program(Bytes{2} << 20, state.range(1) != 0);
    for (std::int64_t i = 0; i < events; i += Operators::kEvents) program.run_one();
    Machine::enter()->wait_all();
  }
  state.SetItemsProcessed(events);
}
BENCHMARK(run_of_events)
    ->ArgsProduct({{10'000, 100'000, 1'000'000, 10'000'000}, {0, 1}})
    ->ArgNames({"events", "check"})
    ->Iterations(1)
    ->Unit(benchmark::kMillisecond);

// To the host and back, as eviction does.
void copies(benchmark::State& state) {
  const auto bytes = static_cast<Bytes>(state.range(0)) << 20;
  start("tagged", state.range(1) != 0);
  const auto machine = Machine::enter();
  const std::vector<Address> buffers = scattered_buffers(*machine, 8, bytes);
  const StreamId stream = machine->create_stream(true);
  void* host = nullptr;
  machine->allocate_host(8 * bytes, &host);
  std::size_t i = 0;
  for (auto _ : state) {
    const std::size_t which = i++ % 8;
    const Address pinned = reinterpret_cast<Address>(host) + which * bytes;
    const Shape shape{bytes};
    Operator op;
    op.name = "write";
    op.operands.push_back({buffers[which], bytes, false, true, false});
    machine->submit(stream, std::move(op));
    machine->submit(stream, Copy{Direction::kToHost, pinned, buffers[which], shape, shape, {}});
    machine->submit(stream, Copy{Direction::kToDevice, buffers[which], pinned, shape, shape, {}});
    if (i % 256 == 0) machine->wait_stream(stream);
  }
  machine->wait_all();
  state.SetItemsProcessed(static_cast<std::int64_t>(state.iterations() * 3));
}
BENCHMARK(copies)->ArgsProduct({{2, 32, 400}, {0, 1}})->ArgNames({"MiB", "check"});

void digest(benchmark::State& state) {
  const std::vector<char> data(64 << 20, 1);
  for (auto _ : state) benchmark::DoNotOptimize(hash_bytes(data.data(), data.size(), 1));
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations() * data.size()));
}
BENCHMARK(digest);

void derive(benchmark::State& state) {
  std::vector<char> data(64 << 20, 1);
  for (auto _ : state) {
    derive_bytes(data.data(), data.size(), 1);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations() * data.size()));
}
BENCHMARK(derive);

}  // namespace

BENCHMARK_MAIN();
