// SPDX-License-Identifier: Apache-2.0
// Runs a pattern of allocator_bench a given number of times, for valgrind to count the instructions of the library's
// own functions: these counts do not depend on how busy the machine is. tests/bench compares them with
// bench/instructions.json.
//
// instructions SHAPE TIMES
#include <cstdio>
#include <cstdlib>
#include <string>

#include "bench/workloads.h"

namespace thermocline::bench {
namespace {

constexpr StreamHandle kStream{0x100};

void pair(unsigned long times) {
  const auto engine = make_engine();
  for (unsigned long i = 0; i < times; ++i) release(*engine, allocate(*engine, 1024, kStream), kStream);
}

void churn(unsigned long times, std::size_t live) {
  const auto engine = make_engine();
  std::mt19937_64 random(1);
  // Not std::uniform_real_distribution: its numbers differ from one library to another.
  std::vector<DeviceAddress> buffers(live);
  const auto size = [&random] { return (Bytes{512} << random() % 15) + random() % 512; };
  for (DeviceAddress& buffer : buffers) buffer = allocate(*engine, size(), kStream);
  for (unsigned long i = 0; i < times; ++i) {
    DeviceAddress& buffer = buffers[random() % buffers.size()];
    release(*engine, buffer, kStream);
    buffer = allocate(*engine, size(), kStream);
  }
}

void operate(unsigned long times) {
  const auto engine = make_engine();
  const MemoryAccess accesses[] = {{allocate(*engine, 3 * kMiB, kStream)}, {allocate(*engine, 1024, kStream)}};
  for (unsigned long i = 0; i < times; ++i) {
    Operation operation = engine->begin(kStream, accesses, {.kind = 1 + i % 7});
    THERMOCLINE_CHECK(operation.status().ok(), "Everything fits.");
    operation.commit();
  }
}

}  // namespace
}  // namespace thermocline::bench

int main(int argc, char** argv) {
  const std::string shape = argc >= 3 ? argv[1] : "";
  const unsigned long times = argc >= 3 ? std::strtoul(argv[2], nullptr, 10) : 0;
  const std::size_t live = argc == 4 ? std::strtoul(argv[3], nullptr, 10) : 1000;
  if (shape == "pair") {
    thermocline::bench::pair(times);
  } else if (shape == "churn") {
    thermocline::bench::churn(times, live);
  } else if (shape == "operate") {
    thermocline::bench::operate(times);
  } else {
    std::fputs("usage: instructions pair|churn|operate TIMES [LIVE]\n", stderr);
    return 2;
  }
}
