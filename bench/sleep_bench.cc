// SPDX-License-Identifier: Apache-2.0
// How long sleep and wake take on the simulated device, in its time, next to what its link and its driver allow.
//
// sleep_bench SIMULATOR_LIBRARY
//
// Prints one JSON object. The bound of a sleep is bytes / link. That of a wake is the larger of bytes / link and the
// time that the driver takes to create the pages again. On the simulated device pinned host memory costs no time.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>

#include "driver/check.h"
#include "driver/page_size.h"
#include "offload/engine/engine.h"
#include "simulator/profile.h"
#include "trace/simulated_device.h"

namespace thermocline::bench {
namespace {

constexpr Bytes kGiB = Bytes{1} << 30;

struct Shape {
  const char* name;
  Bytes buffer;
  Bytes all;
};
constexpr Shape kShapes[] = {{"weights: buffers of 256 MiB", 256 * kMiB, 16 * kGiB},
                             {"layers: buffers of 24 MiB", 24 * kMiB, 12 * kGiB},
                             {"small: buffers of 300 KiB", 300 * kKiB, kGiB}};

double ms_since(const SimulatedDevice& device, std::int64_t begun) {
  return static_cast<double>(device.control().now_ns() - begun) / 1e6;
}

void measure(const std::string& library, const char* profile, const Shape& shape, bool is_first) {
  std::string why;
  SimulatedDeviceOptions simulated;
  simulated.library = library;
  simulated.profile = profile;
  const auto device = SimulatedDevice::open(simulated, &why);
  THERMOCLINE_CHECK(device != nullptr, "The simulated device opens.");
  EngineOptions options;
  options.host_is_readable = false;
  std::unique_ptr<Engine> engine;
  THERMOCLINE_CHECK(Engine::create(device->driver(), options, &engine).ok(), "An engine begins.");
  for (Bytes done = 0; done < shape.all; done += shape.buffer) {
    DeviceAddress at;
    THERMOCLINE_CHECK(engine->allocate(shape.buffer, std::nullopt, &at).ok(), "There is room.");
    const MemoryAccess access{at, shape.buffer, Access::kUnknown};
    Operation operation = engine->begin(StreamHandle{}, {&access, 1});
    const SimulatedOperand operand{at.value, shape.buffer, SIMULATED_OPERAND_WRITE};
    device->control().launch_operator(nullptr, "fill", 0, 0, 1, &operand, 1);
    operation.commit();
  }
  THERMOCLINE_CHECK(device->driver().synchronize_context().ok(), "The device runs.");
  engine->synchronized_all();

  const simulator::Profile& facts = *simulator::find_profile(profile);
  SleepReport report;
  std::int64_t begun = device->control().now_ns();
  THERMOCLINE_CHECK(engine->sleep({.waits = true}, &report).ok() && report.device_bytes == 0, "All of it sleeps.");
  const double sleep_ms = ms_since(*device, begun);
  const double out_ms = static_cast<double>(report.copied_bytes) / facts.link_to_host.value * 1e3;
  begun = device->control().now_ns();
  THERMOCLINE_CHECK(engine->wake({}, &report).ok() && report.asleep_bytes == 0, "All of it wakes.");
  const double wake_ms = ms_since(*device, begun);
  const double in_ms = static_cast<double>(report.copied_bytes) / facts.link_to_device.value * 1e3;
  const double create_ms = static_cast<double>(report.device_bytes) / static_cast<double>(kDefaultPageBytes) *
                           static_cast<double>(facts.host.create_page.value) / 1e6;
  begun = device->control().now_ns();
  THERMOCLINE_CHECK(engine->sleep({.waits = true}, &report).ok() && report.device_bytes == 0, "All of it sleeps.");
  const double again_ms = ms_since(*device, begun);
  std::printf(
      "%s\n    {\"device\": \"%s\", \"shape\": \"%s\", \"bytes\": %llu, \"sleep_ms\": %.1f, \"out_ms\": %.1f, "
      "\"sleep_over_link\": %.3f, \"wake_ms\": %.1f, \"in_ms\": %.1f, \"create_ms\": %.1f, \"wake_over_link\": %.3f, "
      "\"wake_over_bound\": %.3f, \"sleep_of_what_is_clean_ms\": %.1f}",
      is_first ? "" : ",", profile, shape.name, static_cast<unsigned long long>(report.asleep_bytes), sleep_ms, out_ms,
      sleep_ms / out_ms, wake_ms, in_ms, create_ms, wake_ms / in_ms, wake_ms / std::max(in_ms, create_ms), again_ms);
}

int run(const std::string& library) {
  std::printf("{\"schema\": \"thermocline-bench-sleep/1\", \"rows\": [");
  bool is_first = true;
  for (const char* profile : {"reference", "a100-40g", "h100-80g"}) {
    for (const Shape& shape : kShapes) measure(library, profile, shape, std::exchange(is_first, false));
  }
  std::printf("\n]}\n");
  return 0;
}

}  // namespace
}  // namespace thermocline::bench

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: sleep_bench SIMULATOR_LIBRARY\n");
    return 2;
  }
  return thermocline::bench::run(argv[1]);
}
