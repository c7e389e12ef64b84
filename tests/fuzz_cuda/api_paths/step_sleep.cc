// SPDX-License-Identifier: Apache-2.0
// The program sleeps, or wakes, if the library is there and programs are to sleep. While a stream captures a graph the
// library refuses.
#include <dlfcn.h>

#include "include/thermocline/thermocline.h"
#include "tests/fuzz_cuda/api_path.h"

namespace {
using namespace model;

using Call = thermocline_result (*)(thermocline_sleep_report*);

bool call(World& world, const char* name, thermocline_sleep_report* report) {
  if (world.options.sleeps == 0) return false;
  const auto found = reinterpret_cast<Call>(dlsym(RTLD_DEFAULT, name));
  if (found == nullptr) return false;
  report->size = sizeof *report;
  const thermocline_result result = found(report);
  if (result == THERMOCLINE_NOT_READY || result == THERMOCLINE_NOT_ACTIVE) return false;
  CHECK_CUDA(static_cast<CUresult>(result));
  return true;
}

void sleep(World& world) {
  thermocline_sleep_report report{};
  if (!call(world, "thermocline_sleep", &report)) return;
  const std::uint64_t told =
      report.pinned_bytes + report.external_bytes + report.in_use_bytes + report.no_host_bytes + report.other_bytes;
  if (told != report.device_bytes) world.fail("what stays does not add up", told, report.device_bytes);
}

void wake(World& world) {
  thermocline_sleep_report report{};
  static_cast<void>(call(world, "thermocline_wake", &report));
}

const Registered<Step> one({{"sleep", 1}, sleep});
const Registered<Step> two({{"wake", 1}, wake});
}  // namespace
