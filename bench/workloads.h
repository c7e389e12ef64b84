// SPDX-License-Identifier: Apache-2.0
// Shared by the benchmarks: an engine over the null driver, a second live thread (glibc omits lock prefixes while there
// is only one thread, and no program that uses a GPU has only one), and sizes.
#pragma once

#include <cmath>
#include <cstdint>
#include <future>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "bench/null_driver.h"
#include "driver/check.h"
#include "driver/driver.h"
#include "driver/table.h"
#include "offload/engine/engine.h"

namespace thermocline::bench {

// Sleeps until it is destroyed.
class SecondThread {
 public:
  SecondThread() : thread_([this] { end_.get_future().wait(); }) {}
  ~SecondThread() {
    end_.set_value();
    thread_.join();
  }

 private:
  std::promise<void> end_;
  std::thread thread_;
};

inline const DriverTable& null_table() {
  static const DriverTable table = [] {
    DriverTable loaded;
    THERMOCLINE_CHECK(open_driver(nullptr, &loaded, nullptr).ok(), "The null driver stands beside the benchmark.");
    return loaded;
  }();
  return table;
}

// An engine as users get it, with the default policy. `page_bytes` 0: the page size that the engine chooses.
inline std::unique_ptr<Engine> make_engine(Bytes page_bytes = 0) {
  EngineOptions options;
  options.policy = kLearnedPolicy;
  options.page_bytes = page_bytes;
  std::unique_ptr<Engine> engine;
  THERMOCLINE_CHECK(Engine::create(Driver(null_table()), options, &engine).ok(), "The null driver refuses nothing.");
  return engine;
}

inline DeviceAddress allocate(Engine& engine, Bytes bytes, StreamHandle stream) {
  DeviceAddress address;
  THERMOCLINE_CHECK(engine.allocate(bytes, stream, &address).ok(), "There is room in the benchmark's device.");
  return address;
}

inline void release(Engine& engine, DeviceAddress address, StreamHandle stream) {
  THERMOCLINE_CHECK(engine.free(address, stream).ok(), "What was allocated is freed.");
}

// Sizes from 512 bytes to 16 MiB, uniform in the logarithm.
inline std::vector<Bytes> log_uniform_sizes(std::size_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> exponent(std::log2(512.0), std::log2(16.0 * 1024 * 1024));
  std::vector<Bytes> sizes(count);
  for (Bytes& size : sizes) size = static_cast<Bytes>(std::exp2(exponent(random)));
  return sizes;
}

}  // namespace thermocline::bench
