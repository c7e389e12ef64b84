// SPDX-License-Identifier: Apache-2.0
// How fast the simulated device is itself: operations a second with tagged memory behind 2 MiB handles in scattered
// order, as a replay has them, and bytes a second of mixing with real memory.
#include <benchmark/benchmark.h>

#include <cmath>
#include <cstdlib>
#include <vector>

#include "simulator/core/hash.h"
#include "simulator/core/machine.h"

namespace {

using namespace simulator;

void start(const char* memory) {
  const auto machine = Machine::enter();
  machine->reset();
  machine->configure("memory", memory);
  machine->configure("progress", "off");
  if (machine->initialize() != CUDA_SUCCESS) std::abort();
}

// `count` buffers of `bytes` each, whose pages are dealt out in turn, so that no two neighbours are contiguous.
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

// One step of operators that read two buffers and write one, each behind a wait for the other stream's event.
void operators(benchmark::State& state) {
  const auto bytes = static_cast<Bytes>(state.range(0)) << 20;
  start("tagged");
  std::vector<Address> buffers;
  StreamId streams[2];
  EventId event = 0;
  {
    const auto machine = Machine::enter();
    buffers = scattered_buffers(*machine, 16, bytes);
    for (StreamId& stream : streams) stream = machine->create_stream(true);
    event = machine->create_event();
  }
  std::size_t i = 0;
  for (auto _ : state) {
    const StreamId stream = streams[i % 2];
    SimulatedOperand operands[3] = {{buffers[i % 16], bytes, SIMULATED_OPERAND_READ},
                                    {buffers[(i + 5) % 16], bytes, SIMULATED_OPERAND_READ},
                                    {buffers[(i + 9) % 16], bytes, SIMULATED_OPERAND_WRITE}};
    Machine::enter()->stream_wait_event(stream, event);
    simulated_device_control()->launch_operator(reinterpret_cast<void*>(static_cast<std::uintptr_t>(stream)), "gemm",
                                                1e9, 1e6, NAN, operands, 3);
    Machine::enter()->record_event(event, stream);
    if (++i % 64 == 0) Machine::enter()->query_stream(stream);
    if (i % 1024 == 0) Machine::enter()->wait_stream(stream);
  }
  Machine::enter()->wait_all();
  state.SetItemsProcessed(static_cast<std::int64_t>(state.iterations() * 3));  // operator, wait, record
}
BENCHMARK(operators)->Arg(2)->Arg(32)->Arg(400);

// Out and in again, as eviction does.
void copies(benchmark::State& state) {
  const auto bytes = static_cast<Bytes>(state.range(0)) << 20;
  start("tagged");
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
BENCHMARK(copies)->Arg(2)->Arg(32)->Arg(400);

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
